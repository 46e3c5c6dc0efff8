// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LightGBM trains over its own sockets, over shared memory by kolo, and over TCP by a transport of one's own: the same model? In what time? Then a rank dies.
// Usage: lightgbm LIBRARY [FEATURES [ROUNDS [ROWS]]]
#include "../own_transport/tcp.hpp"
#include "api.hpp"

#include <kolo/adapt/lightgbm.hpp>

#include <sys/mman.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

namespace {

using clock = std::chrono::steady_clock;
constexpr int most_ranks = 4;

double seconds_since(clock::time_point begun) { return std::chrono::duration<double>(clock::now() - begun).count(); }

struct settings {
  const char* wheel = "";  ///< path of the shared object in it
  int features = 50, rounds = 40, rows = 20000;
};

/// Seconds of one rank; in_collectives: with the reducer.
struct times {
  double whole, in_collectives, in_reducer;
  long calls;
};

/// What the ranks of one training have found; in memory that they and this process have in common.
struct outcome {
  times rank_0;
  std::uint64_t model[most_ranks];
  char error[most_ranks][400];
};

// LightGBM's functions take nothing of the user's: these stand between it and the adapter, and look at the clock.
outcome* now = nullptr;
times mine{};
using network_reducer = void (*)(const char*, char*, int, std::int32_t);
network_reducer combine = nullptr;

void timed_reducer(const char* in, char* inout, int size, std::int32_t bytes) {
  const auto begun = clock::now();
  combine(in, inout, size, bytes);
  mine.in_reducer += seconds_since(begun);
}
template <class Call>
void timed(Call call) {
  const auto begun = clock::now();
  call();
  mine.in_collectives += seconds_since(begun);
  ++mine.calls;
}
template <class Comm>
void timed_reduce_scatter(char* in, std::int32_t n, int size, const std::int32_t* firsts, const std::int32_t* lengths,
                          int blocks, char* out, std::int32_t wanted, const network_reducer& reducer) {
  using function = void (*)(char*, std::int32_t, int, const std::int32_t*, const std::int32_t*, int, char*,
                            std::int32_t, const network_reducer&);
  combine = reducer;
  timed([&] {
    reinterpret_cast<function>(kolo::lightgbm_network<Comm>::reduce_scatter())(in, n, size, firsts, lengths, blocks,
                                                                               out, wanted, &timed_reducer);
  });
}
template <class Comm>
void timed_allgather(char* in, std::int32_t n, const std::int32_t* firsts, const std::int32_t* lengths, int blocks,
                     char* out, std::int32_t wanted) {
  using function = void (*)(char*, std::int32_t, const std::int32_t*, const std::int32_t*, int, char*, std::int32_t);
  timed([&] {
    reinterpret_cast<function>(kolo::lightgbm_network<Comm>::allgather())(in, n, firsts, lengths, blocks, out, wanted);
  });
}

/// Every rank has its rows of one table: a sum of a few features, and a product.
struct table {
  std::vector<float> values, labels;

  table(const settings& s, int rank, int ranks) {
    std::mt19937 random{7};
    std::uniform_real_distribution<float> uniform{-1, 1};
    for (int row = 0; row < s.rows; ++row) {
      std::vector<float> x(static_cast<std::size_t>(s.features));
      for (float& v : x) v = uniform(random);
      if (row % ranks != rank) continue;
      values.insert(values.end(), x.begin(), x.end());
      labels.push_back(x[0] + 0.5f * x[1] * x[2] + 0.1f * uniform(random));
    }
  }
};

std::uint64_t hash(const std::string& text) {
  std::uint64_t h = 14695981039346656037u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h;
}

/// On one rank, after `connect`: which is where LightGBM gets its network. `dies`: the rank that is killed in the middle; -1: none.
template <class Connect>
void train(const settings& s, int rank, int ranks, int dies, Connect connect) {
  const lightgbm::api call{s.wheel};
  const table rows{s, rank, ranks};
  const std::string parameters =
      "objective=regression num_leaves=31 num_threads=1 verbosity=-1 pre_partition=true deterministic=true "
      "force_row_wise=true tree_learner=data num_machines=" +
      std::to_string(ranks);
  call("LGBM_RegisterLogCallback", static_cast<void (*)(const char*)>([](const char*) {}));
  connect(call);
  const auto begun = clock::now();
  lightgbm::handle data = nullptr, booster = nullptr;
  const auto n = static_cast<std::int32_t>(rows.labels.size());
  call("LGBM_DatasetCreateFromMat", static_cast<const void*>(rows.values.data()), 0, n, std::int32_t{s.features}, 1,
       parameters.c_str(), lightgbm::handle{}, &data);
  call("LGBM_DatasetSetField", data, "label", static_cast<const void*>(rows.labels.data()), n, 0);
  call("LGBM_BoosterCreate", data, parameters.c_str(), &booster);
  for (int round = 0, is_over = 0; round < s.rounds; ++round) {
    if (rank == dies && round == s.rounds / 2) ::raise(SIGKILL);
    call("LGBM_BoosterUpdateOneIter", booster, &is_over);
  }
  mine.whole = seconds_since(begun);
  if (rank == 0) now->rank_0 = mine;
  std::string model(16 << 20, '\0');
  std::int64_t length = 0;
  call("LGBM_BoosterSaveModelToString", booster, 0, -1, 0, static_cast<std::int64_t>(model.size()), &length,
       model.data());
  now->model[rank] = hash(model.c_str());
}

template <class Comm>
void train_over(Comm& comm, const settings& s, int dies) {
  const kolo::lightgbm_network<Comm> network{comm};
  train(s, comm.rank(), comm.size(), dies, [&](const lightgbm::api& call) {
    call("LGBM_NetworkInitWithFunctions", comm.size(), comm.rank(),
         reinterpret_cast<void*>(&timed_reduce_scatter<Comm>), reinterpret_cast<void*>(&timed_allgather<Comm>));
    kolo::barrier(comm);  // as LightGBM's sockets have met before the clock starts
  });
}

enum class way { sockets, shm, tcp };

/// Ports of this host that nobody has at the moment, as LightGBM wants them: a machine a line.
std::vector<std::string> free_ports(int n) {
  std::vector<tcp::socket> all;
  std::vector<std::string> ports;
  for (int i = 0; i < n; ++i) {
    all.push_back(tcp::listen_at("127.0.0.1:0"));
    const auto address = tcp::text(tcp::place_of(all.back()));
    ports.push_back(address.substr(address.rfind(':') + 1));
  }
  return ports;
}

/// So many processes train by this way; what they found is in *now. False where one ended badly.
bool run(way how, int ranks, const settings& s, int dies = -1) {
  *now = {};
  const auto ports = free_ports(ranks);
  std::string machines;
  for (const auto& port : ports) machines += (machines.empty() ? "" : ",") + std::string{"127.0.0.1:"} + port;
  tcp::socket listener = tcp::listen_at("127.0.0.1:0");
  const auto address = tcp::text(tcp::place_of(listener));
  return kolo::shm::launch(ranks, [&](kolo::shm::communicator& comm) {
           const int rank = comm.rank();
           std::unique_ptr<tcp::communicator> wire;
           try {
             if (how == way::shm) return train_over(comm, s, dies), 0;
             if (how == way::tcp) {
               tcp::socket its = rank == 0 ? std::move(listener) : tcp::socket{};
               wire = std::make_unique<tcp::communicator>(address, rank, ranks, tcp::options{}, std::move(its));
               return train_over(*wire, s, dies), 0;
             }
             train(s, rank, ranks, dies, [&](const lightgbm::api& call) {
               if (ranks > 1)
                 call("LGBM_NetworkInit", machines.c_str(), std::stoi(ports[static_cast<std::size_t>(rank)]), 120,
                      ranks);
             });
             return 0;
           } catch (const std::exception& e) {
             std::snprintf(now->error[rank], sizeof now->error[rank], "%s", e.what());
             return 1;
           }
         }) == 0;
}

/// One line of the table. False where the model differs from `model`, the first one's.
bool line(const char* name, way how, int ranks, const settings& s, std::uint64_t& model) {
  if (!run(how, ranks, s)) return std::printf("%5d  %-16s failed: %s\n", ranks, name, now->error[0]), false;
  if (model == 0) model = now->model[0];
  bool same = true;
  for (int r = 0; r < ranks; ++r) same = same && now->model[r] == model;
  const times& t = now->rank_0;
  std::printf("%5d  %-16s %8.3f", ranks, name, t.whole);
  if (how == way::sockets || ranks == 1) std::printf(" %12s %12s %8s", "-", "-", "-");
  else std::printf(" %12.3f %12.3f %8ld", t.in_collectives - t.in_reducer, t.in_reducer, t.calls);
  std::printf("   %016llx%s\n", static_cast<unsigned long long>(now->model[0]), same ? "" : "  NOT the same model");
  std::fflush(stdout);
  return same;
}

/// The others' sentences name the rank that is killed.
bool survive(way how, const char* name, const settings& s) {
  std::printf("\nrank 1 of %d is killed in the middle, %s:\n", most_ranks, name);
  std::fflush(stdout);
  run(how, most_ranks, s, 1);
  bool all = true;
  for (int r = 0; r < most_ranks; ++r) {
    if (r == 1) continue;
    std::printf("  rank %d ends with: %s\n", r, now->error[r]);
    all = all && std::strstr(now->error[r], "rank 1") != nullptr;
  }
  std::fflush(stdout);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: lightgbm LIBRARY [FEATURES [ROUNDS [ROWS]]]\n"), 2;
  settings s{.wheel = argv[1]};
  if (argc > 2) s.features = std::atoi(argv[2]);
  if (argc > 3) s.rounds = std::atoi(argv[3]);
  if (argc > 4) s.rows = std::atoi(argv[4]);
  if (s.features < 3 || s.rounds < 1 || s.rows < 1000) return std::fprintf(stderr, "too few\n"), 2;
  now = new (::mmap(nullptr, sizeof(outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) outcome{};
  std::printf("%d rows, %d features, %d rounds; seconds of rank 0\n", s.rows, s.features, s.rounds);
  std::printf("%5s  %-16s %8s %12s %12s %8s   %s\n", "ranks", "over", "whole", "kolo's part", "reducer", "calls",
              "model");
  bool good = true;
  for (const int ranks : {1, 2, 4}) {
    std::uint64_t model = 0;
    if (ranks == 1) {
      good = line("(alone)", way::sockets, 1, s, model) && good;
      continue;
    }
    good = line("its own sockets", way::sockets, ranks, s, model) && good;
    good = line("kolo, memory", way::shm, ranks, s, model) && good;
    good = line("kolo, TCP", way::tcp, ranks, s, model) && good;
  }
  good = survive(way::shm, "over memory", s) && good;
  good = survive(way::tcp, "over TCP", s) && good;
  return good ? 0 : 1;
}
