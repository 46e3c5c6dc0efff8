// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A decorator under which ranks that disagree find out before any data moves, and are told who calls what, and where.
#pragma once

#include <kolo/core/own_header.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/transport/abilities.hpp>

#include <utility>

namespace kolo::inline KOLO_ABI {

namespace detail::core::own_header {
template <class T>
  requires true inline constexpr bool includes_kolo_checked_hpp<T> = true;
}  // namespace detail::core::own_header

/// Checked mode: before every call, and before `split`, the ranks compare what they call: which collective, element
/// type, count (where it must agree), counts, operator, root, and algorithm with its choice and parameters. The first
/// call at which they part ends on every rank with `errc::mismatch` in the same words:
///
///     kolo: allreduce #3, rank 0: the count differs: rank 0 calls allreduce of 10 int, sum, at train.cpp:12;
///     rank 2 calls allreduce of 11 int, sum, at train.cpp:40
///
/// There are three ways to it: this type, `kolo::communicator<kolo::checked<kolo::mpi::transport>>`; the option
/// `checked` with which a communicator is made; and for all communicators of a program, `KOLO_CHECKED=1` in the
/// environment of all ranks. Communicators that are split off are checked as well.
///
/// Calls that are started are compared in the order in which they were started, as part of their progress; plans each
/// time they run. What ranks may differ in is not compared: the counts of a ragged alltoall, lengths that matter on a
/// root only, in place or not, values of operators.
///
/// Cost    see `comparison`: two messages a call and rank, and memory for names (none in plans). Not checked: one
///         look at a bool.
template <Transport Base>
  requires detail::core::own_header::includes_kolo_checked_hpp<Base>
class checked : public Base {
 public:
  using abilities = kolo::abilities<>;  ///< those of Base that it does not hide
  using typename Base::options;
  using decorated = Base;

  template <class... Args>
    requires std::constructible_from<Base, Args...>
  explicit checked(Args&&... args) : Base(std::forward<Args>(args)...) {}

  static constexpr bool is_checked() { return true; }
};

}  // namespace kolo::inline KOLO_ABI
