// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fake kernels whose blocks run at once and wait for each other: on one thread, in an order that exposes missing waits.
#pragma once

#include "fake_cuda/runtime.hpp"

#include <kolo/cuda/program.hpp>

#include <atomic>
#include <memory>
#include <vector>

namespace cuda_double {

inline int blocks_at_once = 16;  ///< per device
inline std::size_t launched_together = 0;
/// Flags in another device's memory: over a bus, adding to them is not atomic.
inline std::size_t raised_elsewhere = 0;

/// The progress of a block.
struct walker {
  int place = 0, block = 0;
  std::uint32_t phases = 0;
  bool is_busy = false;
};

struct flags_on_host {
  static std::uint64_t value(std::uint64_t* flag) { return std::atomic_ref{*flag}.load(); }
};

/// A running kernel. In every second one, all other blocks run as far as they can whenever a flag is raised: a flag that is raised too early shows as data that
/// are not there yet. In the others, a block runs as far as it can: a missing wait shows as data that were overwritten.
template <class Program>
class together {
 public:
  together(const Program& all, bool others_first, int device)
      : all_{all}, others_first_{others_first}, device_{device} {
    ++the.spinning;
    for (int place = all.p.ranks; place-- > 0;)
      for (int block = all.p.blocks; block-- > 0;) walkers_.push_back({place, block});
    for (int place = 0; place < all.p.ranks; ++place) all_.prepare_next(all.p.parts[place]);
  }
  together(const together&) = delete;
  ~together() { --the.spinning; }

  /// False if it must wait for another device.
  bool go_on() {
    all_go_on();
    bool have_ended = true;
    for (const walker& w : walkers_) have_ended = have_ended && (has_ended(w) || is_stopped());
    return have_ended;
  }

 private:
  struct block_on_host {
    together* kernel;
    int index;

    template <class F>
    void each(F f) const {
      constexpr std::size_t threads = 3;
      for (std::size_t t = threads; t-- > 0;)
        f(static_cast<std::size_t>(index) * threads + t, static_cast<std::size_t>(kernel->all_.p.blocks) * threads);
    }
    void raise(std::uint64_t* flag) const {
      raised_elsewhere += the.find(flag)->device != kernel->device_;
      std::atomic_ref{*flag}.fetch_add(1);
      if (kernel->others_first_) kernel->all_go_on();
    }
  };

  const kolo::detail::cuda::rank_part& part(const walker& w) const { return all_.p.parts[w.place]; }
  bool has_ended(const walker& w) const { return w.phases == part(w).phases; }
  bool is_stopped() const { return all_.p.stop && *all_.p.stop != 0; }
  void all_go_on() {
    for (bool moved = true; moved;) {
      moved = false;
      for (walker& w : walkers_)
        while (go_on(w)) {
          moved = true;
          if (others_first_) break;
        }
    }
  }
  bool go_on(walker& w) {
    if (w.is_busy || has_ended(w) || !all_.template may_begin<flags_on_host>(part(w), w.phases)) return false;
    w.is_busy = true;
    all_.run(block_on_host{this, w.block}, part(w), w.phases);
    w.is_busy = false;
    ++w.phases;
    ++the.moved;
    return true;
  }

  Program all_;
  bool others_first_;
  int device_;
  std::vector<walker> walkers_;
};

}  // namespace cuda_double

namespace kolo::inline KOLO_ABI::detail::cuda {
template <class Program>
int most_blocks_together(const Program*) {
  return cuda_double::blocks_at_once;
}
template <class Program>
void launch_together(cudaStream_t stream, int blocks, const Program& all) {
  const cuda_double::guard held{cuda_double::the.lock};
  if (blocks > cuda_double::blocks_at_once) throw std::runtime_error{"more blocks than can run at once"};
  cuda_double::expect_current(stream);
  ++cuda_double::the.launches;
  const bool others_first = cuda_double::launched_together++ % 2 == 0;
  cuda_double::the.put(stream, [all, others_first, device = cuda_double::device_of_thread,
                                kernel = std::shared_ptr<cuda_double::together<Program>>{}]() mutable {
    if (!kernel) kernel = std::make_shared<cuda_double::together<Program>>(all, others_first, device);
    if (!kernel->go_on()) throw cuda_double::not_yet{};
  });
}
}  // namespace kolo::inline KOLO_ABI::detail::cuda
