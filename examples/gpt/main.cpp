// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trains a small GPT on this repository's text, sharded, replicated and with several kinds of parallelism, and compares the results.
#include "../digits/outcome.hpp"
#include "settings.hpp"
#include "together.hpp"
#include "training.hpp"

#include <kolo/launch/processes.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpt {
namespace {

struct run {
  outcome result{};
  std::vector<double> curve{};
};

/// The largest difference of two curves; infinite if one has a NaN.
double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  double apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (const double d = std::abs(a[i] - b[i]); !(d <= apart)) apart = std::isnan(d) ? HUGE_VAL : d;
  return apart;
}

/// Whatever is divided among ranks must be divisible.
void check_ways(settings& s) {
  const auto demand = [](bool condition, const char* flag, const char* sentence) {
    if (!condition) throw CLI::ValidationError(flag, sentence);
  };
  if (s.pipeline == 1) s.micro = 1;
  s.ranks = s.data * s.tensor * s.pipeline * s.ring;
  s.leaves = 1;
  demand(s.ranks <= 64, "--data", "the product with --tensor, --pipeline and --ring must not exceed 64");
  demand(s.batch % (s.data * s.micro) == 0, "--batch", "must be a multiple of --data x --micro-batches");
  demand(s.model.heads % s.tensor == 0, "--heads", "must be a multiple of --tensor");
  demand(s.model.layers >= s.pipeline, "--layers", "must not be less than --pipeline");
  demand(s.model.places % s.ring == 0, "--places", "must be a multiple of --ring");
}

settings parse(int argc, char** argv) {
  settings s{.text = KOLO_GPT_TEXT};
  CLI::App app{
      "Trains a character-level GPT on processes of this host. By default: compares a sharded with a replicated "
      "optimizer. With --shard, or with --data, --tensor, --pipeline and --ring, which may be combined: compares with "
      "one process."};
  const auto number = [&app](const char* flag, int& value, int least, int most, const char* what) {
    app.add_option(flag, value, what)->check(CLI::Range(least, most))->capture_default_str();
  };
  number("--ranks", s.ranks, 1, 64, "Number of processes");
  number("--steps", s.steps, 10, 1'000'000, "Number of steps");
  number("--batch", s.batch, 1, 1 << 16, "Sequences per step, over all ranks");
  number("--leaves", s.leaves, 1, 64,
         "Divide each batch into this many leaves (a power of two): the same parameters, bit for bit, on any number of "
         "processes up to it");
  number("--layers", s.model.layers, 1, 48, "Number of transformer blocks");
  number("--heads", s.model.heads, 1, 64, "Attention heads per block");
  number("--width", s.model.width, 4, 4096, "Embedding width");
  number("--places", s.model.places, 2, 4096, "Characters per sequence");
  number("--sample", s.sample, 0, 1000, "Length of the sample text that the trained model generates");
  app.add_option("--shard", s.shard,
                 "Shard parameters, gradients and optimizer state (ZeRO-3) over this many processes")
      ->check(CLI::Range(1, 64));
  app.add_option("--rate", s.rate, "Learning rate")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--text", s.text, "Directory of a repository; the text is its README and headers")
      ->capture_default_str();
  app.add_option("--loss-below", s.loss_below, "Fail unless the loss on the held-out text is below this");
  const auto shared = [&app](const char* flag, int& value, const char* what) {
    auto* const option = app.add_option(flag, value, what)->check(CLI::Range(1, 64));
    for (const char* other : {"--ranks", "--shard", "--leaves", "--sample", "--loss-below"}) option->excludes(other);
    return option;
  };
  const CLI::Option* const ways_to_share[]{
      shared("--data", s.data, "Data parallelism: divide each batch among this many processes"),
      shared("--tensor", s.tensor, "Tensor parallelism: divide each matrix of a block among this many processes"),
      shared("--pipeline", s.pipeline, "Pipeline parallelism: divide the blocks among this many processes"),
      shared("--ring", s.ring, "Ring attention: divide each sequence among this many processes")};
  number("--micro-batches", s.micro, 1, 1024, "With --pipeline: micro-batches per step");
  try {
    app.parse(argc, argv);
    s.together = std::any_of(std::begin(ways_to_share), std::end(ways_to_share),
                             [](auto* option) { return option->count() > 0; });
    if (s.together) check_ways(s);
    if (s.shard > 0) s.ranks = s.leaves = s.shard;  // one leaf per rank
    if (s.shard > 0 && s.batch % s.shard != 0) throw CLI::ValidationError("--batch", "must be a multiple of --shard");
    if (s.shard == 0 && !s.together && (s.leaves < s.ranks || (s.leaves & (s.leaves - 1)) != 0))
      throw CLI::ValidationError("--leaves", "must be a power of two and not less than --ranks");
    if (s.batch % s.leaves != 0) throw CLI::ValidationError("--batch", "must be a multiple of --leaves");
    if (s.model.width % s.model.heads != 0) throw CLI::ValidationError("--width", "must be a multiple of --heads");
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  return s;
}

std::vector<int> text_for(const settings& s) {
  std::vector<int> text = numbers_of(text_of(s.text));
  if (text.size() / 10 <= std::size_t(s.model.places))
    throw std::runtime_error("the text is too short for --places: the held-out tenth has " +
                             std::to_string(text.size() / 10) + " characters");
  return text;
}

template <class Make>
run train_on_processes(const settings& s, const std::vector<int>& text, Make make) {
  const digits::shared_array<outcome> out{1};
  const digits::shared_array<double> curve{std::size_t(s.steps)};
  const int status =
      kolo::shm::launch(s.ranks, [&](auto& comm) { train(comm, make, s, text, out.values()[0], curve.values()); });
  if (status != 0) throw std::runtime_error("a training failed");
  return {out.values()[0], {curve.values().begin(), curve.values().end()}};
}

void print(const char* name, const run& r, const settings& s) {
  std::printf("%-10s %9.3f %9.3f %9.3f %9.1f %12.0f %15zu %8.0f\n", name, r.curve.front(), r.curve.back(),
              r.result.held_out, 1e3 * r.result.seconds / s.steps,
              s.batch * s.model.places * s.steps / r.result.seconds, r.result.state_bytes, 100 * r.result.hidden);
}

bool check(const settings& s, const run& sharded, const run& replicated) {
  const double apart = furthest(sharded.curve, replicated.curve);
  const bool same = sharded.result.digest == replicated.result.digest;
  std::printf("\nSharded and replicated: losses differ by at most %.3g, parameters %s.\nParameters: %016llx\n", apart,
              same ? "equal, bit for bit" : "NOT equal", static_cast<unsigned long long>(sharded.result.digest));
  const bool learned = sharded.result.held_out < s.loss_below;
  if (!learned)
    std::fprintf(stderr, "gpt: the loss is %.3f, which is not below %g\n", sharded.result.held_out, s.loss_below);
  return same && learned;
}

/// Compares --shard with one process.
int run_shards(const settings& s) {
  const std::vector<int> text = text_for(s);
  std::vector<run> runs;
  for (const int ranks : {s.shard, 1}) {
    settings each = s;
    each.ranks = ranks;
    const digits::shared_array<outcome> out{std::size_t(ranks)};
    const digits::shared_array<double> curve{std::size_t(s.steps)};
    const int status = kolo::shm::launch(ranks, [&](auto& comm) {
      train_shards(comm, each, text, out.values()[std::size_t(comm.rank())], curve.values());
    });
    if (status != 0) throw std::runtime_error("a training failed");
    runs.push_back({out.values()[0], {curve.values().begin(), curve.values().end()}});
  }
  const outcome& mine = runs[0].result;
  const double all = double(mine.parameters) * (2 + kolo::update::adamw::states) * sizeof(float);
  const double apart = furthest(runs[0].curve, runs[1].curve);
  std::printf("%zu parameters in %d blocks of width %d; %d sequences of %d characters per step\n\n", mine.parameters,
              s.model.layers, s.model.width, s.batch, s.model.places);
  std::printf("%-10s %9s %9s %9s %9s %24s\n", "processes", "loss 0", "last loss", "held-out", "step ms",
              "bytes on rank 0");
  for (std::size_t i = 0; i < 2; ++i) {
    const run& r = runs[i];
    std::printf("%-10d %9.3f %9.3f %9.3f %9.1f %15zu (%5.1f %%)\n", i == 0 ? s.shard : 1, r.curve.front(),
                r.curve.back(), r.result.held_out, 1e3 * r.result.seconds / s.steps, r.result.state_bytes,
                100 * double(r.result.state_bytes) / all);
  }
  std::printf(
      "\nBytes: parameters, gradients, optimizer state and gathered groups; %%: of what an unsharded process keeps.\n"
      "Losses differ by at most %.3g.\n",
      apart);
  if (s.sample > 0) std::printf("\nSample of the trained model:\n%s\n", mine.sample);
  return apart < 1e-4 && mine.held_out < s.loss_below ? 0 : 1;
}

/// Compares --data, --tensor, --pipeline and --ring with one process.
int run_together(const settings& s) {
  const std::vector<int> text = text_for(s);
  settings alone = s;
  alone.ranks = 1, alone.sample = 0;
  const run one = train_on_processes(alone, text, [](auto&... all) { return make_replicated(all...); });
  const digits::shared_array<outcome> out{1};
  const digits::shared_array<double> curve{std::size_t(s.steps)};
  const digits::shared_array<sent> by_way{ways};
  const int status = kolo::shm::launch(
      s.ranks, [&](auto& comm) { train_together(comm, s, text, out.values()[0], curve.values(), by_way.values()); });
  if (status != 0) throw std::runtime_error("a training failed");
  const run many{out.values()[0], {curve.values().begin(), curve.values().end()}};

  std::printf("%zu parameters in %d blocks of width %d; %d sequences of %d characters per step\n\n",
              one.result.parameters, s.model.layers, s.model.width, s.batch, s.model.places);
  std::printf("%-10s %9s %9s %9s %22s\n", "processes", "loss 0", "last loss", "step ms", "parameters of rank 0");
  for (const run* r : {&one, &many})
    std::printf("%-10d %9.3f %9.3f %9.1f %22zu\n", r == &one ? 1 : s.ranks, r->curve.front(), r->curve.back(),
                1e3 * r->result.seconds / s.steps, r->result.parameters);
  std::printf("\n%-10s %5s   %-26s %8s %12s\n", "kind", "ranks", "rank 0, per step", "calls", "bytes sent");
  const auto row = [&](const char* by, int ranks, const char* what, std::size_t way) {
    const sent& one = by_way.values()[way];
    if (ranks > 1) std::printf("%-10s %5d   %-26s %8.0f %12.0f\n", by, ranks, what, one.calls, one.bytes);
  };
  row(s.ring == 1 ? "data" : s.data == 1 ? "ring" : "data, ring", s.data * s.ring, "allreduce of gradients", 0);
  row("tensor", s.tensor, "allreduce of activations", 1);
  row("pipeline", s.pipeline, "send and receive", 2);
  row("ring", s.ring, "shift", 3);

  const double apart = furthest(one.curve, many.curve);
  std::printf("\nLosses differ by at most %.2g in %d steps.\n", apart, s.steps);
  if (apart < 1e-4) return 0;
  const auto far = [](double a, double b) { return !(std::abs(a - b) < 1e-4); };
  const auto step = std::mismatch(one.curve.begin(), one.curve.end(), many.curve.begin(), std::not_fn(far)).first;
  std::fprintf(stderr,
               "gpt: the difference is 1e-4 or more from step %d on (in many steps of deep models rounding alone may "
               "cause this)\n",
               int(step - one.curve.begin()));
  return 1;
}

int run_all(const settings& s) {
  const std::vector<int> text = text_for(s);
  std::printf("%zu characters of %s; the last tenth is held out.\n", text.size(), s.text.c_str());
  const run sharded = train_on_processes(s, text, [](auto&... all) { return make_sharded(all...); });
  const run replicated = train_on_processes(s, text, [](auto&... all) { return make_replicated(all...); });
  std::printf("%zu parameters in %d blocks of width %d; %d sequences of %d characters per step, %d processes\n\n",
              sharded.result.parameters, s.model.layers, s.model.width, s.batch, s.model.places, s.ranks);
  std::printf("%6s %9s\n", "Step", "Loss");
  for (std::size_t i = 0; i < sharded.curve.size(); i += std::max<std::size_t>(sharded.curve.size() / 10, 1))
    std::printf("%6zu %9.3f\n", i, sharded.curve[i]);
  std::printf("\n%-10s %9s %9s %9s %9s %12s %15s %8s\n", "optimizer", "loss 0", "last loss", "held-out", "step ms",
              "characters/s", "state bytes", "hidden %");
  print("sharded", sharded, s);
  print("replicated", replicated, s);
  const bool well = check(s, sharded, replicated);
  if (s.sample > 0) std::printf("\nSample of the trained model:\n%s\n", sharded.result.sample);
  return well ? 0 : 1;
}

}  // namespace
}  // namespace gpt

int main(int argc, char** argv) {
  try {
    const gpt::settings s = gpt::parse(argc, argv);
    return s.together ? gpt::run_together(s) : s.shard > 0 ? gpt::run_shards(s) : gpt::run_all(s);
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "gpt: %s\n", e.what());
    return 1;
  }
}
