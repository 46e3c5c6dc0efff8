// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LightGBM: its two collectives over any communicator, for LGBM_NetworkInitWithFunctions. Opt-in; includes nothing of
// LightGBM.
#pragma once

#include <kolo/kolo.hpp>
#include <kolo/untyped.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// kolo::lightgbm_network network{comm};
/// LGBM_NetworkInitWithFunctions(comm.size(), comm.rank(), network.reduce_scatter(), network.allgather());
///
/// From then on LightGBM's calls on this thread train over `comm`, until LGBM_NetworkFree. LightGBM has one network per
/// thread, and passes no user argument to its functions, so a thread has at most one lightgbm_network at a time. It and
/// `comm` outlive the training.
///
/// Before  all ranks make the same calls of LightGBM, with tree_learner=data (feature, voting) and
///         num_machines=comm.size() in the parameters.
/// Cost    that of kolo's reduce_scatter and allgather with counts in bytes; LightGBM's reducer combines in place where
///         possible, else in a copy of 16 KiB at a time.
/// Errors  a kolo::error in a collective ends LightGBM's call: it returns -1, and LGBM_GetLastError returns kolo's
///         sentence, which names a rank that has died. Then `comm` is broken, and LightGBM's network with it.
///         invalid_argument: this thread already has a lightgbm_network; blocks that are not contiguous, or not whole
///         elements; more or fewer blocks than ranks.
template <class Comm>
class lightgbm_network {
 public:
  explicit lightgbm_network(Comm& comm) {
    if (bound_) throw error{errc::invalid_argument, "this thread has a lightgbm_network already"};
    bound_ = &comm;
  }
  lightgbm_network(const lightgbm_network&) = delete;
  lightgbm_network& operator=(const lightgbm_network&) = delete;
  ~lightgbm_network() { bound_ = nullptr; }

  /// LightGBM's types: a length; inout[i] = in[i] op inout[i] for `bytes` bytes, elements of `element_bytes`.
  using length = std::int32_t;
  using reducer = void (*)(const char* in, char* inout, int element_bytes, length bytes);

  /// The functions that LGBM_NetworkInitWithFunctions takes.
  static void* reduce_scatter() { return reinterpret_cast<void*>(&reduce_blocks); }
  static void* allgather() { return reinterpret_cast<void*>(&gather_blocks); }

 private:
  static void reduce_blocks(char* in, length, int element_bytes, const length* firsts, const length* lengths,
                            int blocks, char* out, length, const reducer& f) {
    Comm& comm = bound(blocks);
    const auto bytes = std::size_t(element_bytes);
    const auto counts = counts_of(firsts, lengths, blocks, bytes);
    const block_function by{bytes,
                            [&](const std::byte* a, std::byte* b, std::size_t n) {
                              f(reinterpret_cast<const char*>(a), reinterpret_cast<char*>(b), element_bytes,
                                static_cast<length>(n * bytes));
                            },
                            true};
    const elements all{in, total_of(counts), bytes}, mine{out, counts[std::size_t(comm.rank())], bytes};
    if (are_equal(counts)) kolo::reduce_scatter(comm, all, mine, by_kernel{by.kernel()});
    else kolo::reduce_scatter(comm, all, mine, counts, by_kernel{by.kernel()});
  }

  /// LightGBM may pass this rank's block at the beginning of `out`, which is the place of rank 0's block.
  static void gather_blocks(char* in, length, const length* firsts, const length* lengths, int blocks, char* out,
                            length) {
    Comm& comm = bound(blocks);
    const auto counts = counts_of(firsts, lengths, blocks, 1);
    const auto me = std::size_t(comm.rank()), all = total_of(counts);
    if (in < out + all && out < in + counts[me] && in != out + firsts[me])
      in = static_cast<char*>(std::memmove(out + firsts[me], in, counts[me]));
    const std::span mine{in, counts[me]}, whole{out, all};
    if (are_equal(counts)) kolo::allgather(comm, mine, whole);
    else kolo::allgather(comm, mine, whole, counts);
  }

  static Comm& bound(int blocks) {
    if (!bound_) throw error{errc::invalid_argument, "this thread has no lightgbm_network"};
    if (blocks != bound_->size()) throw error{errc::invalid_argument, "LightGBM has other blocks than there are ranks"};
    return *bound_;
  }
  /// Returns the counts in elements.
  static std::vector<std::size_t> counts_of(const length* firsts, const length* lengths, int blocks,
                                            std::size_t bytes) {
    std::vector<std::size_t> counts;
    std::size_t next = 0;
    for (int r = 0; r < blocks; ++r) {
      const auto n = std::size_t(lengths[r]);
      if (lengths[r] < 0 || n % bytes != 0 || !std::cmp_equal(firsts[r], next))
        throw error{errc::invalid_argument, "LightGBM's blocks are not contiguous, or not of whole elements"};
      counts.push_back(n / bytes);
      next += n;
    }
    return counts;
  }
  static std::size_t total_of(const std::vector<std::size_t>& counts) {
    std::size_t total = 0;
    for (const auto n : counts) total += n;
    return total;
  }
  static bool are_equal(const std::vector<std::size_t>& counts) {
    return std::equal(counts.begin() + 1, counts.end(), counts.begin());
  }

  static inline thread_local Comm* bound_ = nullptr;
};

}  // namespace kolo::inline KOLO_ABI
