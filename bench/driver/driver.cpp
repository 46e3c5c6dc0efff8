// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The driver: runs the groups of ranks in turns, and writes their times.
#include "rows.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>

namespace {

using namespace kolo_bench;
using strings = std::vector<std::string>;

/// How each implementation is started. With more ranks than cores, the MPIs get the settings with which they were fastest: Open MPI yields when idle. MPICH
/// yields from 4.3 on if told to (CH4_PROGRESS_THROTTLE, as in its own tests on small hosts); 4.0 has no such setting over UCX, ignores
/// MPIR_CVAR_POLLS_BEFORE_YIELD there, and exchanges the fewest messages by recursive doubling.
std::vector<recipe> known_recipes(const std::string& workers) {
  const auto at = [&](const char* name) { return workers + '/' + name; };
  std::vector<recipe> all{
      {"kolo", {at("kolo_bench_shm"), "RANKS"}},
      {"kolo_threads", {at("kolo_bench_threads"), "RANKS"}},
      {"mpich",
       {"mpiexec.mpich", "-n", "RANKS", at("kolo_bench_mpich")},
       {"UCX_LOG_LEVEL=error"},
       {"MPIR_CVAR_POLLS_BEFORE_YIELD=1", "MPIR_CVAR_CH4_PROGRESS_THROTTLE=1",
        "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT=1",
        "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=recursive_doubling"}},
      {"openmpi",
       {"mpiexec.openmpi", "--oversubscribe", "--bind-to", "none", "-n", "RANKS", at("kolo_bench_openmpi")},
       {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
       {"OMPI_MCA_mpi_yield_when_idle=1"}},
      {"gloo", {at("kolo_bench_gloo"), "RANKS"}},
      {"floor", {at("kolo_bench_floor")}},
  };
  for (const std::string mpi : {"mpich", "openmpi"}) {  // the same launcher, with kolo in its processes
    auto both = *std::find_if(all.begin(), all.end(), [&](const recipe& r) { return r.name == mpi; });
    both.name = "kolo_" + mpi;
    both.command.back() = at(("kolo_bench_kolo_" + mpi).c_str());
    all.push_back(both);
  }
  return all;
}

/// The recipes that are wanted and built; adds to `left_out` why the others are missing.
std::vector<recipe> chosen(const strings& wanted, const std::string& workers, strings& left_out) {
  std::vector<recipe> all;
  const auto known = known_recipes(workers);
  for (const auto& name : wanted)
    if (std::none_of(known.begin(), known.end(), [&](const recipe& r) { return r.name == name; }))
      throw std::runtime_error{"there is no implementation called " + name};
  for (const auto& r : known) {
    if (std::find(wanted.begin(), wanted.end(), r.name) == wanted.end()) continue;
    const auto& program = r.command.back() == "RANKS" ? r.command[r.command.size() - 2] : r.command.back();
    if (std::filesystem::exists(program)) all.push_back(r);
    else left_out.push_back(r.name + ": " + program + " has not been built");
  }
  return all;
}

int run(const std::string& plan_file, const std::string& out, const strings& implementations,
        const std::string& workers) {
  const auto start = std::chrono::steady_clock::now();
  strings left_out;
  measurement m{chosen(implementations, workers, left_out), read_plan(plan_file), [&](const std::string& sentence) {
                  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
                  std::printf("%6.1f s  %s\n", passed.count(), sentence.c_str());
                  std::fflush(stdout);
                }};
  m.run();
  std::vector<std::pair<std::string, std::string>> context{{"plan", std::filesystem::path{plan_file}.stem()},
                                                           {"cores", std::to_string(cores().size())}};
  for (const auto& [name, version] : m.versions()) context.emplace_back("version_" + name, version);
  for (const auto& [name, words] : m.settings()) context.emplace_back("settings " + name, words);
  for (const auto& [name, nanoseconds] : m.overheads())
    context.emplace_back("overhead_ns " + name, std::to_string(nanoseconds));
  left_out.insert(left_out.end(), m.sentences().begin(), m.sentences().end());
  for (std::size_t i = 0; i < left_out.size(); ++i)
    context.emplace_back("left_out_" + std::to_string(i + 1), left_out[i]);
  write_rows(m, out, context);
  return m.own_failed() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app{"Compares collectives: algorithms of kolo, and libraries beside it, in bursts that alternate."};
  std::string plan_file, out = "kolo_bench.json";
  auto workers = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  strings implementations{"kolo", "kolo_threads", "mpich", "openmpi", "gloo", "floor"};
  app.add_option("plan", plan_file, "the plan: a file like those in bench/plans")->required()->check(CLI::ExistingFile);
  app.add_option("--out", out, "the JSON file to write")->capture_default_str();
  app.add_option("--implementations", implementations, "the implementations to run")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--workers", workers, "the directory of the workers")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return run(plan_file, out, implementations, workers);
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
