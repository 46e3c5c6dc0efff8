// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A decorator that compares the calls of all ranks before any data moves; a mismatch names what each rank calls.
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

/// Checked mode: before every call, and before `split`, the ranks compare their calls: collective, element type, count
/// (where it must agree), counts, operator, root, and algorithm with its choice and parameters. The first call that
/// differs throws `errc::mismatch` on every rank, with the same text:
///
///     kolo: allreduce #3, rank 0: the count differs: rank 0 calls allreduce of 10 int, sum, at train.cpp:12;
///     rank 2 calls allreduce of 11 int, sum, at train.cpp:40
///
/// Three ways enable it: this type, `kolo::communicator<kolo::checked<kolo::mpi::transport>>`; the option `checked` of
/// a new communicator; and for all communicators of a program, `KOLO_CHECKED=1` in the environment of all ranks.
/// Communicators that `split` returns are checked as well.
///
/// Nonblocking calls are compared in the order in which they were started, as part of their progress; plans each time
/// they run. Not compared is what may differ between ranks: the counts of a ragged alltoall, lengths that matter only
/// on a root, in place or not, values of operators.
///
/// Cost    see `comparison`: two messages per call and rank, and memory for names (none in plans). Without checked
///         mode: one test of a bool.
template <Transport Base>
  requires detail::core::own_header::includes_kolo_checked_hpp<Base>
class checked : public Base {
 public:
  using abilities = kolo::abilities<>;  ///< none of its own; it has those of Base that it does not hide
  using decorated = Base;

  template <class... Args>
    requires std::constructible_from<Base, Args...>
  explicit checked(Args&&... args) : Base(std::forward<Args>(args)...) {}

  static constexpr bool is_checked() { return true; }
};

}  // namespace kolo::inline KOLO_ABI
