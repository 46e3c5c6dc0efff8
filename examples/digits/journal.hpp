// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records the loss of every step, and averages the losses over the ranks before each line of the table.
#pragma once

#include "display.hpp"
#include "network.hpp"
#include "settings.hpp"
#include "stopwatch.hpp"

#include <kolo/train/metrics.hpp>
#include <kolo/train/root.hpp>
#include <kolo/train/update.hpp>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

namespace digits {

template <class Comm>
class journal {
 public:
  /// Rank 0 writes the loss of every step to `curve`.
  journal(Comm& comm, const settings& s, std::span<double> curve)
      : comm_{comm},
        settings_{s},
        curve_{curve},
        losses_(curve.size()),
        cadence_{std::max<std::size_t>(curve.size() / 10, 1)} {
    kolo::on_root(comm, [&] {
      if (!s.is_quiet) display_.emplace(curve.size());
    });
  }

  /// Call after each step, with this rank's loss or the mean over all leaves, and the update rule that was used.
  void enter(double loss, const kolo::update::momentum& rule, const network& model) {
    losses_[step_] = loss;
    if (step_ < 2 || step_ % cadence_ == 0 || step_ + 1 == losses_.size()) write_line(rule, model);
    if (display_) display_->progress(step_);
    ++step_;
  }

 private:
  void write_line(const kolo::update::momentum& rule, const network& model) {
    const std::size_t end = step_ + 1, steps = end - written_;
    const auto window = std::span{losses_}.subspan(written_, steps);
    if (settings_.leaves == 0) kolo::average_metrics(comm_, window);
    kolo::on_root(comm_, [&] {
      std::copy(window.begin(), window.end(), curve_.begin() + std::ptrdiff_t(written_));
      if (!display_) return;
      double loss = 0;
      for (const double l : window) loss += l / double(steps);
      const double seconds = now(comm_) - since_;
      const double images = double(steps) * settings_.batch,
                   epoch = double(step_) * settings_.epochs / double(losses_.size());
      display_->show(
          {step_, epoch, images / seconds, loss, loss + rule.weight_decay * model.half_square(), float(rule.rate)});
    });
    written_ = end;
    since_ = now(comm_);
  }

  Comm& comm_;
  const settings& settings_;
  std::span<double> curve_;
  std::vector<double> losses_;  // this rank's; those before written_ are means over all ranks
  std::size_t cadence_, step_ = 0, written_ = 0;
  double since_ = now(comm_);
  std::optional<display> display_;  // on rank 0, unless is_quiet
};

}  // namespace digits
