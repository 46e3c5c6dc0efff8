// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What users hold: a group of ranks, the first argument of every collective.
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

/// `T::options`; where a transport is known by its name alone, this says it.
template <class T>
struct options_of {
  using type = typename T::options;
};

/// May a transport be made of these? Where it is known by its name alone, this says it.
template <class T, class... Args>
inline constexpr bool is_made_of = std::constructible_from<T, Args...>;

/// In compiled mode: the transports whose engines are in the library.
template <class T>
inline constexpr bool is_in_library = false;
template <class T>
concept HasEngine = is_in_library<T> || requires {
  sizeof(engine<T>);
};

}  // namespace detail::execute

/// What may be said with `communicator::grow`; equal on all its ranks.
struct grow_options {
  std::chrono::nanoseconds timeout{};  ///< so long newcomers are awaited; 0: the communicator's
  int newcomers = 1;                   ///< so many come
};

/// A group of ranks that do collective operations together: the first argument of every collective. Several may live at
/// once and take turns in any order that is the same on all ranks. Use it from one thread at a time. Destroying it
/// waits for nobody; when an exception destroys it, the others get `errc::peer_failed` that names this rank. Where that
/// exception is the failure of another communicator, they get what failed there, and the rank here that caused it; or
/// nobody (peer -1), where that is none of these ranks. After a failure every call on it fails at once, on every rank,
/// with the first cause. One that was moved from may be assigned to or destroyed; all else is undefined.
template <class T>
class communicator {
#ifdef KOLO_COMPILED
  static_assert(detail::execute::HasEngine<T>,
                "kolo: the compiled library knows communicators of shm and threads: include <kolo/impl/engine.hpp> for "
                "other transports, and for what wraps a transport");
#endif

 public:
  using transport_type = T;
  using options = typename detail::execute::options_of<T>::type;  ///< what may be said with one call: `{.timeout = 5s}`

  /// Over a transport that is made of these. Requires impl/engine.hpp.
  template <class... Args>
    requires(!(std::same_as<std::remove_cvref_t<Args>, communicator> || ...) && detail::execute::is_made_of<T, Args...>)
  explicit communicator(Args&&... args) : engine_{detail::execute::make_engine<T>(std::forward<Args>(args)...)} {}

  int rank() const;        ///< of this rank: 0 ... size() - 1
  int size() const;        ///< how many ranks it has
  int local_rank() const;  ///< among the ranks on this node
  int local_size() const;  ///< how many ranks are on this node
  int node_rank() const;   ///< of this node among the nodes
  int node_count() const;  ///< how many nodes it has ranks on

  /// Collective over all ranks. Those that say the same color make a communicator, ordered by key, then by rank. What
  /// was started before is waited for. A table that was named here (`use_tuning`) holds there as well, until another is
  /// named there; what was fitted does not.
  /// Cost    a few small exchanges among all ranks.
  /// Errors  out_of_resources: no memory for another one; mismatch: a rank does something else; what any call may end
  ///         with.
  communicator split(int color, int key, const call_site& site = call_site::here());

  /// What is left of it, after a failure: collective over the ranks that are still there, which get a communicator of
  /// their own, numbered in the same order. Who has died, thrown or left is not in it, and neither is who does not come
  /// within `o.timeout` (0: the communicator's): that rank gets `errc::timeout` when it comes. Where a rank is lost
  /// meanwhile, they agree once more. This communicator stays broken, with its first cause; one that was whole is
  /// broken by it, so that who waits there hears of it. No operation survives: repeat what did not end on all ranks.
  ///     catch (const kolo::error&) { comm = comm.shrink({.timeout = 5s}); }
  /// Cost    of one deadline where a rank is there and does not come, else as long as the last one takes to come. The
  ///         memory of the old one is given back when the job ends.
  /// Errors  timeout: the others have gone on without this rank; invalid_argument: it has called this before, or the
  ///         transport cannot (over MPI, NCCL, and between nodes); out_of_resources: there is no memory for another
  ///         communicator.
  communicator shrink(const options& o = {});

  /// This communicator and newcomers: collective over its ranks, which keep their numbers; `o.newcomers` processes
  /// (over threads: threads of this process) that call `kolo::shm::join(meeting)` (`kolo::threads::join`) get the
  /// numbers behind them, as they come. More who wait there stay for the next one. What was started before is waited
  /// for. This communicator can be used as before, also when that ends in an error, unless one of its ranks is lost.
  /// The state that a newcomer needs it gets from a peer: `kolo::broadcast_parameters`. A table that was named here
  /// holds there when it is named there, on all ranks.
  ///     comm = comm.grow("training", {.timeout = 5s});
  /// Cost    a few small exchanges among all ranks, and some milliseconds where newcomers wait already. Memory on the
  ///         heap of a rank is addressed by the new communicator, too.
  /// Errors  the same on all ranks, while none is lost; timeout: not so many came within `o.timeout`, or one that came
  ///         did not go on; peer_died: a newcomer was lost before it had arrived, or a rank was; mismatch: a newcomer
  ///         has another version, `slot_bytes` or `checked`, and hears it as well; invalid_argument: ranks say
  ///         different things, or no name; out_of_resources.
  template <std::same_as<T> U = T>
  communicator grow(std::string_view meeting, const grow_options& o = {}, const call_site& site = call_site::here());

  /// How many pieces of this rank's buffers others may still write to, after a call has failed: nearly always none. A
  /// rank that is stopped in the middle of a piece keeps it, if it lies where all ranks address it for good
  /// (`symmetric`); over MPI it is what could not be cancelled. Do not use or free such buffers until this is 0: the
  /// rank has gone on then, or ended. `shrink` hands it down.
  std::size_t buffers_in_use() const;

  /// Which algorithm it has chosen for which calls, and how they run: it follows from the rank, the number of ranks,
  /// their nodes and the table that was named. A communicator that is like it in all of these may begin with it, and
  /// finds nothing out again. Not collective; costs nothing.
  using choices = detail::execute::call_cache;
  choices take_choices();            ///< what it leaves it has to find out again
  void begin_with(choices&& known);  ///< in place of what it has chosen itself; tables are named and fitted before

  T& transport() const;  ///< what carries it, for what only that kind of transport can do
  const std::shared_ptr<detail::execute::engine<T>>& engine() const { return engine_; }  ///< for the collectives

 private:
  void hand_down(communicator& part) const;

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
