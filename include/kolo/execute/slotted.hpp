// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a call over a wire made of slots: as one stream where the schedule is that simple, round by round elsewhere.
#pragma once

#include <kolo/execute/rounds.hpp>
#include <kolo/execute/stream.hpp>

#include <variant>

namespace kolo::inline v0::detail {

template <class T>
struct stream_for {
  struct type {};  // this wire has no slots for streams
};
template <Pairing T>
struct stream_for<T> {
  using type = stream_run<T>;
};

template <Slotted T>
class slotted_run : public operation {
 public:
  slotted_run(engine<T>& e, const problem& job) : engine_{e}, job_{job} {
    advance = [](operation& o) { return static_cast<slotted_run&>(o).go_on(); };
    if constexpr (Pairing<T>) withdraw = [](operation& o) { static_cast<slotted_run&>(o).take_back(); };
  }

  /// Runs it from the start; the communicator's earlier operations come first.
  void restart() { how_.template emplace<0>(); }

 private:
  advanced go_on() {
    if (how_.index() == 0) begin();
    if constexpr (Pairing<T>)
      if (auto* run = std::get_if<2>(&how_)) return run->go_on();
    if (auto* run = std::get_if<1>(&how_)) return run->go_on();
    return keep_own(job_, host_hands{}), advanced::finished;
  }

  void begin() {
    now.round = 0;
    if (job_.schedule.rounds == 0) return;
    if constexpr (Pairing<T>) {
      const auto found = seen(engine_.notes, job_.schedule, job_.collective, engine_.transport.size());
      if (found != pattern::rounds && stream_run<T>::can_run(job_)) {
        how_.template emplace<2>(engine_, job_, *this, found);
        return;
      }
    }
    how_.template emplace<1>(engine_, job_, *this);
  }

  void take_back() noexcept {
    if constexpr (Pairing<T>)
      if (auto* run = std::get_if<2>(&how_)) run->withdraw();
  }

  engine<T>& engine_;
  const problem& job_;
  std::variant<std::monostate, rounds_run<T>, typename stream_for<T>::type> how_{};
};

}  // namespace kolo::inline v0::detail
