// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operation that runs a call, by the driver that its transport and its schedule allow.
#pragma once

#include <kolo/execute/executor.hpp>
#include <kolo/execute/messaging.hpp>
#include <kolo/execute/operation.hpp>
#include <kolo/execute/packed_views.hpp>
#include <kolo/execute/rounds.hpp>
#include <kolo/execute/stream.hpp>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Starts it and waits for its ticket. Views that are not contiguous are packed before, and unpacked afterwards; a
/// final step that the collective lacks (the division of a mean) is done here, in one pass over the result.
template <MessageTransport T>
class native_run final : public driver {
 public:
  native_run(engine<T>& e, const collective_args& args, operation& o) : engine_{e}, args_{args}, operation_{o} {
    asked_ = &views_.begin(engine_, args_);
    args_.native(&engine_.transport, *asked_, &ticket_);
  }

  advanced go_on() override {
    operation_.now.peer = -1;
    if (!engine_.transport.done(ticket_)) return advanced::stuck;
    const memory& out = asked_->out;
    const auto& transport = engine_.transport;
    if (args_.compute.finishes && !args_.native_finishes && out.count > 0 && views_.writes(args_, transport.rank())) {
      const source all{out.base, false};
      executor_of(transport).combine(args_.compute, out.base, &all, 1, out.count, transport.size());
    }
    views_.end(engine_, args_);
    if (args_.epilogue) args_.epilogue->apply(args_.epilogue->self, 0, args_.out.count);
    return advanced::finished;
  }

 private:
  engine<T>& engine_;
  const collective_args& args_;
  operation& operation_;
  packed_views views_{};
  const collective_args* asked_ = nullptr;  ///< the arguments of the collective
  typename T::ticket ticket_{};
};

/// A transport that captures stream work: `repeat(captured, put)` calls put(), or replays the work captured from it.
/// Its tickets are done at once; if `repeat` returns a ticket, it is waited for, and `captures(args)` tells whether the
/// call is captured: the transport's native operation is not.
template <class T>
concept CapturesMessages = MessageTransport<T> && Capturable<T>;
template <class T>
struct captured_work {};
template <CapturesMessages T>
struct captured_work<T> {
  explicit captured_work(const T& t) : transport{t}, captured{t} {}
  captured_work(const captured_work&) = delete;
  ~captured_work() {
    if constexpr (HasExecutor<T>)
      if (transport.failed()) own_scratch.abandon();  // as the engine's is
  }
  const T& transport;
  decltype(engine<T>::of_running) own_scratch{};  ///< its own: the capture contains its addresses
  typename T::ticket ticket{};
  typename T::captured_messages captured;  // destroyed first
};

template <class... Drivers>
struct memory_for_one_of {
  alignas(Drivers...) std::byte bytes[std::max({sizeof(Drivers)...})];
};
/// Memory for the drivers that may run a call over T.
template <Transport T>
auto memory_for_driver() {
  static_assert(SlotTransport<T> || MessageTransport<T>,
                "kolo: this type is neither a SlotTransport nor a MessageTransport: "
                "static_assert(kolo::MessageTransport<T>) shows what is missing");
  if constexpr (SharedMemoryTransport<T> && MessageTransport<T>)
    return memory_for_one_of<rounds_run<T>, stream_run<T>, messaging_run<T>, native_run<T>>{};
  else if constexpr (SharedMemoryTransport<T>) return memory_for_one_of<rounds_run<T>, stream_run<T>>{};
  else if constexpr (SlotTransport<T>) return memory_for_one_of<rounds_run<T>>{};
  else return memory_for_one_of<messaging_run<T>, native_run<T>>{};
}

/// | way | when |
/// |-----|------|
/// | a copy within the rank | one rank, or nothing to do |
/// | `native_run` | the call names, or was given, the transport's own collective |
/// | `stream_run` | over slots: the schedule is one exchange, there and perhaps back (`collective_args::runs_as`) |
/// | `rounds_run` | over slots: any other schedule |
/// | `messaging_run` | over messages |
template <Transport T>
class collective_operation : public operation {
 public:
  collective_operation(engine<T>& e, const collective_args& args, const typename T::options& options)
      : engine_{e}, args_{args}, options_{options} {
    advance = [](operation& o) { return static_cast<collective_operation&>(o).go_on(); };
    peer = args.peer;
    if constexpr (SharedMemoryTransport<T>)
      revoke = [](operation& o) {
        if (auto* const run = static_cast<collective_operation&>(o).driver_) run->revoke();
      };
  }
  collective_operation(const collective_operation&) = delete;
  collective_operation& operator=(const collective_operation&) = delete;
  ~collective_operation() { end_driver(); }

  /// Runs it again from the start, after the communicator's earlier operations.
  void restart() {
    end_driver();
    has_begun_ = false;
  }

  /// Marks it as persistent: the transport may capture it.
  void make_persistent() {
    if constexpr (repeats_by_ticket)
      if (!engine_.transport.captures(args_)) return;
    if constexpr (CapturesMessages<T>)
      if (!captured_ && !is_point_to_point()) captured_.emplace(engine_.transport);
  }
  /// How it runs, in words.
  std::string how() const requires CapturesMessages<T> {
    if (args_.schedule.rounds == 0) return "a copy, since there is one rank";
    return captured_ ? captured_->captured.how() : "call by call";
  }

 protected:
  advanced go_on() {
    if (is_point_to_point()) [[unlikely]]
      return engine_.pairs->advance_apart(
          *this, [](operation& o) { return static_cast<collective_operation&>(o).advance_now(); }, scratch_, stream());
    return advance_now();
  }

 private:
  static constexpr bool repeats_by_ticket = [] {
    if constexpr (CapturesMessages<T>) return requires(T & t, captured_work<T> & k, void (*put)()) {
        { t.repeat(k.captured, put) } -> std::same_as<typename T::ticket>;
      };
    else return false;
  }();

  bool is_kept() const {
    if constexpr (CapturesMessages<T>) return captured_.has_value();
    else return false;
  }

  const void* stream() const {
    if constexpr (requires { options_.stream; }) return options_.stream;
    else return nullptr;
  }

  advanced advance_now() {
    if (!has_begun_) {
      now.round = 0;
      if constexpr (TakesOptions<T>) engine_.transport.begin(options_);
      if (args_.schedule.rounds == 0) return copy_own(args_, executor_of(engine_.transport)), advanced::finished;
      if (!is_kept()) begin();
      if constexpr (CapturesMessages<T>)
        if (captured_) repeat();
      has_begun_ = true;
      if (is_point_to_point()) return advanced::moved;  // to the others, which post their messages
    }
    return is_kept() ? is_repeated() : driver_->go_on();
  }

  void begin() {
    if constexpr (MessageTransport<T>) {
      if (args_.native) return begin_driver<native_run<T>>();
      if (!transport::has_slots(engine_.transport)) return begin_driver<messaging_run<T>>();
    }
    if constexpr (SharedMemoryTransport<T>)
      if (args_.runs_as != pattern::rounds) return begin_driver<stream_run<T>>();
    if constexpr (SlotTransport<T>) begin_driver<rounds_run<T>>();
  }
  template <class Run>
  void begin_driver() {
    end_driver();
    driver_ = ::new (static_cast<void*>(memory_.bytes)) Run{engine_, args_, *this};
  }
  void end_driver() {
    if (driver_) std::destroy_at(std::exchange(driver_, nullptr));
  }

  advanced is_repeated() {
    if constexpr (repeats_by_ticket) {
      now.peer = -1;
      if (!engine_.transport.done(captured_->ticket)) return advanced::stuck;
    }
    return advanced::finished;
  }
  void repeat() {
    const core::scoped_value here{engine_.current_scratch, &captured_->own_scratch};
    const auto put = [this] {
      begin();
      static_cast<void>(driver_->go_on());
    };
    if constexpr (repeats_by_ticket) captured_->ticket = engine_.transport.repeat(captured_->captured, put);
    else engine_.transport.repeat(captured_->captured, put);
  }

  engine<T>& engine_;
  const collective_args& args_;
  decltype(engine<T>::current_scratch) scratch_ = nullptr;  ///< of a pair operation that has begun
  typename T::options options_;
  driver* driver_ = nullptr;  ///< null: not begun
  decltype(memory_for_driver<T>()) memory_;
  bool has_begun_ = false;
  [[no_unique_address]] std::optional<captured_work<T>> captured_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::execute
