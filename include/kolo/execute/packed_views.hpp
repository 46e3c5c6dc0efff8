// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contiguous copies of views that are not contiguous, for a transport's own collective, which takes no others.
#pragma once

#include <kolo/execute/engine.hpp>
#include <kolo/execute/executor.hpp>
#include <kolo/execute/layout.hpp>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Which view is copied depends on this rank's views alone, so ranks may differ in it. The copies lie in the
/// communicator's staging.
class packed_views {
 public:
  /// The arguments to call with: `args` itself if nothing needs copying. Copies the input of the collective.
  template <class T>
  const collective_args& begin(engine<T>& e, const collective_args& args) {
    const auto executor = executor_of(e.transport);
    const auto k = args.collective;
    const bool is_root = e.transport.rank() == args.root, is_one = k == kind::broadcast;
    const bool replaces_in = args.in.find && !is_one && (k != kind::scatter || is_root);
    const bool has_out = is_root || (k != kind::reduce && k != kind::gather);
    replaces_out_ =
        (args.out.find && has_out) ||
        (k == kind::reduce_scatter && !view::are_disjoint(args.in, args.out));  // MPI's does not work in place
    if (!replaces_in && !replaces_out_) return args;
    packed_ = args;
    if (replaces_in) copy(executor, args.in, packed_.in = contiguous(args.in, e.current_scratch->staging[0], executor));
    if (replaces_out_) packed_.out = contiguous(args.out, e.current_scratch->staging[1], executor);
    if (is_one && is_root) copy(executor, args.in, packed_.out);
    return packed_;
  }

  /// Copies the output of the collective to its destination.
  template <class T>
  void end(engine<T>& e, const collective_args& args) const {
    if (replaces_out_ && writes(args, e.transport.rank())) copy(executor_of(e.transport), packed_.out, args.out);
  }

  /// Whether the collective writes to `out` on that rank.
  static bool writes(const collective_args& args, int rank) {
    switch (args.collective) {
      case kind::reduce:
      case kind::gather: return rank == args.root;
      case kind::broadcast: return rank != args.root;
      case kind::exclusive_scan: return rank > 0;
      default: return true;
    }
  }

 private:
  static memory contiguous(const memory& m, auto& staging, const auto& executor) {
    return {.base = staging.at_least(m.count * m.element_bytes, executor),
            .count = m.count,
            .element_bytes = m.element_bytes};
  }
  /// As many elements as `to` has.
  static void copy(const auto& executor, const memory& from, const memory& to) {
    copy_elements({&from, 0}, {&to, 0}, to.count, executor);
  }

  collective_args packed_{};
  bool replaces_out_ = false;
};

}  // namespace kolo::inline KOLO_ABI::detail::execute
