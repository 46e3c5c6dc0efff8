// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How an engine handles failures: it breaks the communicator, notifies the other ranks, and reports to the caller.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/core/log.hpp>
#include <kolo/execute/operation.hpp>
#include <kolo/transport/abilities.hpp>
#include <kolo/transport/forwarded.hpp>
#include <kolo/transport/transport.hpp>

#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::execute {

/// The part of `Engine` that handles failures.
template <class Engine>
struct failing {
  /// `thrown` came from progressing `o`: all ranks are notified.
  [[noreturn, gnu::cold, gnu::noinline]] void break_by(const operation& o, const error& thrown) {
    auto& transport = self().transport;
    mark_reported();
    failure f = thrown.cause();
    if (f.rank < 0) f.rank = transport.rank();
    if (std::string_view{f.operation}.empty()) locate(f, o);
    if (!transport.failed()) break_off(o, f.text);
    else if constexpr (AdoptsFailures<std::remove_cvref_t<decltype(transport)>>) transport.adopt_first_failure(f);
    throw error{f, thrown.buffers_in_use()};
  }
  /// The exception is not an error of this library; the caller rethrows it.
  [[gnu::cold, gnu::noinline]] void break_by_exception(const operation& o) {
    mark_reported();
    if (!self().transport.failed()) break_off(o, core::ended_by_exception("its operation"));
  }
  [[gnu::cold, gnu::noinline]] void break_off(const operation& o, std::string_view text) {
    auto& transport = self().transport;
    failure f{.code = errc::peer_failed, .rank = transport.rank(), .peer = transport.rank(), .text = text};
    locate(f, o);
    fail(f);
  }
  /// Fails the transport and marks this rank's operations in the flight recorder as stopped.
  void fail(const failure& f) {
    self().transport.fail(f);
    self().flight->fail();
  }
  /// Called where an exception from other work is caught: ranks of this communicator may be waiting for this one, so
  /// its transport is failed too.
  [[gnu::cold, gnu::noinline]] void pass_on(std::string_view text) {
    auto& transport = self().transport;
    if (self().process.is_this() && transport.size() > 1 && !transport.failed())
      fail(transport::failure_while_unwinding(transport, text));
  }
  static void locate(failure& f, const operation& o) {
    f.round = o.now.round;
    f.sequence = o.now.sequence;
    f.operation = std::string_view{o.now.operation};
  }

  static void take_back(operation& o) noexcept {
    o.has_failed = true;
    if (o.revoke) o.revoke(o);
  }
  [[noreturn, gnu::cold, gnu::noinline]] void throw_with_buffers_in_use(const error& e) {
    if (const auto n = transport::buffers_in_use(self().transport); n > 0) throw error{e.cause(), n};
    throw;
  }
  /// If it throws, the views of `o` are the caller's again, or the error reports that they are not; and the other ranks
  /// are notified, since `o` does not continue, wherever the exception came from.
  auto taking_back(operation& o, auto&& work) {
    try {
      return work();
    } catch (const error& e) {
      take_back(o);
      if (!self().transport.failed()) break_off(o, e.cause().text);
      throw_with_buffers_in_use(e);
    } catch (...) {
      take_back(o);
      break_by_exception(o);
      throw;
    }
  }

  /// The caller is about to receive the failure.
  void mark_reported() noexcept {
    auto& e = self();
    if (e.transport.failed()) e.flight->fail();
    if (core::logs != core::log_nothing && !e.has_reported) [[unlikely]]
      log_failure();
    e.has_reported = e.has_failed = true;
    e.unreported->was_reported_by(&e);
  }
  [[gnu::cold, gnu::noinline]] void log_failure() noexcept {
    auto& transport = self().transport;
    if (const failure* const f = transport.failed()) core::log_line(transport.rank(), {"failed: ", kolo::sentence(*f)});
  }
  void reporting(auto work) {
    core::with_rollback(work, [&] { mark_reported(); });
  }
  [[noreturn, gnu::cold, gnu::noinline]] void throw_failure(const failure& f) {
    mark_reported();
    throw error{f};
  }

  /// This rank rejects its caller's arguments. The others are notified, since they wait for it. (Not for a forked
  /// child, whose optimizer may refuse before its first call does.)
  [[noreturn, gnu::cold, gnu::noinline]] void refuse(const char* operation_name, const std::string& sentence) {
    auto& transport = self().transport;
    const int rank = transport.rank();
    failure f{.code = errc::invalid_argument,
              .rank = rank,
              .peer = rank,
              .sequence = self().sequence + 1,
              .operation = operation_name,
              .text = sentence};
    const error mine{f};
    f.code = errc::peer_failed;
    f.text = core::text_of({"refused its arguments, so the others cannot go on: ", sentence});
    if (transport.size() > 1 && self().process.is_this()) transport.fail(f);
    mark_reported();
    throw mine;
  }

 private:
  Engine& self() noexcept { return static_cast<Engine&>(*this); }
};

}  // namespace kolo::inline KOLO_ABI::detail::execute
