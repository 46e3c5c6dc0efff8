// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The group `floor`: two processes that run the hand-written allreduces of two ranks, the bound of kolo's time.
#include "../floor.hpp"
#include "worker.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>

namespace {

using namespace kolo_bench;

/// Reserves address space; pages get memory when they are written.
std::byte* shared_memory(std::size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::runtime_error{"there is no shared memory for the floor program"};
  return static_cast<std::byte*>(at);
}

struct common {
  static constexpr std::size_t half = std::size_t{1} << 30;  ///< of the addressable buffers
  std::byte* slots = shared_memory(floor_pair::bytes());
  std::byte* addressable = shared_memory(2 * half);
};

/// The operands; for the direct ways the peer's buffers are `to_peer` bytes away.
struct operands {
  const float* in;
  float* out;
  std::ptrdiff_t to_peer;
  std::size_t n;

  const float* peer_in() const { return in + to_peer / std::ptrdiff_t{sizeof(float)}; }
  float* peer_out() const { return out + to_peer / std::ptrdiff_t{sizeof(float)}; }
};

/// One way, and the cases in which it may be the fastest.
struct way {
  const char* name;
  const char* buffers;      ///< ordinary, symmetric; null: both
  std::size_t least, most;  ///< floats
  bool is_for_in_place;
  void (*run)(floor_pair&, const operands&);
};

using storing = loops::storing;
template <storing Put, storing Sum, storing Result>
void staged(floor_pair& p, const operands& o) {
  p.staged<Put, Sum, Result>(o.in, o.out, o.n);
}
template <storing Own, storing Peers>
void direct(floor_pair& p, const operands& o) {
  p.direct<Own, Peers>(o.in, o.out, o.peer_in(), o.peer_out(), o.n);
}
void direct_whole(floor_pair& p, const operands& o) { p.direct_whole(o.in, o.out, o.peer_in(), o.n); }

constexpr auto plain = storing::plain, streamed = storing::streamed, moved = storing::moved;
constexpr std::size_t any = ~std::size_t{0}, small = 256, block = floor_pair::block_floats + 1, large = 64 * 1024;
constexpr way ways[]{
    {"staged", nullptr, 0, any, true, staged<plain, plain, plain>},
    {"staged, put by moves", "ordinary", block, any, true, staged<moved, plain, plain>},
    {"staged, slots streamed", "ordinary", block, any, true, staged<streamed, streamed, plain>},
    {"staged, result streamed", "ordinary", large, any, false, staged<plain, plain, streamed>},
    {"staged, all streamed", "ordinary", large, any, true, staged<streamed, streamed, streamed>},
    {"direct", "symmetric", small, any, true, direct<plain, moved>},
    {"direct, peer's streamed", "symmetric", small, any, true, direct<plain, streamed>},
    {"direct, both streamed", "symmetric", large, any, true, direct<streamed, streamed>},
    {"direct, whole", "symmetric", small, any, false, direct_whole},
};

class floor_backend : public backend {
 public:
  floor_backend(const common& c, int rank) : common_{c}, rank_{rank}, pair_{c.slots, rank} {}

  int rank() const override { return rank_; }
  int size() const override { return 2; }
  std::string version() const override {
    return std::string{"written by hand for two ranks and floats, with "} + loops::instructions;
  }
  std::string offers() const override {
    std::string all;
    for (const auto& w : ways) all += std::string{"allreduce/"} + w.name + '\n';
    return all;
  }

  call prepare(const command& c, std::size_t n) override {
    if (!(c.element == "float") || !(c.collective == "allreduce")) return {};
    for (const auto& w : ways) {
      if (!(c.algorithm == w.name) || n < w.least || n > w.most || (w.buffers && !(c.buffers == w.buffers)) ||
          (!w.is_for_in_place && c.place == "in_place"))
        continue;
      return
          [this, n, way = w.run, to_peer = rank_ == 0 ? std::ptrdiff_t{common::half} : -std::ptrdiff_t{common::half}](
              const std::byte* in, std::byte* out) {
            way(pair_, {reinterpret_cast<const float*>(in), reinterpret_cast<float*>(out), to_peer, n});
          };
    }
    return {};
  }
  std::byte* special_memory(const std::string& kind, std::size_t bytes) override {
    if (kind != "symmetric" || bytes > common::half) return nullptr;
    return common_.addressable + static_cast<std::size_t>(rank_) * common::half;
  }

 private:
  const common& common_;
  int rank_;
  floor_pair pair_;
};

int serve(const common& c, int rank) try {
  floor_backend backend{c, rank};
  worker{backend}.serve();
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "floor, rank %d: %s\n", rank, e.what());
  return 1;
}

/// A build may be copied to another host, which lacks its instructions.
bool runs_here() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512f");
#elif defined(__AVX__)
  return __builtin_cpu_supports("avx");
#else
  return true;
#endif
}

}  // namespace

int main() {
  if (!runs_here()) {
    std::fprintf(stderr, "floor: built for %s, which this host does not have; configure it anew\n",
                 loops::instructions);
    return 1;
  }
  const common c;
  const pid_t child = ::fork();
  if (child < 0) return std::perror("floor: fork"), 1;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(serve(c, 1));
  }
  const int mine = serve(c, 0);
  int theirs = 0;
  ::waitpid(child, &theirs, 0);
  return mine != 0 || theirs != 0 ? 1 : 0;
}
