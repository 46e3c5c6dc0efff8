// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rank 0's output: a table and, on a terminal, a progress bar.
#pragma once

#include <cstddef>

namespace digits {

/// One line of the table: means since the previous line.
struct row {
  std::size_t step;
  double epoch, speed, loss, final_loss;  // speed: images/s; final_loss: with the weight decay term
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
  int shown_ = -1;  // per cent; -1: no bar is displayed
  bool terminal_;
};

}  // namespace digits
