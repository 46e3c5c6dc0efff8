// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of a collective: one function object for each of its three call modes, from the arguments to a running
// operation.
#pragma once

#include <kolo/collective/call.hpp>
#include <kolo/collective/check.hpp>
#include <kolo/core/call_site.hpp>
#include <kolo/execute/request.hpp>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::collective {

template <class O, class C>
inline constexpr bool are_options = std::is_same_v<std::remove_cvref_t<O>, typename C::options>;
template <class O, class C>
concept OptionsOf = are_options<O, C>;

/// The elements outlive the call.
template <class X>
concept StaysAlive = !ViewLike<X> || Borrowed<X>;

template <class... X>
using last_of = std::remove_cv_t<typename decltype((std::type_identity<X>{}, ...))::type>;

enum class call_mode { blocking, nonblocking, persistent };

template <class C>
concept Composite = bool{std::remove_cvref_t<C>::is_composite};
template <class C>
concept TakesCalls = Communicator<C> || Composite<C>;

/// A collective as a function object: `Collective::make(comm, arguments...)` defines its arguments, and this class runs
/// it. Options come last and may be a braced list.
template <class Collective, call_mode M>
struct collective_fn {
  template <TakesCalls C>
  auto operator()(C& comm, const typename C::options& options = {}, call_site site = call_site::here()) const {
    return enter(comm, options, site);
  }
  template <TakesCalls C, class A1>
    requires(!OptionsOf<A1, C>)
  auto operator()(C& comm, A1&& a1, const typename C::options& options = {}, call_site site = call_site::here()) const {
    return enter<A1>(comm, options, site, a1);
  }
  template <TakesCalls C, class A1, class A2>
    requires(!OptionsOf<A2, C>)
  auto operator()(C& comm, A1&& a1, A2&& a2, const typename C::options& options = {},
                  call_site site = call_site::here()) const {
    return enter<A1, A2>(comm, options, site, a1, a2);
  }
  template <TakesCalls C, class A1, class A2, class A3>
    requires(!OptionsOf<A3, C>)
  auto operator()(C& comm, A1&& a1, A2&& a2, A3&& a3, const typename C::options& options = {},
                  call_site site = call_site::here()) const {
    return enter<A1, A2>(comm, options, site, a1, a2, a3);
  }
  template <TakesCalls C, class A1, class A2, class A3, class A4>
    requires(!OptionsOf<A4, C>)
  auto operator()(C& comm, A1&& a1, A2&& a2, A3&& a3, A4&& a4, const typename C::options& options = {},
                  call_site site = call_site::here()) const {
    return enter<A1, A2>(comm, options, site, a1, a2, a3, a4);
  }
  template <TakesCalls C, class A1, class A2, class A3, class A4, class A5>
    requires(!OptionsOf<A5, C>)
  auto operator()(C& comm, A1&& a1, A2&& a2, A3&& a3, A4&& a4, A5&& a5, const typename C::options& options = {},
                  call_site site = call_site::here()) const {
    return enter<A1, A2>(comm, options, site, a1, a2, a3, a4, a5);
  }

  template <class First, class... Rest>
    requires(!TakesCalls<First>)
  auto operator()(First&&, Rest&&...) const { communicator_is_first<First>{}; }
  // Options before the algorithm: no other argument may follow options.
  template <TakesCalls C, class Last>
  auto operator()(C&, const typename C::options&, Last&&) const {
    options_are_last<Last>{};
  }
  template <TakesCalls C, class A1, class Last>
  auto operator()(C&, A1&&, const typename C::options&, Last&&) const {
    options_are_last<Last>{};
  }
  template <TakesCalls C, class A1, class A2, class Last>
  auto operator()(C&, A1&&, A2&&, const typename C::options&, Last&&) const {
    options_are_last<Last>{};
  }
  template <TakesCalls C, class A1, class A2, class A3, class Last>
  auto operator()(C&, A1&&, A2&&, A3&&, const typename C::options&, Last&&) const {
    options_are_last<Last>{};
  }

 private:
  /// Further argument types of this collective.
  template <class X>
  static constexpr bool takes = requires {
    requires Collective::template takes<std::remove_cv_t<X>>;
  };

  /// `Views`: the types of the arguments that are views, as they were passed, for collectives that have any.
  template <class... Views, class C, class... Args>
  static auto enter(C& comm, const typename C::options& options, call_site site, Args&... args) {
    static_assert(M == call_mode::blocking || (true && ... && StaysAlive<Views>),
                  "kolo: a started or planned call refers to its views and does not copy them: pass named views, not "
                  "temporaries");
    using P = parts_of<Args...>;
    if constexpr ((true && ... && sound_argument<Args, takes<Args>>::yes) && complete_parts<Collective::K, P>::yes &&
                  sound_algorithm<Collective::K, typename P::algorithm>::yes) {
      if constexpr (schedule::reduces(Collective::K)) {
        using T = view_element_t<typename P::in>;
        static_assert(sound_operator<T, typename P::op, schedule_type<Collective::K, typename P::algorithm>>::yes);
        if constexpr (!std::same_as<T, view::unknown_element> && !operator_accepts<typename P::op, T>)
          static_assert((operator_check<typename P::op, T>(), true));
      }
      if constexpr (Composite<C>) {
        auto& chosen = comm.template part<Collective::K, Args...>();
        using Chosen = std::remove_reference_t<decltype(chosen)>;
        return enter<Views...>(chosen, C::template options_for<Chosen>(options), site, args...);
      } else {
        if constexpr (P::views > 0)
          static_assert(sound_views<typename P::in, typename P::out, typename C::transport_type,
                                    Collective::K != kind::send>::yes);
        if constexpr ((false || ... || AnyAlgorithm<Args>)) return run(comm, options, site, args...);
        else return run(comm, options, site, args..., automatically);
      }
    }
  }

  template <class C, class... Args>
  static auto run(C& comm, const typename C::options& options, call_site site, Args&... args) {
    using T = typename C::transport_type;
    const auto& on = comm.engine();
    execute::begin_call(*on, name(Collective::K));
    using Call = std::remove_cvref_t<decltype(Collective::make(comm, args...))>;
    constexpr auto& types = execute::types_of<decltype(Call::in), decltype(Call::op), last_of<Args...>>;
    try {
      if constexpr (M == call_mode::blocking) {
        auto&& made = Collective::make(comm, args...);
        if constexpr (requires { made.in.copy_in(); }) made.in.copy_in();
        execute::run_call(*on, made.args, options, types_now(types, made), site);
        if constexpr (requires { made.in.copy_out(); }) made.in.copy_out();
      } else {
        using Handle = std::conditional_t<M == call_mode::nonblocking, request<T>, plan<T>>;
        auto* const made = new owned_call<Call>{[&] { return Collective::make(comm, args...); }};
        std::unique_ptr<execute::any_call> owned{made};  // one type for all calls
        return Handle{on, std::move(owned), options, types_now(types, made->of), site};
      }
    } catch (...) {  // of a view, an operator or a schedule, and the other ranks wait for this one
      execute::break_by_exception(*on, name(Collective::K));
      throw;
    }
  }

  /// Elements whose type is known at run time only have names of their own.
  template <class Call>
  static decltype(auto) types_now(const execute::call_types& types, const Call& call) {
    if constexpr (UntypedView<decltype(Call::in)>) return untyped_types(types, call.in, call.op);
    else return (types);
  }
};

/// The three call modes of a collective.
template <class Collective>
using blocking = collective_fn<Collective, call_mode::blocking>;
template <class Collective>
using started = collective_fn<Collective, call_mode::nonblocking>;
template <class Collective>
using planned = collective_fn<Collective, call_mode::persistent>;

}  // namespace kolo::inline KOLO_ABI::detail::collective
