// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The communicator: a group of ranks, the first argument of every collective.
#pragma once

#include <kolo/core/call_site.hpp>
#include <kolo/core/error.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

namespace kolo::inline KOLO_ABI {

namespace detail::execute {

template <class T>
struct engine;     // execute/engine.hpp
class call_cache;  // execute/call_cache.hpp
template <class T, class... Args>
std::shared_ptr<engine<T>> make_engine(Args&&... args);  // impl/communicator.hpp

/// `T::options`; specialised for a transport that is only declared.
template <class T>
struct options_of {
  using type = typename T::options;
};

/// Whether a transport can be constructed from these: one that is only declared, as those of the library are in
/// compiled mode, cannot, unless this is specialised for it.
template <class T, class... Args>
inline constexpr bool is_made_of = requires {
  sizeof(T);
  requires std::constructible_from<T, Args...>;
};

/// In compiled mode: the transports whose engines are in the library.
template <class T>
inline constexpr bool is_in_library = false;
template <class T>
concept HasEngine = is_in_library<T> || requires {
  sizeof(engine<T>);
};

}  // namespace detail::execute

/// The options of `communicator::grow`; equal on all its ranks.
struct grow_options {
  std::chrono::nanoseconds timeout{};  ///< for the newcomers to come; 0: the communicator's
  int newcomers = 1;                   ///< how many
};

/// A group of ranks that do collective operations together: the first argument of every collective. Several may live at
/// once and take turns in any order that is the same on all ranks. Use it from one thread at a time. Destroying it
/// waits for no rank; when an exception destroys it, the others get `errc::peer_failed` that names this rank. If that
/// exception is the failure of another communicator, they get that failure's text, and the rank of this communicator
/// that caused it; peer is -1 if none of these ranks did. After a failure every call on it fails at once, on every
/// rank, with the first cause; the buffers of calls that were started before belong to their requests until these are
/// waited for or destroyed. Every call on a communicator that was moved from throws `invalid_argument`. A copy is the
/// same communicator, which lives until the last of them is gone, also when an exception destroys another one: so pass
/// references.
template <class T>
class communicator {
#ifdef KOLO_COMPILED
  static_assert(detail::execute::HasEngine<T>,
                "kolo: the compiled library has communicators of shm and threads only: include <kolo/impl/engine.hpp> "
                "for other transports, and for decorators of a transport");
#endif

 public:
  using transport_type = T;
  using options = typename detail::execute::options_of<T>::type;  ///< the options of one call: `{.timeout = 5s}`

  /// Over a transport constructed from these. Requires impl/engine.hpp.
  template <class... Args>
    requires(!(std::same_as<std::remove_cvref_t<Args>, communicator> || ...) && detail::execute::is_made_of<T, Args...>)
  explicit communicator(Args&&... args) : engine_{detail::execute::make_engine<T>(std::forward<Args>(args)...)} {}

  int rank() const;        ///< of this rank: 0 ... size() - 1
  int size() const;        ///< how many ranks it has
  int local_rank() const;  ///< among the ranks on this node
  int local_size() const;  ///< how many ranks are on this node
  int node_rank() const;   ///< of this node among the nodes
  int node_count() const;  ///< how many nodes it has ranks on

  /// Collective over all ranks. Ranks that pass the same color form a communicator, ordered by key, then by rank. Waits
  /// for all started operations. A table named here (`use_tuning`) applies there as well, until another one is named
  /// there; a fitted one does not.
  /// Cost    a few small exchanges among all ranks.
  /// Errors  out_of_resources: no memory for another one; mismatch: a rank does something else; the failures of any
  ///         call.
  communicator split(int color, int key, const call_site& site = call_site::here());

  /// A communicator of the surviving ranks, after a failure: collective over the ranks that are still there, numbered
  /// in the same order. A rank that has died, thrown or left is not a member, nor is one that does not come within
  /// `o.timeout` (0: the communicator's): that rank gets `errc::timeout` when it comes. If a rank is lost meanwhile,
  /// the others agree once more. The old communicator stays broken, with its first cause; shrink also breaks one that
  /// had not failed, so that ranks waiting there are notified. No operation survives: repeat those that did not end on
  /// all ranks.
  ///     catch (const kolo::error&) { comm = comm.shrink({.timeout = 5s}); }
  /// Cost    one deadline if a rank is alive and does not come, else the time until the last one comes. The memory of
  ///         the old one is returned when the job ends.
  /// Errors  timeout: the others have continued without this rank; invalid_argument: it has called this before, or the
  ///         transport cannot (over MPI, NCCL, and between nodes); out_of_resources: there is no memory for another
  ///         communicator.
  communicator shrink(const options& o = {});

  /// A communicator of these ranks and newcomers: collective over its ranks, which keep their numbers; `o.newcomers`
  /// processes (over threads: threads of this process) that call `kolo::shm::join(meeting)` (`kolo::threads::join`) get
  /// the numbers after them, in the order in which they come. Further processes that wait there stay for the next
  /// `grow`. Waits for all started operations. The old communicator remains usable, also after an error, unless one of
  /// its ranks is lost. A newcomer gets its state from a peer: `kolo::broadcast_parameters`. Name a tuning table on the
  /// new communicator, on all ranks, if it is to apply there.
  ///     comm = comm.grow("training", {.timeout = 5s});
  /// Cost    a few small exchanges among all ranks, and some milliseconds if newcomers wait already. The new
  ///         communicator addresses memory on the heap of a rank, too.
  /// Errors  the same on all ranks, while none is lost; timeout: fewer came within `o.timeout`, or one that came did
  ///         not continue; peer_died: a newcomer was lost before it had arrived, or a rank was; mismatch: a newcomer
  ///         has another version, `slot_bytes` or `checked`, and gets this error as well; invalid_argument: ranks pass
  ///         different arguments, or no name; out_of_resources.
  template <std::same_as<T> U = T>
  communicator grow(std::string_view meeting, const grow_options& o = {}, const call_site& site = call_site::here());

  /// How many pieces of this rank's buffers other ranks may still read or write, after a call has failed: nearly always
  /// none. A rank that is stopped in the middle of a piece keeps it, if it lies in memory that all ranks address
  /// permanently (`symmetric`); over MPI it is the receives that could not be cancelled, and long messages that nobody
  /// has received, which may stay for ever. Do not use or free such buffers until this is 0: then that rank has
  /// resumed, or ended. `shrink` passes the count on.
  std::size_t buffers_in_use() const;

  /// The algorithms selected so far, and how their calls run: this depends on the rank, the number of ranks, their
  /// nodes and the named table. A communicator that equals this one in all of these may start with it, and need not
  /// select again. Not collective; costs nothing.
  using choices = detail::execute::call_cache;
  choices take_choices();            ///< moves them out: this communicator selects again
  void begin_with(choices&& known);  ///< replaces its own choices; name and fit tables before

  /// What broke this communicator, the cause that every call on it throws; null: it is usable. Not collective.
  const failure* failed() const;

  T& transport() const;  ///< for what only that kind of transport can do; compiled mode: with impl/engine.hpp
  /// For the collectives.
  const std::shared_ptr<detail::execute::engine<T>>& engine() const {
    if (!engine_) [[unlikely]]
      refuse_moved_from();
    return engine_;
  }

 private:
  void hand_down(communicator& part) const;
  [[noreturn]] static void refuse_moved_from();

  std::shared_ptr<detail::execute::engine<T>> engine_;
};

namespace detail::execute {
template <class T>
inline constexpr bool is_communicator = false;
template <class T>
inline constexpr bool is_communicator<communicator<T>> = true;
}  // namespace detail::execute

/// A `kolo::communicator` over any transport, or a reference to one.
template <class C>
concept Communicator = detail::execute::is_communicator<std::remove_cvref_t<C>>;

}  // namespace kolo::inline KOLO_ABI

#ifndef KOLO_DECLARES
#include <kolo/impl/communicator.hpp>
#endif
