// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trains LightGBM over its own sockets, and with kolo over shared memory, MPI and the TCP transport of examples/own_transport; compares models and times.
// Then kills a rank.
#include "../own_transport/tcp.hpp"
#include "training.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <functional>

namespace {

using lightgbm::now, lightgbm::outcome, lightgbm::settings;

/// A network. run() starts `ranks` processes that train over it, and kills rank `dies` (-1: none). Results are in *now. False if a process failed.
struct way {
  std::string name;
  std::function<bool(int ranks, const settings& s, int dies)> run;
  bool is_kolo = true;
};

/// n free TCP ports of this host.
std::vector<std::string> free_ports(int n) {
  std::vector<tcp::socket> all;
  std::vector<std::string> ports;
  for (int i = 0; i < n; ++i) {
    all.push_back(tcp::listen_at("127.0.0.1:0"));
    const auto address = tcp::text(tcp::endpoint_of(all.back()));
    ports.push_back(address.substr(address.rfind(':') + 1));
  }
  return ports;
}

bool over_sockets(int ranks, const settings& s, int dies) {
  const auto ports = free_ports(ranks);
  std::string machines;
  for (const auto& port : ports) machines += (machines.empty() ? "" : ",") + std::string{"127.0.0.1:"} + port;
  return kolo::shm::launch(ranks, [&](kolo::shm::communicator& comm) {
           const int rank = comm.rank();
           return lightgbm::outcome_of(rank, [&] {
             lightgbm::train(s, rank, ranks, dies, [&](const lightgbm::api& call) {
               if (ranks > 1)
                 call("LGBM_NetworkInit", machines.c_str(), std::stoi(ports[static_cast<std::size_t>(rank)]), 120,
                      ranks);
             });
           });
         }) == 0;
}

bool over_memory(int ranks, const settings& s, int dies) {
  return kolo::shm::launch(ranks, [&](kolo::shm::communicator& comm) {
           return lightgbm::outcome_of(comm.rank(), [&] { lightgbm::train_over(comm, s, dies); });
         }) == 0;
}

bool over_tcp(int ranks, const settings& s, int dies) {
  tcp::socket listener = tcp::listen_at("127.0.0.1:0");
  const auto address = tcp::text(tcp::endpoint_of(listener));
  return kolo::shm::launch(ranks, [&](kolo::shm::communicator& comm) {
           const int rank = comm.rank();
           return lightgbm::outcome_of(rank, [&] {
             tcp::socket its = rank == 0 ? std::move(listener) : tcp::socket{};
             tcp::communicator tcp_comm{address, rank, ranks, tcp::options{}, std::move(its)};
             lightgbm::train_over(tcp_comm, s, dies);
           });
         }) == 0;
}

/// how: NAME MPIEXEC PROGRAM, as for the flag --mpi; MPIEXEC includes the options that keep the other ranks running when one dies.
way over_mpi(const std::vector<std::string>& how, const std::string& outcome_file) {
  return {"kolo, " + how[0], [how, outcome_file](int ranks, const settings& s, int dies) {
            // The shell around each rank hides its death from the launcher, which would kill the others.
            const std::string shell = R"(sh -c 'trap "" USR1; "$0" "$@" 2> /dev/null || true')";
            std::string line = how[1] + " -n " + std::to_string(ranks) + ' ' + shell + ' ' + how[2];
            line += ' ' + outcome_file + ' ' + s.wheel;
            for (const int n : {s.features, s.rounds, s.rows, dies}) line += ' ' + std::to_string(n);
            return std::system(line.c_str()) == 0 && now->model[ranks - 1] != 0;
          }};
}

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

/// The times of the trainings over one network, in seconds.
struct measured {
  std::vector<double> whole{}, part{}, reducer{};
  long calls = 0;
  std::uint64_t model = 0;
};

/// Trains over all networks in turns; prints one line for each. False if a model differs from the first one, or a training fails.
bool compare(const std::vector<way>& ways, int ranks, const settings& s, int repeats) {
  std::vector<measured> all(ways.size());
  std::uint64_t model = 0;
  bool same = true;
  for (int i = 0; i < repeats; ++i)
    for (std::size_t w = 0; w < ways.size(); ++w) {
      *now = {};
      if (!ways[w].run(ranks, s, -1))
        return std::printf("%5d  %-16s failed: %s\n", ranks, ways[w].name.c_str(), now->error[0]), false;
      const auto& t = now->rank_0;
      all[w].whole.push_back(t.whole);
      all[w].part.push_back(t.in_collectives - t.in_reducer);
      all[w].reducer.push_back(t.in_reducer);
      all[w].calls = t.calls;
      if (model == 0) model = now->model[0];
      for (int r = 0; r < ranks; ++r)
        if (now->model[r] != model) all[w].model = now->model[r], same = false;
    }
  for (std::size_t w = 0; w < ways.size(); ++w) {
    const auto& m = all[w];
    const double whole = median(m.whole);
    std::printf("%5d  %-16s %8.3f", ranks, ways[w].name.c_str(), whole);
    if (!ways[w].is_kolo || ranks == 1) std::printf(" %8s %12s %10s %8s", "-", "-", "-", "-");
    else
      std::printf(" %8.2f %12.3f %10.3f %8ld", median(all[0].whole) / whole, median(m.part), median(m.reducer),
                  m.calls);
    std::printf("   %016llx%s\n", static_cast<unsigned long long>(m.model != 0 ? m.model : model),
                m.model != 0 ? "  NOT the same model as in the first line" : "");
  }
  std::fflush(stdout);
  return same;
}

/// Kills rank 1 in the middle of the training. True if all other ranks get an error that names it within a second.
bool survive(const way& how, int ranks, const settings& s) {
  std::printf("\n%s, %d ranks: rank 1 is killed in the middle of the training\n", how.name.c_str(), ranks);
  std::fflush(stdout);
  *now = {};
  how.run(ranks, s, 1);
  bool all = now->killed != 0;
  for (int r = 0; r < ranks; ++r) {
    if (r == 1) continue;
    std::printf("  rank %d fails after %.3f s: %s\n", r, now->noticed[r], now->error[r]);
    all = all && std::strstr(now->error[r], "rank 1") != nullptr && now->noticed[r] < 1;
  }
  if (!all) std::printf("  NOT all ranks name rank 1 within a second\n");
  std::fflush(stdout);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Trains LightGBM over its own sockets and over kolo; compares models and times; then kills a rank."};
  settings s;
  std::vector<int> counts{1, 2, 4};
  std::vector<std::vector<std::string>> mpis;
  int repeats = 1;
  app.add_option("library", s.wheel, "lib_lightgbm.so of LightGBM's wheel")->required()->check(CLI::ExistingFile);
  app.add_option("features", s.features, "Number of features")->check(CLI::Range(3, 100000))->capture_default_str();
  app.add_option("rounds", s.rounds, "Boosting rounds (trees)")->check(CLI::Range(2, 100000))->capture_default_str();
  app.add_option("rows", s.rows, "Rows of the training data, over all ranks")
      ->check(CLI::Range(1000, 100000000))
      ->capture_default_str();
  app.add_option("--ranks", counts, "Numbers of processes, one comparison each")
      ->check(CLI::Range(1, lightgbm::most_ranks));
  app.add_option("--repeats", repeats, "Trainings over each network, in turns; the table shows medians")
      ->check(CLI::Range(1, 1000));
  app.add_option("--mpi", mpis, "NAME MPIEXEC PROGRAM: also train over this MPI; may be repeated")->type_size(3);
  CLI11_PARSE(app, argc, argv);

  const int file = ::memfd_create("outcome", 0);
  if (file < 0 || ::ftruncate(file, sizeof(outcome)) != 0) return std::perror("memfd_create"), 2;
  now = lightgbm::shared(file);
  std::vector<way> ways{
      {"LightGBM sockets", over_sockets, false}, {"kolo, memory", over_memory}, {"kolo, TCP", over_tcp}};
  const auto path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file);
  for (const auto& mpi : mpis) ways.push_back(over_mpi(mpi, path));

  std::printf("%d rows, %d features, %d rounds; seconds on rank 0, medians of %d\n", s.rows, s.features, s.rounds,
              repeats);
  std::printf("%5s  %-16s %8s %8s %12s %10s %8s   %s\n", "ranks", "network", "training", "speed-up", "kolo's part",
              "reducer", "calls", "model's hash");
  bool good = true;
  for (const int ranks : counts)
    good = compare(ranks == 1 ? std::vector{way{"(alone)", over_sockets, false}} : ways, ranks, s, repeats) && good;
  for (const auto& how : ways)
    if (how.is_kolo) good = survive(how, 4, s) && good;
  return good ? 0 : 1;
}
