// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the transport's own collective in place of a schedule.
#pragma once

#include <kolo/execute/executor.hpp>
#include <kolo/execute/operation.hpp>
#include <kolo/execute/packed_views.hpp>

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

}  // namespace kolo::inline KOLO_ABI::detail::execute
