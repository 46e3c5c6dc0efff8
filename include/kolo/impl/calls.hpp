// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a collective call runs (execute/calls.hpp), down to the operation that moves its data.
#pragma once

#include <kolo/execute/call_signature.hpp>
#include <kolo/execute/calls.hpp>
#include <kolo/execute/collective_operation.hpp>
#include <kolo/execute/pair_comparison.hpp>
#include <kolo/execute/small_call_messages.hpp>
#include <kolo/impl/communicator.hpp>
#include <kolo/select/choose.hpp>
#include <kolo/select/native.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/small_exchange.hpp>

#include <memory>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::select {
/// Defined in select/choose.hpp, which may include this header.
template <Transport T>
bool resolve_automatic(execute::engine<T>& e, collective_args& args, const execute::choice& c, std::size_t bytes);
}  // namespace kolo::inline KOLO_ABI::detail::select

namespace kolo::inline KOLO_ABI::detail::execute {

template <class T>
void begin_call(engine<T>& e, const char* call) {
  e.begin(call);
  e.throw_if_failed();
}
template <class T>
void refuse(engine<T>& e, const char* operation, const char* sentence) {
  e.refuse(operation, sentence);
}
template <class T>
void refuse(engine<T>& e, const char* operation, const char* first, long long n, const char* second, long long m) {
  e.refuse(operation, core::text_of({first, n, second, m}));
}
template <class T>
void refuse_algorithm(engine<T>& e, const char* operation, std::string_view its) {
  e.refuse(operation, core::text_of({"the algorithm, with its parameters, does not support ",
                                     core::ranks_text(e.transport.size()), ": ", short_name(its)}));
}

template <class T>
std::chrono::nanoseconds time_limit(const engine<T>& e) {
  return e.transport.timeout();
}
template <class T>
void pass_on(engine<T>& e, std::string_view text) {
  e.pass_on(text);
}
template <class T>
void break_by_exception(engine<T>& e, const char* call) {
  e.pass_on(core::ended_by_exception(call));
}

/// The fingerprint's lowest byte is the kind, so that a mismatch can be reported by name.
constexpr std::uint32_t fingerprint(kind k, std::uint32_t types, std::uint64_t count, int root) {
  std::uint64_t h = (types ^ (count * 0x9e3779b97f4a7c15u) ^ (std::uint64_t(root) << 40)) * 0xff51afd7ed558ccdu;
  h ^= h >> 32;
  return (std::uint32_t(h) & ~0xffu) | std::uint32_t(k);
}

/// Throws if the transport cannot carry the elements.
template <class T>
void check_elements(engine<T>& e, const collective_args& args) {
  if constexpr (requires { e.transport.slot_bytes(); })
    if (args.compute.wire_bytes > e.transport.slot_bytes()) [[unlikely]]
      e.refuse(args.operation(), core::text_of({"an element is larger than a slot of this transport, which is ",
                                                e.transport.slot_bytes(), " bytes long"}));
  if constexpr (RefusesCalls<T>) {
    std::string why;
    try {
      why = e.transport.refusal(args);
    } catch (const error& x) {
      e.pass_on(std::string_view{x.cause().text});
      throw;
    }
    if (!why.empty()) e.refuse(args.operation(), why);
  }
}

/// Refuses elements at the null pointer, except where they matter on another rank only.
template <class T>
[[gnu::cold, gnu::noinline]] void refuse_nowhere(engine<T>& e, const collective_args& args, int root) {
  const auto k = args.collective;
  const bool is_root = root < 0 || root == e.transport.rank();
  const bool reads = is_root || k != kind::scatter, writes = is_root || (k != kind::gather && k != kind::reduce);
  if ((reads && args.in.is_nowhere()) || (writes && args.out.is_nowhere()))
    refuse(e, args.operation(), "a view has elements, and their address is null");
}

/// Prepares a call that is not among the recent ones.
template <class T>
[[gnu::noinline]] void prepare_anew(engine<T>& e, collective_args& args, const call_traits& traits, std::size_t agreed,
                                    int root) {
  const int size = e.transport.size();
  const kind k = args.collective;
  bool is_native = !traits.is_automatic && traits.native;
  if (traits.is_automatic) {
    const auto elements = args.count > 0 ? schedule::in_all(k, args.count, size) : agreed;  // 0 if parts differ
    is_native = select::resolve_automatic(e, args, traits.how, elements * args.compute.wire_bytes);
  } else if (!is_native && size > 1) {
    const auto& s = args.schedule;
    if (s.blocks < 1 || s.blocks % (schedule::has_parts(k) ? size : 1) != 0 || s.rounds < 0 || s.scratch < 0)
      e.refuse(args.operation(), "blocks or rounds of the algorithm do not fit the collective and the number of ranks");
    resolve_named(e, args);
  }
  if constexpr (select::HasNative<T>) {
    if (is_native) {
      args.native = traits.native;
      args.native_finishes = select::NativeFinishes<T>;
      if constexpr (requires { native_of<T>::refusal(args, 0, 1); })
        if (const char* const why = native_of<T>::refusal(args, e.transport.rank(), size))
          e.refuse(args.operation(), why);
    }
  }
  const auto shape = args.schedule.shape();
  if (size == 1) args.schedule.rounds = 0;
  check_elements(e, args);
  std::uint64_t numbers = agreed;
  if (args.send_counts && k != kind::alltoall)  // each rank has counts of its own
    for (int r = 0; r < size; ++r) numbers = (numbers ^ args.send_counts[r]) * 1099511628211u + 1;
  args.fingerprint = fingerprint(k, traits.types ^ shape, numbers, root);
  if constexpr (has_small_calls<T>)
    if (args.small && traits.is_automatic && !is_native)
      e.resolved.recent(&traits) = {&traits,      traits.types, args.compute.element_bytes, k,
                                    root,         agreed,       args.fingerprint,           args.small,
                                    args.runs_as, args.schedule};
}

template <class T>
void prepare_call(engine<T>& e, collective_args& args, const call_traits& traits, std::size_t agreed, int root) {
  if (args.in.is_nowhere() || args.out.is_nowhere()) [[unlikely]]
    refuse_nowhere(e, args, root);
  if constexpr (has_small_calls<T> && !RefusesCalls<T>)
    if (const auto& known = e.resolved.recent(&traits);
        known.is_of(traits, args.compute.element_bytes, agreed, root) && !args.send_counts) {
      ::new (&args.schedule) schedule_ref(known.schedule);
      args.runs_as = known.runs_as;
      args.small = known.small;
      args.fingerprint = known.fingerprint;
      return;
    }
  prepare_anew(e, args, traits, agreed, root);
}

/// Rejects a negative deadline: treating it as none would mean waiting for minutes when a caller has computed that no
/// time is left.
template <Transport T>
[[gnu::always_inline]] inline std::chrono::nanoseconds timeout_of(engine<T>& e, const collective_args& args,
                                                                  const typename options_of<T>::type& options) {
  if (options.timeout.count() == 0) return e.transport.timeout();
  if (options.timeout.count() < 0) [[unlikely]]
    refuse(e, args.operation(), transport::negative_deadline);
  return transport::bounded(options.timeout);
}

template <class T>
std::unique_ptr<call_check> pairs<T>::comparison_of(const call_types& types, const collective_args& args,
                                                    const options& of_call, call_site site) {
  if constexpr (compares_pairs<T>)
    if (const auto& transport = engine_.transport; args.peer != transport.rank())
      return std::make_unique<pair_comparison<T>>(engine_, signature_of(types, args, transport.size(), site), args,
                                                  of_call, timeout_of(engine_, args, of_call));
  return nullptr;
}

template <class T>
void pairs<T>::run_small(const collective_args& args, const small_call_plan& plan, const options& of_call) {
  run_small_operation(engine_, args, plan, of_call, timeout_of(engine_, args, of_call));
}

template <class T>
void prepare_pair_call(engine<T>& e, collective_args& args, std::uint32_t types, std::uint32_t user_tag) {
  if (args.in.is_nowhere() || args.out.is_nowhere()) [[unlikely]]
    refuse_nowhere(e, args, -1);
  if (!e.pairs) e.pairs = std::make_shared<pairs<T>>(e);
  const kind k = args.collective;
  if (args.peer != e.transport.rank()) resolve_named(e, args);
  check_elements(e, args);
  args.tag = p2p_tag(user_tag, fingerprint(k, types, args.count, 0), k);
}

template <class T>
std::byte* token_of(engine<T>& e, std::byte* of_host) {
  if constexpr (HasToken<T>) return e.transport.token();
  else return of_host;
}

template <class T>
std::vector<int> allgather_nodes(engine<T>& e, int mine) {
  const auto here = e.begin_alone("topology_of");
  if constexpr (NodeAware<T>) {
    return e.transport.nodes();
  } else {
    return transport::small_allgather(host_transport_of(e.transport), mine, "topology_of");
  }
}

template <Transport T>
call_signature signature_of(engine<T>& e, const call_types& types, const collective_args& args, call_site site) {
  call_signature r = signature_of(types, args, e.transport.size(), site);
  r.owner = e.owner;
  return r;
}
// Kept out of the code of unchecked calls.
template <Transport T>
[[gnu::cold, gnu::noinline]] std::unique_ptr<call_check> comparison_of(engine<T>& e, const call_types& types,
                                                                       const collective_args& args,
                                                                       const typename options_of<T>::type& options,
                                                                       call_site site) {
  if (args.peer >= 0) return e.pairs->comparison_of(types, args, options, site);
  return std::make_unique<typename engine<T>::comparison>(host_transport_of(e.transport), e.compared, args.operation(),
                                                          signature_of(e, types, args, site),
                                                          timeout_of(e, args, options), summary_of(args));
}
template <Transport T>
[[gnu::cold, gnu::noinline]] void compare(engine<T>& e, const call_types& types, const collective_args& args,
                                          const typename options_of<T>::type& options, call_site site) {
  if (args.peer >= 0) {
    const auto c = e.pairs->comparison_of(types, args, options, site);
    if (!c) return;
    e.enqueue_before(c->as_operation());
    return e.wait_or_abandon(c->as_operation());
  }
  e.compare(args.operation(), signature_of(e, types, args, site), timeout_of(e, args, options), summary_of(args));
}

template <class T>
void run_call(engine<T>& e, collective_args& args, const typename options_of<T>::type& options, const call_types& types,
              call_site site) {
  const calling_thread here{e.caller};
  if (e.is_checked) [[unlikely]]
    execute::compare(e, types, args, options, site);
  if constexpr (has_small_calls<T>)
    if (const auto* const plan = small_plan_for(e, args)) {
      if (args.peer >= 0) return e.pairs->run_small(args, *plan, options);
      const auto timeout = timeout_of(e, args, options);
      if constexpr (SharedMemoryTransport<T>) return run_small_call(e, args, *plan, options, timeout);
      else return run_small_operation(e, args, *plan, options, timeout);
    }
  collective_operation<T> run{e, args, options};
  execute::describe(run, args, summary_of(args), timeout_of(e, args, options));
  e.enqueue(run);
  e.wait_or_abandon(run);
}

}  // namespace kolo::inline KOLO_ABI::detail::execute
