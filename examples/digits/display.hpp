// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What rank 0 shows of a run: a table, and on a terminal a bar that moves.
#pragma once

#include <cstddef>

namespace digits {

/// One line of the table: means since the line before.
struct row {
  std::size_t step;
  double epoch, speed, loss, final_loss;  // final: with the weight decay
  float rate;
};

class display {
 public:
  explicit display(std::size_t steps);
  ~display();

  void progress(std::size_t step);
  void show(const row& r);

 private:
  void erase();

  std::size_t steps_;
  int shown_ = -1;  // per cent; -1: no bar is there
  bool terminal_;
};

}  // namespace digits
