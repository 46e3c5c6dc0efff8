// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contiguous memory in place of views that are not contiguous, for a transport's own collective, which takes no other.
#pragma once

#include <kolo/execute/hands.hpp>
#include <kolo/execute/layout.hpp>

namespace kolo::inline v0::detail {

/// Which view is copied follows from this rank's views alone, so ranks may differ in it. The copies lie in the communicator's staging.
class stand_in {
 public:
  /// The call to make: `job` itself where nothing need be copied. What the collective reads is copied now.
  template <class T>
  const problem& begin(engine<T>& e, const problem& job) {
    const auto hands = hands_of(e.transport);
    const auto k = job.collective;
    const bool is_root = e.transport.rank() == job.root, is_one = k == kind::broadcast;
    const bool replaces_in = job.in.find && !is_one && (k != kind::scatter || is_root);
    const bool has_out = is_root || (k != kind::reduce && k != kind::gather);
    replaces_out_ = (job.out.find && has_out) || (k == kind::reduce_scatter && lies_in(job.out, job.in));  // MPI's does not work in place
    if (!replaces_in && !replaces_out_) return job;
    instead_ = job;
    if (replaces_in) copy(hands, job.in, instead_.in = contiguous(job.in, e.staging[0], hands));
    if (replaces_out_) instead_.out = contiguous(job.out, e.staging[1], hands);
    if (is_one && is_root) copy(hands, job.in, instead_.out);
    return instead_;
  }

  /// What the collective has written goes to its place.
  template <class T>
  void end(engine<T>& e, const problem& job) const {
    if (replaces_out_ && writes(job, e.transport.rank())) copy(hands_of(e.transport), instead_.out, job.out);
  }

  /// Does the collective leave anything in `out` on that rank?
  static bool writes(const problem& job, int rank) {
    switch (job.collective) {
      case kind::reduce: case kind::gather: return rank == job.root;
      case kind::broadcast: return rank != job.root;
      case kind::exclusive_scan: return rank > 0;
      default: return true;
    }
  }

 private:
  static bool lies_in(const memory& part, const memory& all) {
    return !all.find && part.count > 0 && part.base >= all.base && part.base < all.base + all.count * all.element_bytes;
  }
  template <class Pool, class Hands>
  static memory contiguous(const memory& m, Pool& staging, const Hands& hands) {
    return {.base = staging.at_least(m.count * m.element_bytes, hands), .count = m.count, .element_bytes = m.element_bytes};
  }
  /// As many elements as `to` has.
  template <class Hands>
  static void copy(const Hands& hands, const memory& from, const memory& to) {
    for_each_run({&from, 0}, to.count, [&](const std::byte* data, std::size_t done, std::size_t n) {
      for_each_run({&to, done}, n, [&](std::byte* place, std::size_t offset, std::size_t run) {
        hands.copy(place, data + offset * to.element_bytes, run * to.element_bytes);
      });
    });
  }

  problem instead_{};
  bool replaces_out_ = false;
};

}  // namespace kolo::inline v0::detail
