// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// In checked mode, two ranks compare their calls: the signature travels before the data, in the same direction.
#pragma once

#include <kolo/execute/call_signature.hpp>
#include <kolo/execute/collective_operation.hpp>
#include <kolo/schedule/with_peer.hpp>

#include <chrono>
#include <concepts>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Signatures lie in the host's memory, so the transport must send from there.
template <class T>
inline constexpr bool compares_pairs = std::derived_from<typename engine<T>::memory, host_memory>;

/// The arguments of the message that carries the signature.
struct pair_signature_call {
  pair_signature_call(const collective_args& of, pair_signatures& signatures, int size) {
    switch (of.collective) {
      case kind::send: args.schedule = erase_schedule(sends = {of.peer}, size); break;
      case kind::receive: args.schedule = erase_schedule(receives = {of.peer}, size); break;
      default: args.schedule = erase_schedule(exchanges = {of.peer}, size);
    }
    args.collective = of.collective;
    args.peer = of.peer;
    args.count = sizeof(call_signature);
    args.runs_as = of.runs_as;
    args.compute = reduce::copy_kernel<std::byte>();
    args.tag = p2p_tag(0, comparison_mark, of.collective);
    const auto bytes = [](call_signature& r) {
      return memory{.base = reinterpret_cast<std::byte*>(&r), .count = sizeof r, .element_bytes = 1};
    };
    if (of.collective != kind::receive) args.in = bytes(signatures.mine);
    if (of.collective != kind::send) args.out = bytes(signatures.theirs);
  }
  pair_signature_call(const pair_signature_call&) = delete;
  pair_signature_call& operator=(const pair_signature_call&) = delete;

  schedule::with_peer<kind::send> sends{};
  schedule::with_peer<kind::receive> receives{};
  schedule::with_peer<kind::exchange> exchanges{};
  collective_args args{};
};

/// A pair operation that precedes the one it checks, under the same number. Cost: one more message in each direction of
/// that operation. The receiver compares.
/// Errors  mismatch, in the same words on every rank.
template <Transport T>
class pair_comparison final : pair_signature_call, public collective_operation<T>, public call_check {
 public:
  pair_comparison(engine<T>& e, const call_signature& mine, const collective_args& of,
                  const typename T::options& options, std::chrono::nanoseconds timeout)
      : pair_comparison{e, *signatures_of(e).take(), mine, of, options, timeout} {}
  ~pair_comparison() override {
    if (this->finished || !has_begun_) signatures_of(engine_).put_back(&signatures_);
  }

  operation& as_operation() override { return *this; }
  void restart() override { collective_operation<T>::restart(); }

 private:
  static auto& signatures_of(engine<T>& e) { return static_cast<pairs<T>&>(*e.pairs).signatures; }

  pair_comparison(engine<T>& e, pair_signatures& signatures, const call_signature& mine, const collective_args& of,
                  const typename T::options& options, std::chrono::nanoseconds timeout)
      : pair_signature_call{of, signatures, e.transport.size()},
        collective_operation<T>{e, pair_signature_call::args, options},
        engine_{e},
        signatures_{signatures} {
    signatures_.mine = mine;
    signatures_.mine.collective = std::string_view{name(of.collective)};
    this->now = wait_context{.operation = name(of.collective), .peer = of.peer, .timeout = timeout};
    this->summary = {of.collective, 1, sizeof(call_signature)};
    this->tag = pair_signature_call::args.tag;
    this->advance = [](operation& o) { return static_cast<pair_comparison&>(o).go_on_and_compare(); };
  }

  advanced go_on_and_compare() {
    has_begun_ = true;
    auto& number = signatures_.mine.sequence;  // written once: the peer may be reading it in place
    if (number != this->now.sequence) number = this->now.sequence;
    const auto a = this->go_on();
    if (a == advanced::finished && this->summary.what() != kind::send) compare();
    return a;
  }
  void compare() {
    call_signature expected = signatures_.mine;
    if (this->summary.what() == kind::receive) expected.collective = std::string_view{name(kind::send)};
    const int rank = engine_.transport.rank();
    if (const char* const what = difference(expected, signatures_.theirs))
      throw error{engine_.transport.fail(disagreement(signatures_.mine, rank, signatures_.theirs, this->peer, what))};
  }

  engine<T>& engine_;
  pair_signatures& signatures_;
  bool has_begun_ = false;
};

}  // namespace kolo::inline KOLO_ABI::detail::execute
