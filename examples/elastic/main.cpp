// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trains on four processes and kills one: the others continue from the last checkpoint, a new one joins them, and the parameters are, bit for bit, those
// of a training without a failure.
#include "../digits/generator.hpp"
#include "training.hpp"

#include <CLI/CLI.hpp>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace elastic {
namespace {

settings parse(int argc, char** argv) {
  settings s;
  s.checkpoint = "/tmp/kolo-elastic." + std::to_string(::getpid());
  s.meeting = "elastic " + std::to_string(::getpid());
  CLI::App app{
      "Trains a classifier of digits on several processes and kills one of them with SIGKILL; the others continue from "
      "the last checkpoint, and a new process joins them."};
  app.add_option("--ranks", s.ranks, "Number of processes")->check(CLI::Range(1, leaves))->capture_default_str();
  app.add_option("--epochs", s.epochs, "Passes over the images")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--images", s.images, "Number of training images to generate")
      ->check(CLI::Range(2000, 1'000'000))
      ->capture_default_str();
  app.add_option("--save-every", s.save_every, "Steps between two checkpoints")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--kill-rank", s.kill_rank, "Rank of the process that is killed")->capture_default_str();
  app.add_option("--kill-at", s.kill_at, "Step in which it is killed; -1: no process is killed")->capture_default_str();
  app.add_option("--join-at", s.join_at, "Step after which a new process joins; -1: never")->capture_default_str();
  app.add_option("--checkpoint", s.checkpoint, "Checkpoint file; removed at the end")->capture_default_str();
  app.add_option("--accuracy-above", s.accuracy_above, "Fail unless the test accuracy, in per cent, is above this")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    if (s.kill_at >= 0 && (s.kill_rank < 0 || s.kill_rank >= s.ranks))
      throw CLI::ValidationError("--kill-rank", "must be less than --ranks");
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  return s;
}

/// A process that waits to join the training; killed when this process ends.
class joining_process {
 public:
  joining_process(const settings& s, const digits::split& data, outcome& out, bool& has_joined) : pid_{::fork()} {
    if (pid_ < 0) throw std::runtime_error("the process that is to join could not be started");
    if (pid_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = 0;
    try {
      auto comm = kolo::shm::join(s.meeting, {.timeout = std::chrono::hours{1}});
      has_joined = true;
      train_on_present_ranks(comm, true, s, data, out);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "elastic: the process that joined: %s\n", e.what());
      status = 1;
    }
    std::fflush(nullptr);
    ::_exit(status);
  }
  joining_process(const joining_process&) = delete;
  joining_process& operator=(const joining_process&) = delete;
  ~joining_process() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);  // it has not joined
    end();
  }

  /// Waits for its end; returns its status.
  int end() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  ::pid_t pid_;
};

outcome train_on(const settings& s, const digits::split& data) {
  const digits::shared_array<outcome> out{1};
  const digits::shared_array<bool> has_joined{1};
  std::optional<joining_process> waits;
  std::fflush(nullptr);
  if (s.kill_at >= 0 && s.join_at >= 0) waits.emplace(s, data, out.values()[0], has_joined.values()[0]);
  const int status =
      kolo::shm::launch(s.ranks, [&](auto& comm) { train_on_present_ranks(comm, false, s, data, out.values()[0]); });
  if (status != 0) throw std::runtime_error("the training on " + std::to_string(s.ranks) + " processes failed");
  if (has_joined.values()[0] && waits->end() != 0) throw std::runtime_error("the process that joined failed");
  return out.values()[0];
}

struct file {
  std::string name;
  ~file() { std::remove(name.c_str()); }
};

void save_first_state(const settings& s) { kolo::save_checkpoint(s.checkpoint, state{s.seed, {}}.all()); }

/// Compares with a training in which no process is killed.
bool agrees_with_undisturbed(settings s, const outcome& theirs, const digits::split& data) {
  s.kill_at = -1;
  save_first_state(s);
  const outcome undisturbed = train_on(s, data);
  const bool same = undisturbed.digest == theirs.digest;
  std::printf("Without a failure, %d processes reach an accuracy of %.2f %%: %s.\n", undisturbed.ranks,
              100 * undisturbed.accuracy, same ? "the same parameters, bit for bit" : "DIFFERENT parameters");
  return same;
}

int run_all(const settings& s) {
  const file on_disk{s.checkpoint};
  const digits::split data = digits::generate_split(s.images, s.images / 6, s.seed);
  if (const int all = s.epochs * steps_of_epoch(data.train); s.kill_at >= all)
    throw std::runtime_error("--kill-at: the training has only " + std::to_string(all) + " steps");
  save_first_state(s);
  std::printf("%d processes train on %zu digits for %d epochs, with a checkpoint every %d steps.\n", s.ranks,
              data.train.size(), s.epochs, s.save_every);
  if (s.kill_at >= 0) std::printf("Rank %d will be killed in step %d.\n", s.kill_rank, s.kill_at);
  const outcome end = train_on(s, data);
  std::printf("At the end %d processes have an accuracy of %.2f %% on %zu test digits.\n", end.ranks,
              100 * end.accuracy, data.test.size());
  const bool same = s.kill_at < 0 || agrees_with_undisturbed(s, end, data),
             learned = 100 * end.accuracy > s.accuracy_above;
  if (!learned) std::fprintf(stderr, "elastic: the accuracy is not above %g %%\n", s.accuracy_above);
  return same && learned ? 0 : 1;
}

}  // namespace
}  // namespace elastic

int main(int argc, char** argv) {
  try {
    return elastic::run_all(elastic::parse(argc, argv));
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "elastic: %s\n", e.what());
    return 1;
  }
}
