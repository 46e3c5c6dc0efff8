// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions that a collective call uses of its communicator's engine. Only declared here: their bodies, and all
// code that moves data, are in impl/calls.hpp.
#pragma once

#include <kolo/core/call_site.hpp>
#include <kolo/execute/call_types.hpp>
#include <kolo/execute/collective_args.hpp>
#include <kolo/execute/communicator.hpp>
#include <kolo/schedule/automatic.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::select {

struct candidate;        // select/candidates.hpp
struct selection_query;  // select/selection_query.hpp

/// The candidates for collective K over transport T.
template <kind K, class T>
std::span<const candidate> candidates_in(const selection_query& q);

/// The candidates that combine every element by one tree, selected by the collective, `allowed`, the number of ranks
/// and whether elements are converted.
template <class T>
std::span<const candidate> candidates_of_one_tree(const selection_query& q);

}  // namespace kolo::inline KOLO_ABI::detail::select

namespace kolo::inline KOLO_ABI::detail::execute {

using candidates_fn = std::span<const select::candidate>(const select::selection_query& q);

/// What the choice depends on beside sizes and counts; fixed by the types of a call.
struct choice {
  kind collective{};
  bool commutes = true;
  order allowed = order::fixed_for_size;
  bool may_be_native = false;  ///< the transport's own takes these elements and this operator, and no bit is at stake
  candidates_fn* candidates = nullptr;
  bool reduces_once = false;  ///< only candidates that send no partial results
};

/// The properties of a call that depend only on its types.
struct call_traits {
  choice how{};               ///< its collective; and, if it names no algorithm, what the choice depends on
  bool is_automatic = false;  ///< it names no algorithm
  void (*native)(void* transport, const collective_args&,
                 void* ticket) = nullptr;  ///< the transport's own collective, if it may be used
  std::uint32_t types = 0;                 ///< of elements, operator and algorithm: equal on all ranks
};

/// Owns a call's views, operator and schedule, and has its arguments.
struct any_call {
  collective_args args{};
  any_call() = default;
  any_call(const any_call&) = delete;
  any_call& operator=(const any_call&) = delete;
  virtual ~any_call() = default;
  // Overridden if elements are copied before the call starts, and back when it has finished: collective/scaled.hpp.
  virtual void begin() {}
  virtual void end() {}
};

/// Called before the arguments are checked: this thread takes over the engine. Throws if the communicator has failed,
/// or if another call runs on it. `call`: a string that is never freed.
template <class T>
void begin_call(engine<T>& e, const char* call);

/// Notifies the other ranks, then throws that `sentence` is wrong with the arguments of `operation`.
template <class T>
[[noreturn]] void refuse(engine<T>& e, const char* operation, const char* sentence);
/// The same for a sentence of two parts that each end in a number.
template <class T>
[[noreturn]] void refuse(engine<T>& e, const char* operation, const char* first, long long n, const char* second,
                         long long m);
/// The same of an algorithm that does not support the number of ranks; `its`: the name of its type.
template <class T>
[[noreturn]] void refuse_algorithm(engine<T>& e, const char* operation, std::string_view its);

/// `args` has its views, kernel, counts and root; and its schedule, unless the call names none. Selects the algorithm,
/// and makes the checks common to all collectives. `agreed`: the number of elements that all ranks must agree on.
/// `root`: likewise, also if the schedule has its own.
template <class T>
void prepare_call(engine<T>& e, collective_args& args, const call_traits& traits, std::size_t agreed, int root);

/// The same for a point-to-point call: `args` has its schedule and peer as well. Both ranks must agree on `types` and
/// the caller's tag.
template <class T>
void prepare_pair_call(engine<T>& e, collective_args& args, std::uint32_t types, std::uint32_t user_tag);

/// Runs the blocking call to its end.
template <class T>
void run_call(engine<T>& e, collective_args& args, const typename options_of<T>::type& options, const call_types& types,
              call_site site);

/// A byte in memory that the transport sends from; `of_host` if that is the host's memory.
template <class T>
std::byte* token_of(engine<T>& e, std::byte* of_host);

/// The time limit of calls that name none.
template <class T>
std::chrono::nanoseconds time_limit(const engine<T>& e);

/// Ends the calls of the other ranks, whose cause is this text.
template <class T>
void pass_on(engine<T>& e, std::string_view text);
/// The same while an exception ends this rank's call; no effect if that has failed the transport already.
template <class T>
void break_by_exception(engine<T>& e, const char* call);

/// Collective: the node of each rank, exchanged over the transport, or over its host transport if its views are of a
/// device. `mine`: this rank's.
template <class T>
std::vector<int> allgather_nodes(engine<T>& e, int mine);

}  // namespace kolo::inline KOLO_ABI::detail::execute

#ifndef KOLO_DECLARES
#include <kolo/impl/calls.hpp>
#endif
