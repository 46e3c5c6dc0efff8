// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a run of the benchmark: the table of constants behind the automatic choice, and what predictions and choices are worth.
#include "tables.hpp"

#include <kolo/adapt/json.hpp>

#include <CLI/CLI.hpp>

#include <memory>

namespace {

using namespace kolo_bench;

std::string numbers(const kolo::tuning::per_size& values) {
  std::string text = "{";
  for (const double v : values) {
    char one[32];
    std::snprintf(one, sizeof one, "%.3g", v);
    text += (text.size() > 1 ? ", " : "") + std::string{one};
  }
  return text + "}";
}

/// The header collective/recorded.hpp.
void write_header(const std::string& file, const kolo::tuning& table) {
  std::ofstream out{file};
  char text[160];
  out << "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n"
         "// Tables that the automatic choice goes by, measured; written by `bash bench/run.sh tune`.\n"
         "#pragma once\n\n#include <kolo/transport/tuning.hpp>\n\nnamespace kolo::inline v0::recorded {\n\n"
         "/// Processes, and threads, on one host of two cores, near each other and far: with more ranks than two they take turns.\n"
         "inline constexpr tuning shared_memory{.rows = {{\n";
  for (const auto& r : table.rows) {
    if (r.ranks == 0) continue;
    std::snprintf(text, sizeof text, "    {.ranks = %d, .runs_as = pattern::%s, .round = %.3g, .hop = %.3g, .turn = %.3g, .message = %.3g,\n", r.ranks,
                  kolo::detail::pattern_names[static_cast<unsigned>(r.runs_as)], r.round, r.hop, r.turn, r.message);
    out << text << "     .bytes = " << numbers(r.bytes) << ",\n     .shared = " << numbers(r.shared) << ",\n     .combined = " << numbers(r.combined) << "},\n";
  }
  std::snprintf(text, sizeof text, ".noticed = %.3g};\n\n", table.noticed);
  out << "}}, .copied = " << numbers(table.copied) << ", " << text
      << "/// Not measured: a network of 10 GB/s with start-ups of 3 us, for transports that carry messages and bring no table of their own.\n"
         "inline constexpr tuning messages{.rows = {{\n"
         "    {.ranks = 2, .runs_as = pattern::rounds, .hop = 2e-06, .message = 1e-06,\n"
         "     .bytes = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .shared = {}, .combined = {5e-11, 5e-11, 5e-11, 5e-11, 5e-11, 5e-11}},\n"
         "}}, .copied = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .noticed = 3e-06};\n\n}  // namespace kolo::inline v0::recorded\n";
}

void append(std::vector<observation>& to, const std::vector<observation>& more) { to.insert(to.end(), more.begin(), more.end()); }

/// What is known from one run, of the rows of the class of distance that most of them are in.
void judge(const std::string& run, std::FILE* rows) {
  const auto near = read_observations(run, "near"), far = read_observations(run, "far");
  const bool is_near = near.size() >= far.size();
  const auto& all = is_near ? near : far;
  if (all.size() < 100) return void(std::puts("Too few algorithms were measured to say what predictions and choices are worth; take the plan tune."));
  std::printf("Cores %s, as in most rows of this run. ", is_near ? "near" : "far");
  print_predictions(all, rows);
  std::printf("With the table that is compiled in: ");
  print_choices(all, kolo::recorded::shared_memory, rows);
  std::printf("With a table fitted to these rows: ");
  print_choices(all, fit(all), rows);
}

/// One table for all runs, cores near and far alike.
kolo::tuning fit_together(const std::vector<std::string>& runs) {
  std::vector<observation> all, floors;
  for (const auto& run : runs)
    for (const auto* distance : {"near", "far"}) {
      append(all, read_observations(run, distance));
      append(floors, read_observations(run, distance, "floor"));
    }
  auto table = fit(all);
  fit_bound(floors, table);
  return table;
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app{"Fits the table behind the automatic choice, and shows what predictions and choices are worth."};
  std::vector<std::string> runs;
  std::string header, json, detail;
  app.add_option("runs", runs, "what the benchmark has written: run.json, once or more")->required()->check(CLI::ExistingFile);
  app.add_option("--header", header, "write the table that fits all runs as collective/recorded.hpp");
  app.add_option("--json", json, "write it as JSON, for kolo/adapt/json.hpp");
  app.add_option("--rows", detail, "write every row of the tables into this file");
  CLI11_PARSE(app, argc, argv);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> rows{detail.empty() ? nullptr : std::fopen(detail.c_str(), "w"), std::fclose};
  for (const auto& run : runs) judge(run, rows.get());
  if (header.empty() && json.empty()) return 0;
  const auto table = fit_together(runs);
  if (!header.empty()) write_header(header, table);
  if (!json.empty()) std::ofstream{json} << nlohmann::json(table).dump(2) << '\n';
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
