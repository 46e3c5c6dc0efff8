// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The executor does bookkeeping only: it runs every algorithm on memory that the host may not touch, with a stream that runs later.
#include "support/catch.hpp"

#include <kolo/impl/engine.hpp>
#include <kolo/kolo.hpp>

#include <sys/mman.h>

#include <cstring>
#include <deque>
#include <functional>
#include <optional>

namespace {

/// Models a device's memory: the host may touch it only while the streams run.
class arena {
 public:
  std::byte* take(std::size_t bytes) { return std::exchange(free_, free_ + (bytes + 255) / 256 * 256); }
  void clear() { free_ = base_; }
  void allow(bool yes) { REQUIRE(::mprotect(base_, size, yes ? PROT_READ | PROT_WRITE : PROT_NONE) == 0); }

 private:
  static constexpr std::size_t size = 256 << 20;
  std::byte* base_ =
      static_cast<std::byte*>(::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  std::byte* free_ = base_;
};
arena device;

/// Enqueued work; a function that returns false is called again.
using stream = std::deque<std::function<bool()>>;

struct wires {
  explicit wires(int p) : ranks{p}, lanes(static_cast<std::size_t>(p * p)), streams(static_cast<std::size_t>(p)) {}
  std::deque<std::vector<std::byte>>& lane(int from, int to) {
    return lanes[static_cast<std::size_t>(from * ranks + to)];
  }
  int ranks;
  std::vector<std::deque<std::vector<std::byte>>> lanes;
  std::vector<stream> streams;
};

struct device_executor {
  stream* work = nullptr;

  struct keep {
    void operator()(std::byte*) const {}
  };
  using allocation = std::unique_ptr<std::byte, keep>;
  allocation allocate(std::size_t bytes) const { return allocation{device.take(bytes)}; }

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const {
    later([=] { std::memcpy(to, from, bytes); });
  }
  void combine(const kolo::kernel& k, std::byte* dst, const kolo::source* sources, int n, std::size_t count,
               int finish_size) const {
    later([=, s = std::vector(sources, sources + n)] { k.combine(k.op, dst, s.data(), n, count, finish_size); });
  }
  void to_wire(const kolo::kernel& k, std::byte* wire, const std::byte* from, std::byte* rounded,
               std::size_t count) const {
    later([=] { k.to_wire(wire, from, rounded, count); });
  }
  void from_wire(const kolo::kernel& k, std::byte* dst, const std::byte* wire, std::size_t count) const {
    later([=] { k.from_wire(dst, wire, count); });
  }
  void round(const kolo::kernel& k, std::byte* data, std::size_t count) const {
    later([=] { kolo::detail::execute::host_executor::round(k, data, count); });
  }

 private:
  template <class F>
  void later(F f) const {
    work->push_back([f] { return f(), true; });
  }
};

/// The messages of a round are one function on the rank's stream; the host never waits.
class device_transport {
 public:
  struct options {
    std::chrono::nanoseconds timeout{};
  };
  struct ticket {};

  device_transport(wires& w, int rank) : wires_{&w}, rank_{rank} {}
  int rank() const { return rank_; }
  int size() const { return wires_->ranks; }
  kolo::placement place() const { return {}; }
  std::chrono::nanoseconds timeout() const { return std::chrono::minutes{5}; }
  const kolo::failure* failed() const { return failure_ ? &*failure_ : nullptr; }
  const kolo::failure& fail(const kolo::failure& f) { return failure_ ? *failure_ : failure_.emplace(f); }
  void relax(kolo::backoff&, const kolo::wait_context&) {}
  void check(kolo::backoff&, const kolo::wait_context&) {}
  device_transport split(int, int) { return *this; }

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t) {
    return post({peer, true, const_cast<std::byte*>(data), bytes});
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t) {
    return post({peer, false, data, bytes});
  }
  void submit() {
    own_stream().push_back([this, group = std::exchange(group_, {}), sent = false]() mutable {
      for (const auto& m : group)
        if (!sent && m.out) wires_->lane(rank_, m.peer).emplace_back(m.data, m.data + m.bytes);
      sent = true;
      std::erase_if(group, [&](const message& m) { return m.out || arrived(m); });
      return group.empty();
    });
  }
  bool done(const ticket&) { return true; }
  std::size_t piece_bytes() const { return ~std::size_t{0} / 4; }
  device_executor executor() const { return {&own_stream()}; }

 private:
  struct message {
    int peer;
    bool out;
    std::byte* data;
    std::size_t bytes;
  };
  stream& own_stream() const { return wires_->streams[static_cast<std::size_t>(rank_)]; }
  ticket post(message m) {
    group_.push_back(m);
    return {};
  }
  bool arrived(const message& m) {
    auto& lane = wires_->lane(m.peer, rank_);
    if (lane.empty()) return false;
    if (lane.front().size() != m.bytes) throw std::logic_error("a message of another length");
    std::memcpy(m.data, lane.front().data(), m.bytes);
    lane.pop_front();
    return true;
  }

  wires* wires_;
  int rank_;
  std::vector<message> group_{};
  std::optional<kolo::failure> failure_{};
};
static_assert(kolo::MessageTransport<device_transport>);

/// Enqueues `call` on every rank while the memory is protected, then runs the streams. in[i] = rank + 1; out[i] should be want(rank, i).
template <class Call, class Want>
void run(int p, std::size_t n_in, std::size_t n_out, Call call, Want want) {
  wires w{p};
  device.clear();
  std::deque<kolo::communicator<device_transport>> comms;
  std::vector<std::span<float>> in, out;
  device.allow(true);
  for (int r = 0; r < p; ++r) {
    comms.emplace_back(w, r);
    in.emplace_back(reinterpret_cast<float*>(device.take(n_in * sizeof(float))), n_in);
    out.emplace_back(reinterpret_cast<float*>(device.take(n_out * sizeof(float))), n_out);
    std::fill(in.back().begin(), in.back().end(), static_cast<float>(r + 1));
    std::fill(out.back().begin(), out.back().end(), -1.0F);
  }
  device.allow(false);
  for (std::size_t r = 0; r < comms.size(); ++r) call(comms[r], in[r], out[r]);
  device.allow(true);
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& s : w.streams)
      for (; !s.empty() && s.front()(); moved = true) s.pop_front();
  }
  bool right = true;
  for (std::size_t r = 0; r < out.size(); ++r)
    for (std::size_t i = 0; i < n_out; ++i) right = right && out[r][i] == want(static_cast<int>(r), i);
  for (const auto& s : w.streams) right = right && s.empty();
  INFO(p << " ranks");
  CHECK(right);
  device.allow(false);
}

template <class A>
void check_allreduce(int p, A algorithm) {
  const auto total = static_cast<float>(p * (p + 1)) / 2;
  const auto mean = total / static_cast<float>(p);
  const auto with = [&](auto op, float want) {
    run(
        p, 1003, 1003, [&](auto& comm, auto in, auto out) { kolo::allreduce(comm, in, out, op, algorithm); },
        [&](int, std::size_t) { return want; });
  };
  with(kolo::sum, total);
  with(kolo::average, mean);
  with(kolo::wire<kolo::bfloat16>(kolo::average), static_cast<float>(kolo::bfloat16{mean}));
}

}  // namespace

TEST_CASE("collectives run on memory that the host must not touch") {
  for (const int p : {1, 2, 3, 5, 8}) {
    check_allreduce(p, kolo::automatic{});
    check_allreduce(p, kolo::ring{});
    check_allreduce(p, kolo::recursive_doubling{});
    check_allreduce(p, kolo::circulant{});
    check_allreduce(p, kolo::one_shot{});
    check_allreduce(p, kolo::two_shot{});
    const std::size_t n = 1003, all = n * static_cast<std::size_t>(p);
    const auto part = [&](int, std::size_t i) { return static_cast<float>(i / n + 1); };
    run(
        p, n, all, [](auto& comm, auto in, auto out) { kolo::allgather(comm, in, out); }, part);
    run(
        p, all, all, [](auto& comm, auto in, auto out) { kolo::alltoall(comm, in, out); }, part);
    run(
        p, all, n,
        [](auto& comm, auto in, auto out) { kolo::reduce_scatter(comm, in, out, kolo::sum, kolo::circulant{}); },
        [&](int, std::size_t) { return static_cast<float>(p * (p + 1)) / 2; });
    run(
        p, n, n, [](auto& comm, auto in, auto out) { kolo::scan(comm, in, out, kolo::sum); },
        [](int r, std::size_t) { return static_cast<float>((r + 1) * (r + 2)) / 2; });
  }
}
