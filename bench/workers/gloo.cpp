// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The group `gloo`: Gloo over TCP on the loopback device, its ranks not bound to cores. Usage: kolo_bench_gloo RANKS
#include "worker.hpp"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <filesystem>

namespace {

using namespace kolo_bench;

float* floats(const std::byte* p) { return reinterpret_cast<float*>(const_cast<std::byte*>(p)); }

void remove(const std::string& directory) {
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

void add(void* c, const void* a, const void* b, std::size_t n) { gloo::sum<float>(c, a, b, n); }

class gloo_backend : public backend {
 public:
  gloo_backend(int rank, int size, const std::string& directory) : directory_{directory} {
    gloo::transport::tcp::attr where;
    where.hostname = "127.0.0.1";
    gloo::rendezvous::FileStore store{directory};
    auto device = gloo::transport::tcp::CreateDevice(where);
    auto made = std::make_shared<gloo::rendezvous::Context>(rank, size);
    made->connectFullMesh(store, device);
    context_ = made;
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  bool wants_a_core() const override { return false; }
  std::string version() const override { return "Gloo, TCP over loopback"; }
  std::string offers() const override {
    return "allreduce/ring\nbroadcast/default\nallgather/default\nreduce/default\ngather/default\nscatter/"
           "default\nalltoall/default\n"
           "barrier/default\n";
  }

  call prepare(const command& c, std::size_t n) override {
    remove(directory_);  // with the first command all ranks are connected
    if (!(c.element == "float")) return {};
    const bool in_place = c.place == "in_place", root = context_->rank == 0;
    if (c.collective == "allreduce")
      return [=, this](const std::byte* in, std::byte* out) { allreduce(in_place, in, out, n); };
    if (c.collective == "barrier")
      return [this](const std::byte*, std::byte*) { run<gloo::BarrierOptions>(gloo::barrier, [](auto&) {}); };
    if (c.collective == "broadcast")
      return [=, this](const std::byte*, std::byte* x) {
        run<gloo::BroadcastOptions>(gloo::broadcast, [&](auto& o) {
          o.setRoot(0);
          o.setOutput(floats(x), n);
        });
      };
    if (in_place) return {};
    if (c.collective == "allgather") return from_to<gloo::AllgatherOptions>(gloo::allgather, n, n * parts());
    if (c.collective == "alltoall") return from_to<gloo::AlltoallOptions>(gloo::alltoall, n, n);
    if (c.collective == "reduce")
      return [=, this](const std::byte* in, std::byte* out) {
        if (!root) own_.resize(n);
        run<gloo::ReduceOptions>(gloo::reduce, [&](auto& o) {
          o.setRoot(0);
          o.setReduceFunction(add);
          o.setInput(floats(in), n);
          o.setOutput(root ? floats(out) : own_.data(), n);  // every rank's output is written
        });
      };
    if (c.collective == "gather")
      return [=, this](const std::byte* in, std::byte* out) {
        run<gloo::GatherOptions>(gloo::gather, [&](auto& o) {
          o.setRoot(0);
          o.setInput(floats(in), n);
          if (root) o.setOutput(floats(out), n * parts());
        });
      };
    if (c.collective == "scatter")
      return [=, this](const std::byte* in, std::byte* out) {
        run<gloo::ScatterOptions>(gloo::scatter, [&](auto& o) {
          o.setRoot(0);
          if (root) {
            std::vector<float*> each;
            for (std::size_t r = 0; r < parts(); ++r) each.push_back(floats(in) + r * n);
            o.setInputs(each, n);
          }
          o.setOutput(floats(out), n);
        });
      };
    return {};
  }

 private:
  std::size_t parts() const { return static_cast<std::size_t>(context_->size); }

  /// Gloo needs another tag for every call.
  template <class Options, class F, class Fill>
  void run(F function, Fill fill) {
    Options o{context_};
    o.setTag(++tag_);
    fill(o);
    function(o);
  }
  template <class Options, class F>
  call from_to(F function, std::size_t in_n, std::size_t out_n) {
    return [=, this](const std::byte* in, std::byte* out) {
      run<Options>(function, [&](auto& o) {
        o.setInput(floats(in), in_n);
        o.setOutput(floats(out), out_n);
      });
    };
  }
  void allreduce(bool in_place, const std::byte* in, std::byte* out, std::size_t n) {
    run<gloo::AllreduceOptions>([](const auto& o) { gloo::allreduce(o); },
                                [&](auto& o) {
                                  o.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
                                  o.setReduceFunction(add);
                                  if (!in_place) o.setInput(floats(in), n);
                                  o.setOutput(floats(out), n);
                                });
  }

  std::string directory_;
  std::shared_ptr<gloo::Context> context_{};
  std::vector<float> own_{};
  std::uint32_t tag_ = 0;
};

int serve(int rank, int size, const std::string& directory) try {
  gloo_backend backend{rank, size, directory};
  worker{backend}.serve();
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "gloo, rank %d: %s\n", rank, e.what());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  char directory[] = "/tmp/kolo_bench_gloo.XXXXXX";
  if (!::mkdtemp(directory)) return 1;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) return std::perror("gloo: fork"), remove(directory), 1;
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::_exit(serve(rank, size, directory));
    }
  }
  int failed = 0, status = 0;
  while (::wait(&status) > 0) failed += status != 0;
  remove(directory);
  return failed != 0;
}
