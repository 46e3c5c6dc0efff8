// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rank 0's output: a table and, on a terminal, a progress bar.
#include "display.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace digits {

namespace {
/// Open MPI gives each rank a pseudo-terminal and copies its output to mpiexec's, which may be a file.
bool is_terminal() { return ::isatty(STDOUT_FILENO) == 1 && std::getenv("OMPI_COMM_WORLD_RANK") == nullptr; }
}  // namespace

display::display(std::size_t steps) : steps_{steps}, terminal_{is_terminal()} {
  std::printf("%7s %6s %9s %9s %9s %9s\n", "Step", "Epoch", "Images/s", "Loss", "Loss+L2", "LR");
  std::fflush(stdout);
}

display::~display() { erase(); }

void display::show(const row& r) {
  erase();
  std::printf("%7zu %6.1f %9.0f %9.5f %9.5f %9.5f\n", r.step, r.epoch, r.speed, r.loss, r.final_loss,
              static_cast<double>(r.rate));
  std::fflush(stdout);
}

void display::progress(std::size_t step) {
  const int now = static_cast<int>(100 * step / steps_);
  if (!terminal_ || now == shown_) return;
  shown_ = now;
  const auto width = std::size_t(50), done = width * step / steps_;
  std::printf("\r  [%s%s] %3d %%", std::string(done, '#').c_str(), std::string(width - done, '.').c_str(), now);
  std::fflush(stdout);
}

void display::erase() {
  if (shown_ < 0) return;
  std::printf("\r%*s\r", 60, "");
  std::fflush(stdout);
  shown_ = -1;
}

}  // namespace digits
