// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The group `kolo`: kolo's ranks as processes that share memory. Usage: kolo_bench_shm RANKS
#include "kolo_backend.hpp"

#include <sys/uio.h>

namespace {

using namespace kolo_bench;

/// Also offers a broadcast that kolo does not have: the kernel copies from one process's ordinary memory to another's. The row shows whether that is faster on
/// this machine.
class processes : public kolo_backend<kolo::shm::communicator> {
 public:
  explicit processes(kolo::shm::communicator& comm) : kolo_backend{comm}, comm_{comm} {
    std::byte theirs{};
    int refused = read_from_root(&theirs, &theirs, 1) ? 0 : 1;
    kolo::allreduce(comm_, std::span{&refused, 1}, kolo::sum);
    is_allowed_ = refused == 0;
  }

  std::string offers() const override {
    return kolo_backend::offers() + (is_allowed_ ? "broadcast/process_vm_readv\n" : "");
  }
  call prepare(const command& c, std::size_t n) override {
    if (!(c.algorithm == "process_vm_readv")) return kolo_backend::prepare(c, n);
    if (!is_allowed_ || !(c.element == "float") || !(c.buffers == "ordinary")) return {};
    return [this, bytes = n * sizeof(float)](const std::byte* in, std::byte* out) {
      if (!read_from_root(in, out, bytes)) throw std::runtime_error{"process_vm_readv failed"};
    };
  }

 private:
  /// Collective: every rank but 0 reads rank 0's buffer, and rank 0 waits until all have read it.
  bool read_from_root(const std::byte* from, std::byte* to, std::size_t bytes) {
    struct {
      pid_t process;
      const std::byte* data;
    } root{::getpid(), from};
    kolo::broadcast(comm_, std::span{&root, 1}, 0);
    bool all = true;
    for (std::size_t done = 0; comm_.rank() != 0 && all && done < bytes;) {
      const iovec here{to + done, bytes - done}, there{const_cast<std::byte*>(root.data) + done, bytes - done};
      const auto n = ::process_vm_readv(root.process, &here, 1, &there, 1, 0);
      all = n > 0;
      if (all) done += static_cast<std::size_t>(n);
    }
    kolo::barrier(comm_);
    return all;
  }

  kolo::shm::communicator& comm_;
  bool is_allowed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  return kolo::shm::launch(argc > 1 ? std::atoi(argv[1]) : 2, [](auto& comm) {
    processes backend{comm};
    kolo_bench::worker{backend}.serve();
  });
}
