// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two transports under one communicator: a rule selects the transport of each call. All calls have one order, and a
// failure of either transport fails both.
#pragma once

#include <kolo/core/kind.hpp>
#include <kolo/core/own_header.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/small_exchange.hpp>
#include <kolo/view/view.hpp>

#include <optional>

namespace kolo::inline KOLO_ABI {

namespace detail::core::own_header {
template <class T>
  requires true inline constexpr bool includes_kolo_composite_hpp<T> = true;
}  // namespace detail::core::own_header

// A rule selects the transport of a call at compile time: `takes_first(k, space)`. `space` is `device` if any view of
// the call is in device memory, else `host`.

/// Calls with device views use the first transport; calls without them, such as a barrier, the second.
struct by_memory {
  static constexpr bool takes_first(kind, memory_space space) { return space == memory_space::device; }
};

/// The collectives `Ks` use the first transport, all others the second.
template <kind... Ks>
struct by_kind {
  static constexpr bool takes_first(kind k, memory_space) { return (false || ... || (k == Ks)); }
};

namespace detail::compose {

template <class T>
concept HasStream = requires(typename T::options o) {
  o.stream;
};
template <class A, class B, class... Args>
inline constexpr bool is_made_from = std::is_constructible_v<A, communicator<B>&, Args...>;

/// What the two transports of a composite share: the first failure, and which of them may run calls.
class shared_failure {
 public:
  virtual ~shared_failure() = default;
  virtual const failure* failed() = 0;
  virtual const failure& fail(const failure&) = 0;
  virtual void acquire_turn(bool is_first, std::uint64_t& sequence) = 0;
  virtual void leave(bool is_first) = 0;
};

/// One transport of a composite: a failure of either one fails both. Before `attach` it behaves as `Base`.
template <Transport Base, bool IsFirst>
class composite_member : public Base {
 public:
  using abilities = kolo::abilities<ability::turns, ability::common_failure>;  ///< and Base's that it does not hide
  using typename Base::options;
  using decorated = Base;

  template <class... Args>
    requires std::constructible_from<Base, Args...>
  explicit composite_member(Args&&... args) : Base(std::forward<Args>(args)...) {}
  composite_member(composite_member&&) noexcept = default;
  composite_member& operator=(composite_member&&) = delete;
  ~composite_member() {
    if (shared_failure_) shared_failure_->leave(IsFirst);
  }

  void attach(std::shared_ptr<shared_failure> shared) { shared_failure_ = std::move(shared); }
  void acquire_turn(std::uint64_t& sequence) {
    if (shared_failure_) shared_failure_->acquire_turn(IsFirst, sequence);
  }

  const failure* failed() const { return shared_failure_ ? shared_failure_->failed() : Base::failed(); }
  const failure& fail(const failure& f) { return shared_failure_ ? shared_failure_->fail(f) : Base::fail(f); }
  /// Replaces `f`, which this transport has thrown, by the first failure of the two transports.
  void adopt_first_failure(failure& f) const {
    if (const failure* first = failed()) f = *first;
  }
  void relax(backoff& p, const wait_context& s) {
    settled([&] { Base::relax(p, s); });
  }
  void check(backoff& p, const wait_context& s) {
    settled([&] { Base::check(p, s); });
  }
  /// Waits for the work on a stream.
  void wait(const options& o = options{}) requires requires(Base& w) { w.wait(o); }
  {
    settled([&] { Base::wait(o); });
  }

 private:
  /// Runs f, unless either transport has failed: then, and in place of an error of f, throws the common first failure.
  void settled(auto f) {
    if (const failure* first = shared_failure_ ? shared_failure_->failed() : nullptr) throw error{*first};
    try {
      f();
    } catch (const error&) {
      if (const failure* first = failed()) throw error{*first};
      throw;
    }
  }

  std::shared_ptr<shared_failure> shared_failure_{};
};

/// Which transport may run calls, and the common failure. Either engine may end first: a plan keeps its own alive.
template <class A, class B>
class composite_state final : public shared_failure {
 public:
  composite_state(execute::engine<composite_member<A, true>>& a, execute::engine<composite_member<B, false>>& b)
      : a_{&a}, b_{&b} {}

  /// The second transport decides which failure is the first.
  const failure* failed() override {
    if (first_) return &*first_;
    const failure* f = b_ ? b_->transport.B::failed() : nullptr;
    if (!f && a_) f = a_->transport.A::failed();
    return f ? &fail(*f) : nullptr;
  }
  const failure& fail(const failure& f) override {
    if (!first_) first_ = b_ ? b_->transport.B::fail(f) : f;
    if (a_) a_->transport.A::fail(*first_);
    return *first_;
  }

  /// Waits for all calls that were started on the other transport, and continues its sequence numbers. Throws if a call
  /// is at work there.
  void acquire_turn(bool is_first, std::uint64_t& sequence) override {
    if (is_first == is_turn_of_first_) return;
    if (is_first && b_) sequence = end_all(*b_);
    if (!is_first && a_) sequence = end_all(*a_);
    is_turn_of_first_ = is_first;  // not earlier: the operator of a call that ends here may call
  }

  /// The transport that is left continues the numbers of the one that leaves: on other ranks both may still be there.
  void leave(bool is_first) override {
    if (a_ && b_ && is_first == is_turn_of_first_) {
      if (is_first) b_->sequence = a_->sequence;
      else a_->sequence = b_->sequence;
    }
    if (is_first) a_ = nullptr;
    else b_ = nullptr;
  }

 private:
  static std::uint64_t end_all(auto& e) {
    const execute::whole_call here{e, "composite"};
    while (e.newest) e.wait(*e.newest);
    return e.sequence;
  }

  execute::engine<composite_member<A, true>>* a_;
  execute::engine<composite_member<B, false>>* b_;
  std::optional<failure> first_{};
  bool is_turn_of_first_ = true;
};

template <class X>
constexpr memory_space space_of_argument() {
  if constexpr (ViewLike<X>) return space_of<view_of<X>>;
  else return memory_space::host;
}

}  // namespace detail::compose

/// One communicator over two transports between the same ranks: the first argument of every collective, blocking,
/// nonblocking or persistent. With `composite<nccl::transport, shm::transport> comm{host}`, device views go over NCCL
/// and host views over shared memory. `first()` and `second()` return communicators, for functions that need one.
///
/// Order    The two transports share one sequence of calls and of their numbers. A call starts on a rank only when all
///          earlier calls of this rank on the other transport have ended there, nonblocking ones too. They end, or
///          fail, by their own deadlines; its own counts from its start.
///          There is no deadlock if all ranks make their calls in the same order, as on any communicator, however the
///          two libraries block inside. Proof: take the lowest call that has not ended on all ranks. A rank that has
///          not made it yet waits only for lower calls, and these end; a rank that has made it does nothing else first.
///          (On a stream, as with NCCL, a call ends on the host when it is enqueued: it needs only the calls with lower
///          numbers, which all ranks have enqueued.) Ranks that disagree about the order get `mismatch` if they meet on
///          a transport that compares numbers, else `timeout`. Calls on the two transports overlap only if the earlier
///          one progresses by itself on a stream.
///          Pair operations, too, end on one transport before any starts on the other: start the sends and the receives
///          of one transport before those of the other.
/// Failure  A failure of one transport fails both, on all ranks, with one first cause. The second transport decides
///          which, so it must be one that notifies all ranks. A rank that waits in one transport checks the other as
///          well.
/// Errors   of construction  invalid_argument: the transports number their ranks differently.
///          of a call  invalid_argument: a call of another thread, or one whose operator or view makes this call, is at
///          work on the other transport.
template <Transport A, Transport B, class Rule = by_memory>
  requires detail::core::own_header::includes_kolo_composite_hpp<A>
class composite {
 public:
  static constexpr bool is_composite = true;
  using first_type = communicator<detail::compose::composite_member<A, true>>;
  using second_type = communicator<detail::compose::composite_member<B, false>>;
  /// The options of B if they include a stream, else those of A.
  using options = std::conditional_t<detail::compose::HasStream<B>, typename B::options, typename A::options>;

  composite(A first, B second) : composite{first_type{std::move(first)}, second_type{std::move(second)}} {}
  /// Collective over `host`: constructs the first transport from `host` and `args`, and splits the second off `host`,
  /// which remains usable.
  template <class... Args>
    requires detail::compose::is_made_from<A, B, Args...>
  explicit composite(communicator<B>& host, Args&&... args)
      : composite{detail::transport::in_the_name_of("composite", [&] { return A(host, std::forward<Args>(args)...); }),
                  split_off(host)} {
    first_.engine()->unreported = second_.engine()->unreported = host.engine()->unreported;
  }

  int rank() const { return second_.rank(); }
  int size() const { return second_.size(); }
  int local_rank() const { return second_.local_rank(); }
  int local_size() const { return second_.local_size(); }
  int node_rank() const { return second_.node_rank(); }
  int node_count() const { return second_.node_count(); }

  first_type& first() { return first_; }
  second_type& second() { return second_; }

  /// Splits both transports. See communicator::split.
  composite split(int color, int key, const call_site& site = call_site::here()) {
    auto first = first_.split(color, key, site);
    return composite{std::move(first), second_.split(color, key, site)};
  }

  /// Shrinks both transports. See communicator::shrink. A first transport that cannot shrink, such as NCCL, is
  /// constructed again from the rest of the second and `args`.
  template <class... Args>
  composite shrink(const options& o = {}, Args&&... args) {
    static_assert(Shrinkable<B>,
                  "kolo: the second transport of this composite cannot shrink: it has no member shrink(timeout)");
    static_assert(Shrinkable<A> || std::constructible_from<A, communicator<B>&, Args...>,
                  "kolo: the first transport of this composite cannot shrink, and it cannot be constructed again over "
                  "the second one with these arguments");
    first_.engine()->begin("shrink"), second_.engine()->begin("shrink");  // a call that is refused fails neither
    const std::string calls = "rank " + std::to_string(rank()) + " calls shrink";
    second_.transport().fail(
        failure_from({.operation = "shrink", .peer = rank()}, errc::peer_failed, rank(), {}, calls));  // fails both
    auto second = second_.shrink(options_for<second_type>(o));
    if constexpr (Shrinkable<A>) {
      auto first = first_.shrink(options_for<first_type>(o));
      while (first.size() != second.size()) {  // a rank failed between the two shrinks; all ranks see that
        second = second.shrink(options_for<second_type>(o));
        first = first.shrink(options_for<first_type>(o));
      }
      return composite{std::move(first), std::move(second)};
    } else {
      communicator<B> rest{std::move(static_cast<B&>(second.transport()))};
      rest.engine()->unreported = second.engine()->unreported;
      return composite{rest, std::forward<Args>(args)...};
    }
  }

  /// Returns the communicator that runs collective K with these arguments.
  template <kind K, class... Args>
  auto& part() {
    constexpr bool is_on_device =
        (false || ... || (detail::compose::space_of_argument<Args>() == memory_space::device));
    if constexpr (Rule::takes_first(K, is_on_device ? memory_space::device : memory_space::host)) return first_;
    else return second_;
  }
  /// Copies the options that `Part` has.
  template <class Part>
  static typename Part::options options_for(const options& o) {
    typename Part::options part{};
    part.timeout = o.timeout;
    if constexpr (requires { part.stream = o.stream; }) part.stream = o.stream;
    return part;
  }

 private:
  composite(first_type first, second_type second) : first_{std::move(first)}, second_{std::move(second)} {
    if (first_.rank() != second_.rank() || first_.size() != second_.size())
      throw error{errc::invalid_argument, "the transports of a composite must number the same ranks: this is rank " +
                                              std::to_string(first_.rank()) + " of " + std::to_string(first_.size()) +
                                              " on the first, and " + std::to_string(second_.rank()) + " of " +
                                              std::to_string(second_.size()) + " on the second"};
    const auto shared = std::make_shared<detail::compose::composite_state<A, B>>(*first_.engine(), *second_.engine());
    first_.transport().attach(shared);
    second_.transport().attach(shared);
  }
  static B split_off(communicator<B>& host) {
    const auto here = host.engine()->begin_alone("composite");
    return detail::transport::in_the_name_of("composite", [&] { return B{host.transport().split(0, host.rank())}; });
  }

  first_type first_;
  second_type second_;
};

}  // namespace kolo::inline KOLO_ABI
