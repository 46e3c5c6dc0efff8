// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From runs of the benchmark: fits the table of constants of the automatic choice, and prints the accuracy of predictions and choices.
#include "header.hpp"
#include "tables.hpp"

#include <kolo/mpi/one_host_tuning.hpp>

#include <CLI/CLI.hpp>

#include <memory>

namespace {

using namespace kolo_bench;

void append(std::vector<observation>& to, const std::vector<observation>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Judges one run by the rows of its more frequent distance. `compiled`: the library's table for such a communicator.
void judge(const std::string& run, const std::string& implementation, const kolo::tuning& compiled, std::FILE* rows) {
  const auto near = read_observations(run, "near", implementation), far = read_observations(run, "far", implementation);
  const bool is_near = near.size() >= far.size();
  const auto& all = is_near ? near : far;
  if (all.empty()) return;
  if (all.size() < 100)
    return void(
        std::printf("%s: too few algorithms were measured to judge predictions and choices; use the plan "
                    "tune, or tune-mpi.\n",
                    implementation.c_str()));
  std::printf("%s, cores %s, as in most rows of this run. ", implementation.c_str(), is_near ? "near" : "far");
  print_predictions(all, rows);
  std::printf("With the library's table: ");
  print_choices(all, compiled, rows);
  std::printf("With a table fitted to these rows: ");
  auto fitted = fit(all);
  fit_native(all, fitted);
  print_choices(all, fitted, rows);
}

/// One table for all runs, with cores near and far. The bound is the host's.
kolo::tuning fit_together(const std::vector<std::string>& runs, const std::string& implementation) {
  std::vector<observation> all, floors;
  for (const auto& run : runs)
    for (const auto* distance : {"near", "far"}) {
      append(all, read_observations(run, distance, implementation));
      append(floors, read_observations(run, distance, "floor"));
    }
  auto table = fit(all);
  fit_native(all, table);
  if (implementation == "kolo") return fit_bound(floors, table), table;
  table.copied = kolo::default_tuning::shared_memory.copied;
  table.noticed = kolo::default_tuning::shared_memory.noticed;
  return table;
}

/// The fitted table; the library's if that MPI was not measured.
kolo::tuning fit_mpi(const std::vector<std::string>& runs, const std::string& mpi, const kolo::tuning& compiled) {
  const auto table = fit_together(runs, "kolo_" + mpi);
  return table.rows[0].ranks > 0 && table.native[0].ranks > 0 ? table : compiled;
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app{"Fits the table of the automatic choice, and prints the accuracy of predictions and choices."};
  std::vector<std::string> runs;
  std::string header, mpi_header, json, detail;
  app.add_option("runs", runs, "the benchmark's results: one or more run.json")->required()->check(CLI::ExistingFile);
  app.add_option("--header", header, "write the table fitted to all runs, as select/default_tuning.hpp");
  app.add_option("--mpi-header", mpi_header,
                 "write the tables fitted to all runs over MPI, as mpi/one_host_tuning.hpp");
  app.add_option("--json", json, "write the table of --header as JSON, for kolo/adapt/json.hpp");
  app.add_option("--rows", detail, "write every row to this file");
  CLI11_PARSE(app, argc, argv);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> rows{detail.empty() ? nullptr : std::fopen(detail.c_str(), "w"),
                                                             std::fclose};
  if (!detail.empty() && !rows) throw std::runtime_error{detail + " cannot be written"};
  using namespace kolo::default_tuning;
  for (const auto& run : runs) {
    if (mpi_header.empty()) judge(run, "kolo", shared_memory, rows.get());
    else judge(run, "kolo_mpich", mpich_one_host, rows.get()), judge(run, "kolo_openmpi", openmpi_one_host, rows.get());
  }
  if (rows && (std::fflush(rows.get()) != 0 || std::ferror(rows.get()) != 0))
    throw std::runtime_error{detail + " cannot be written"};
  if (!mpi_header.empty())
    write_mpi_header(mpi_header, fit_mpi(runs, "mpich", mpich_one_host), fit_mpi(runs, "openmpi", openmpi_one_host));
  if (header.empty() && json.empty()) return 0;
  const auto table = fit_together(runs, "kolo");
  if (table.rows[0].ranks == 0) throw std::runtime_error{"there are no rows that a table could be fitted to"};
  if (!header.empty()) write_header(header, table);
  if (!json.empty()) write_file(json, nlohmann::json(table).dump(2) + '\n');
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
