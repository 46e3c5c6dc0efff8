// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares libtorch training steps whose gradients are averaged by kolo and by libtorch's c10d over Gloo. Usage: torch_against_gloo [RANKS...]
#include <kolo/adapt/torch.hpp>

#define USE_C10D_GLOO
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using group = c10::intrusive_ptr<c10d::ProcessGroup>;
using network = torch::nn::Sequential;
constexpr int bursts = 15;

/// Four dense layers, two of them with width x width weights; the same values on every rank and in every call.
network network_of(std::int64_t width) {
  using torch::nn::Linear, torch::nn::Tanh;
  torch::manual_seed(1);
  return network{Linear{64, width},    Tanh{}, Linear{width, width}, Tanh{},
                 Linear{width, width}, Tanh{}, Linear{width, 10}};
}

template <class Comm>
group gloo_group(Comm& comm) {
  std::string path = "/tmp/kolo-against-gloo-XXXXXX";
  if (comm.rank() == 0)
    if (const int file = ::mkstemp(path.data()); file >= 0) ::close(file);
  kolo::broadcast_object(comm, path);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  auto made = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::FileStore>(path, comm.size()),
                                                          comm.rank(), comm.size(), options);
  kolo::barrier(comm);  // all ranks have connected
  if (comm.rank() == 0) ::unlink(path.c_str());
  return made;
}

/// Copies all gradients into one vector, averages it, and copies them back, as a simple program does.
void average_flat(c10d::ProcessGroup& by, const std::vector<torch::Tensor>& parameters) {
  const torch::NoGradGuard no_graph;
  std::vector<torch::Tensor> flat;
  for (const auto& p : parameters) flat.push_back(p.grad().flatten());
  std::vector<torch::Tensor> all{torch::cat(flat)};
  by.allreduce(all)->wait();
  all[0] /= by.getSize();
  std::int64_t first = 0;
  for (const auto& p : parameters) p.grad().copy_(all[0].narrow(0, first, p.numel()).view_as(p)), first += p.numel();
}

/// Like Python's DistributedDataParallel (whose C++ part includes a header that Debian's libtorch lacks): gradients are views of buckets of 1 and then
/// 25 MiB, from the last parameter to the first; the allreduce of a bucket starts as soon as backward() has filled it.
class bucketed {
 public:
  bucketed(group by, std::vector<torch::Tensor> parameters) : by_{std::move(by)} {
    std::int64_t elements = 0;
    std::vector<torch::Tensor> bucket;
    for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
      bucket.push_back(*p), elements += p->numel();
      if (4 * elements < (buckets_.empty() ? 1 << 20 : 25 << 20) && p + 1 != parameters.rend()) continue;
      add(bucket, elements);
      bucket.clear(), elements = 0;
    }
  }
  void zero_grad() {
    for (one& b : buckets_) b.all[0].zero_();
  }
  /// Call after backward().
  void finish() {
    for (auto& w : in_flight_) w->wait();
    in_flight_.clear();
    for (one& b : buckets_) b.all[0] /= by_->getSize(), b.missing = b.size;
  }

 private:
  struct one {
    std::vector<torch::Tensor> all;  // one vector
    std::size_t size, missing;
  };

  void add(const std::vector<torch::Tensor>& parameters, std::int64_t elements) {
    const std::size_t b = buckets_.size();
    buckets_.push_back({{torch::zeros({elements})}, parameters.size(), parameters.size()});
    std::int64_t first = 0;
    for (const auto& p : parameters) {
      p.mutable_grad() = buckets_[b].all[0].narrow(0, first, p.numel()).view_as(p), first += p.numel();
      nodes_.push_back(torch::autograd::impl::grad_accumulator(p));
      nodes_.back()->add_post_hook(
          std::make_unique<torch::autograd::utils::LambdaPostHook>([this, b](const auto& outputs, const auto&) {
            if (--buckets_[b].missing == 0) in_flight_.push_back(by_->allreduce(buckets_[b].all));
            return outputs;
          }));
    }
  }

  group by_;
  std::vector<one> buckets_;
  std::vector<std::shared_ptr<torch::autograd::Node>> nodes_;
  std::vector<c10::intrusive_ptr<c10d::Work>> in_flight_;
};

/// Milliseconds per step on the slowest rank for each way: medians over bursts; in each burst all ways are measured in turn.
template <class Comm>
std::vector<double> measured(Comm& comm, const std::vector<std::function<void()>>& ways, int steps) {
  std::vector<std::vector<double>> taken(ways.size());
  for (int burst = -2; burst < bursts; ++burst)  // the first two are warm-up
    for (std::size_t w = 0; w < ways.size(); ++w) {
      kolo::barrier(comm);
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < steps; ++i) ways[w]();
      double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / steps;
      kolo::allreduce(comm, std::span{&ms, 1}, kolo::max);
      if (burst >= 0) taken[w].push_back(ms);
    }
  std::vector<double> medians;
  for (auto& t : taken) std::nth_element(t.begin(), t.begin() + bursts / 2, t.end()), medians.push_back(t[bursts / 2]);
  return medians;
}

double distance(const network& a, const network& b) {
  double most = 0;
  for (std::size_t i = 0; i < a->parameters().size(); ++i)
    most = std::max(most, (a->parameters()[i] - b->parameters()[i]).abs().max().item<double>());
  return most;
}

/// Prints one line of the table. Returns the largest difference of final parameters between Gloo and kolo.
template <class Comm>
double compare(Comm& comm, const group& gloo, std::int64_t width, int steps) {
  const auto noise = at::detail::createCPUGenerator(static_cast<std::uint64_t>(comm.rank()));
  // This rank's batch: small, so that the exchange takes a large part of a step.
  const auto x = torch::rand({1, 64}, noise), y = torch::rand({1, 10}, noise);
  network a = network_of(width), b = network_of(width), c = network_of(width), d = network_of(width);
  torch::optim::SGD alone{a->parameters(), 0.01}, flat{b->parameters(), 0.01}, in_buckets{c->parameters(), 0.01};
  kolo::torch_optimizer by_kolo{comm, torch::optim::SGD{d->parameters(), 0.01}, *d};
  const auto parameters = b->parameters();
  bucketed buckets{gloo, c->parameters()};
  const auto backward = [&](network& n) { torch::mse_loss(n->forward(x), y).backward(); };
  const std::vector<std::function<void()>> ways{
      [&] { alone.zero_grad(), backward(a), alone.step(); },
      [&] { flat.zero_grad(), backward(b), average_flat(*gloo, parameters), flat.step(); },
      [&] { buckets.zero_grad(), backward(c), buckets.finish(), in_buckets.step(); },
      [&] { by_kolo.zero_grad(), backward(d), by_kolo.step(); }};
  const auto first = measured(comm, ways, steps), again = measured(comm, ways, steps);
  std::size_t bytes = 0;
  for (const auto& p : parameters) bytes += p.nbytes();
  kolo::on_root(comm, [&] {
    std::printf("%10zu", bytes);
    for (std::size_t w = 0; w < ways.size(); ++w) std::printf("  %8.3f %8.3f", first[w], again[w]);
    std::printf("\n"), std::fflush(stdout);
  });
  const bool are_trained = distance(a, d) > 0;
  return are_trained ? std::max(distance(b, d), distance(c, d)) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> sizes{2, 4};
  if (argc > 1) sizes.clear();
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  for (const int ranks : sizes) {
    const int status = kolo::shm::launch(ranks, [](auto& comm) {
      torch::set_num_threads(1);
      const group gloo = gloo_group(comm);
      kolo::on_root(comm, [&] {
        std::printf(
            "\n%d ranks: milliseconds per step on the slowest rank; medians of %d bursts of 20, 10 and 3 steps, each "
            "measured twice\n",
            comm.size(), bursts);
        std::printf("%10s  %17s  %17s  %17s  %17s\n", "bytes", "no exchange", "Gloo, one vector", "Gloo, buckets",
                    "kolo");
      });
      double apart = 0;
      for (const auto& [width, steps] : {std::pair{64, 20}, {256, 10}, {1024, 3}})
        apart = std::max(apart, compare(comm, gloo, width, steps));
      kolo::allreduce(comm, std::span{&apart, 1}, kolo::max);
      kolo::on_root(comm, [&] {
        std::printf("final parameters of Gloo and kolo differ by at most %.1e\n", apart), std::fflush(stdout);
      });
      kolo::barrier(comm);
      return apart < 1e-4 ? 0 : 1;
    });
    if (status != 0) return status;
  }
}
