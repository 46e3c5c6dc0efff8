// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The group `floor`: two processes that run the hand-written allreduce of two ranks, the bound that kolo is held to.
#include "../floor.hpp"
#include "worker.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>

namespace {

using namespace kolo_bench;

/// Address space, not memory: pages appear when they are written.
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

class floor_backend : public backend {
 public:
  floor_backend(const common& c, int rank) : common_{c}, rank_{rank}, pair_{c.slots, rank} {}

  int rank() const override { return rank_; }
  int size() const override { return 2; }
  std::string version() const override { return "written by hand for two ranks and floats"; }
  std::string offers() const override { return "allreduce/staged\nallreduce/direct\n"; }

  call prepare(const command& c, std::size_t n) override {
    if (!(c.element == "float") || !(c.collective == "allreduce")) return {};
    if (c.algorithm == "staged")
      return [this, n](const std::byte* in, std::byte* out) {
        pair_.staged(reinterpret_cast<const float*>(in), reinterpret_cast<float*>(out), n);
      };
    if (c.algorithm == "direct" && c.buffers == "symmetric")
      return [this, n, to_peer = rank_ == 0 ? std::ptrdiff_t{common::half} : -std::ptrdiff_t{common::half}](
                 const std::byte* in, std::byte* out) {
        pair_.direct(reinterpret_cast<const float*>(in), reinterpret_cast<float*>(out),
                     reinterpret_cast<const float*>(in + to_peer), reinterpret_cast<float*>(out + to_peer), n);
      };
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

}  // namespace

int main() {
  const common c;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(serve(c, 1));
  }
  const int mine = serve(c, 0);
  int theirs = 0;
  ::waitpid(child, &theirs, 0);
  return mine != 0 || theirs != 0 ? 1 : 0;
}
