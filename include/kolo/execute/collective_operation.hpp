// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operation that runs a call, by the driver that its transport and its schedule allow.
#pragma once

#include <kolo/execute/executor.hpp>
#include <kolo/execute/messaging.hpp>
#include <kolo/execute/operation.hpp>
#include <kolo/execute/packed_views.hpp>
#include <kolo/execute/rounds.hpp>
#include <kolo/execute/stream.hpp>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace kolo::inline KOLO_ABI::detail::execute {

/// Starts it and waits for its ticket. Views that are not contiguous are packed before, and unpacked afterwards; a
/// final step that the collective lacks (the division of a mean) is done here, in one pass over the result.
template <MessageTransport T>
class native_run {
 public:
  native_run(engine<T>& e, const collective_args& args, operation& o) : engine_{e}, args_{args}, operation_{o} {
    asked_ = &views_.begin(engine_, args_);
    args_.native(&engine_.transport, *asked_, &ticket_);
  }
  native_run(const native_run&) = delete;
  native_run& operator=(const native_run&) = delete;

  advanced go_on() {
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
/// Its tickets are done at once; if `repeat` returns a ticket, it is waited for, and the transport's native operation
/// is not captured.
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

/// The drivers that may run a call over T, each a state machine; the first alternative: not begun.
template <Transport T>
auto drivers_for() {
  static_assert(SlotTransport<T> || MessageTransport<T>,
                "kolo: this type is neither a SlotTransport nor a MessageTransport: "
                "static_assert(kolo::MessageTransport<T>) shows what is missing");
  using std::monostate, std::type_identity, std::variant;
  if constexpr (SharedMemoryTransport<T> && MessageTransport<T>)
    return type_identity<variant<monostate, rounds_run<T>, stream_run<T>, messaging_run<T>, native_run<T>>>{};
  else if constexpr (SharedMemoryTransport<T>) return type_identity<variant<monostate, rounds_run<T>, stream_run<T>>>{};
  else if constexpr (SlotTransport<T>) return type_identity<variant<monostate, rounds_run<T>>>{};
  else return type_identity<variant<monostate, messaging_run<T>, native_run<T>>>{};
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
      revoke = [](operation& o) { static_cast<collective_operation&>(o).take_back(); };
  }

  /// Runs it again from the start, after the communicator's earlier operations.
  void restart() {
    how_.template emplace<0>();
    has_begun_ = false;
  }

  /// Marks it as persistent: the transport may capture it.
  void make_persistent() {
    if constexpr (CapturesMessages<T>)
      if (!captured_ && !is_point_to_point() && !(repeats_by_ticket && args_.native))
        captured_.emplace(engine_.transport);
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
    return is_kept() ? is_repeated() : advance_driver();
  }

  void begin() {
    if constexpr (MessageTransport<T>) {
      if (args_.native) return void(how_.template emplace<native_run<T>>(engine_, args_, *this));
      if (!transport::has_slots(engine_.transport))
        return void(how_.template emplace<messaging_run<T>>(engine_, args_, *this));
    }
    if constexpr (SharedMemoryTransport<T>)
      if (args_.runs_as != pattern::rounds) return void(how_.template emplace<stream_run<T>>(engine_, args_, *this));
    if constexpr (SlotTransport<T>) how_.template emplace<rounds_run<T>>(engine_, args_, *this);
  }
  template <std::size_t I = 1>
  advanced advance_driver() {
    if (auto* const run = std::get_if<I>(&how_)) return run->go_on();
    if constexpr (I + 1 < std::variant_size_v<decltype(how_)>) return advance_driver<I + 1>();
    else return advanced::finished;
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
      static_cast<void>(advance_driver());
    };
    if constexpr (repeats_by_ticket) captured_->ticket = engine_.transport.repeat(captured_->captured, put);
    else engine_.transport.repeat(captured_->captured, put);
  }

  void take_back() noexcept {
    if constexpr (SharedMemoryTransport<T>)
      if (auto* const run = std::get_if<stream_run<T>>(&how_)) run->revoke();
  }

  engine<T>& engine_;
  const collective_args& args_;
  decltype(engine<T>::current_scratch) scratch_ = nullptr;  ///< of a pair operation that has begun
  typename T::options options_;
  typename decltype(drivers_for<T>())::type how_{};
  bool has_begun_ = false;
  [[no_unique_address]] std::optional<captured_work<T>> captured_{};
};

}  // namespace kolo::inline KOLO_ABI::detail::execute
