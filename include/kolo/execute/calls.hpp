// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a collective call asks of the engine under its communicator. A call knows these functions by their names alone:
// their bodies, and all that moves data, are in impl/calls.hpp.
#pragma once

#include <kolo/core/call_site.hpp>
#include <kolo/execute/call_types.hpp>
#include <kolo/execute/collective_args.hpp>
#include <kolo/execute/communicator.hpp>
#include <kolo/schedule/automatic.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::select {

struct candidate;  // select/candidates.hpp
struct question;   // select/question.hpp

/// Those of collective K over transport T.
template <kind K, class T>
std::span<const candidate> candidates_in(const question& q);

/// Those that combine every element by one tree: the collective, `allowed`, the number of ranks and whether elements
/// are converted say which.
template <class T>
std::span<const candidate> candidates_of_one_tree(const question& q);

}  // namespace kolo::inline KOLO_ABI::detail::select

namespace kolo::inline KOLO_ABI::detail::execute {

/// What the choice depends on beside sizes and counts: it follows from the types of a call.
struct choice {
  kind collective{};
  bool commutes = true;
  order allowed = order::fixed_for_size;
  bool may_be_native = false;  ///< the transport's own takes these elements and this operator, and no bit is at stake
  std::span<const select::candidate> (*candidates)(const select::question&) = nullptr;
  bool reduces_once = false;  ///< they are those that send no partial results
};

/// Of a call, what follows from its types.
struct call_traits {
  choice how{};               ///< its collective; and where it names no algorithm, what the choice depends on
  bool is_automatic = false;  ///< it names none
  void (*native)(void* transport, const collective_args&,
                 void* ticket) = nullptr;  ///< the transport's own collective, where it may be taken
  std::uint32_t types = 0;                 ///< of elements, operator and algorithm: equal on all ranks
};

/// Something that keeps a call's views, operator and schedule alive, and has its arguments.
struct any_call {
  collective_args args{};
  any_call() = default;
  any_call(const any_call&) = delete;
  any_call& operator=(const any_call&) = delete;
  virtual ~any_call() = default;
  // Where some elements are copied before it starts, and back when it has finished: collective/scaled.hpp.
  virtual void begin() {}
  virtual void end() {}
};

/// Before the arguments are looked at: this thread calls on it now. Throws where it has failed.
template <class T>
void begin_call(engine<T>& e);

/// Throws what says that `sentence` is wrong with the arguments of `operation`, after the others have been told.
template <class T>
[[noreturn]] void refuse(engine<T>& e, const char* operation, const char* sentence);
/// The same of a sentence whose two parts end in numbers.
template <class T>
[[noreturn]] void refuse(engine<T>& e, const char* operation, const char* first, long long n, const char* second,
                         long long m);

/// `args` has its views, kernel, counts and root; and its schedule, unless the call names none. Chooses, and checks
/// what every collective must check. `agreed`: elements that all ranks must agree upon. `root`: likewise, also where it
/// is the schedule's.
template <class T>
void prepare_call(engine<T>& e, collective_args& args, const call_traits& traits, std::size_t agreed, int root);

/// The same of what is between two ranks: `args` has its schedule and peer as well. `types` and the tag that the caller
/// says: both ranks must agree upon them.
template <class T>
void prepare_pair_call(engine<T>& e, collective_args& args, std::uint32_t types, std::uint32_t user_tag);

/// The blocking call, to its end.
template <class T>
void run_call(engine<T>& e, collective_args& args, const typename options_of<T>::type& options, const call_types& types,
              call_site site);

/// A byte where the transport takes bytes from; `of_host` where that is the host's memory.
template <class T>
std::byte* token_of(engine<T>& e, std::byte* of_host);

/// Collective: of each rank its node, told by the transport, or past it where its views are of a device. `mine`: this
/// rank's.
template <class T>
std::vector<int> nodes_told_on_host(engine<T>& e, int mine);

}  // namespace kolo::inline KOLO_ABI::detail::execute

#ifndef KOLO_DECLARES
#include <kolo/impl/calls.hpp>
#endif
