// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One rank of LightGBM's training over a kolo communicator, or over LightGBM's own sockets; its times and results.
#pragma once

#include "api.hpp"

#include <kolo/adapt/lightgbm.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace lightgbm {

using clock = std::chrono::steady_clock;
constexpr int most_ranks = 16;

inline double seconds_since(clock::time_point begun) {
  return std::chrono::duration<double>(clock::now() - begun).count();
}

struct settings {
  std::string wheel;  ///< path of the wheel's shared object
  int features = 50, rounds = 40, rows = 20000;
};

/// Seconds on one rank; in_collectives includes in_reducer.
struct times {
  double whole, in_collectives, in_reducer;
  long calls;
};

/// The results of one training, in memory shared by the ranks and the program that starts them.
struct outcome {
  times rank_0;
  std::uint64_t model[most_ranks];
  char error[most_ranks][400];
  double noticed[most_ranks];  ///< seconds from the death of a rank to the error
  std::int64_t killed;         ///< time of the death, by a clock common to all processes of the host; 0: none
};

/// Maps the shared memory behind a descriptor.
inline outcome* shared(int file) {
  void* const at = ::mmap(nullptr, sizeof(outcome), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) throw std::runtime_error{"mmap of the results failed"};
  return static_cast<outcome*>(at);
}

// LightGBM passes no user data to its callbacks, so these are globals. The functions below call the adapter and measure the time.
inline outcome* now = nullptr;
inline times mine{};
using network_reducer = void (*)(const char*, char*, int, std::int32_t);
inline network_reducer combine = nullptr;

inline void timed_reducer(const char* in, char* inout, int size, std::int32_t bytes) {
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

/// This rank's rows of the data; labels: a sum of a feature, a product of two, and noise.
struct table {
  std::vector<float> values, labels;

  table(const settings& s, int rank, int ranks) {
    std::mt19937 random{7};
    std::uniform_real_distribution<float> uniform{-1, 1};
    for (int row = 0; row < s.rows; ++row) {
      std::vector<float> x(static_cast<std::size_t>(s.features));
      for (float& v : x) v = uniform(random);
      const float noise = 0.1f * uniform(random);
      if (row % ranks != rank) continue;
      values.insert(values.end(), x.begin(), x.end());
      labels.push_back(x[0] + 0.5f * x[1] * x[2] + noise);
    }
  }
};

inline std::uint64_t hash(const std::string& text) {
  std::uint64_t h = 14695981039346656037u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h;
}

/// Trains on one rank. `connect` initialises LightGBM's network. `dies`: the rank that is killed in the middle; -1: none.
template <class Connect>
void train(const settings& s, int rank, int ranks, int dies, Connect connect) {
  const api call{s.wheel.c_str()};
  const table rows{s, rank, ranks};
  const std::string parameters =
      "objective=regression num_leaves=31 num_threads=1 verbosity=-1 pre_partition=true deterministic=true "
      "force_row_wise=true tree_learner=data num_machines=" +
      std::to_string(ranks);
  call("LGBM_RegisterLogCallback", static_cast<void (*)(const char*)>([](const char*) {}));
  connect(call);
  const auto begun = clock::now();
  handle data = nullptr, booster = nullptr;
  const auto n = static_cast<std::int32_t>(rows.labels.size());
  call("LGBM_DatasetCreateFromMat", static_cast<const void*>(rows.values.data()), 0, n, std::int32_t{s.features}, 1,
       parameters.c_str(), handle{}, &data);
  call("LGBM_DatasetSetField", data, "label", static_cast<const void*>(rows.labels.data()), n, 0);
  call("LGBM_BoosterCreate", data, parameters.c_str(), &booster);
  for (int round = 0, is_over = 0; round < s.rounds; ++round) {
    if (rank == dies && round == s.rounds / 2) {
      now->killed = clock::now().time_since_epoch().count();
      ::raise(SIGKILL);
    }
    call("LGBM_BoosterUpdateOneIter", booster, &is_over);
  }
  mine.whole = seconds_since(begun);
  if (rank == 0) now->rank_0 = mine;
  std::string model(16 << 20, '\0');
  std::int64_t length = 0;
  call("LGBM_BoosterSaveModelToString", booster, 0, -1, 0, static_cast<std::int64_t>(model.size()), &length,
       model.data());
  if (length > static_cast<std::int64_t>(model.size())) throw std::runtime_error{"the model is longer than 16 MiB"};
  now->model[rank] = hash(model.c_str());
}

template <class Comm>
void train_over(Comm& comm, const settings& s, int dies) {
  const kolo::lightgbm_network<Comm> network{comm};
  train(s, comm.rank(), comm.size(), dies, [&](const api& call) {
    call("LGBM_NetworkInitWithFunctions", comm.size(), comm.rank(),
         reinterpret_cast<void*>(&timed_reduce_scatter<Comm>), reinterpret_cast<void*>(&timed_allgather<Comm>));
    kolo::barrier(comm);  // LightGBM's sockets, too, are connected before the clock starts
  });
}

/// Calls f(), a rank's part of a training; stores its error in *now. Returns the rank's exit status.
template <class F>
int outcome_of(int rank, F f) {
  try {
    f();
    return 0;
  } catch (const std::exception& e) {
    const clock::duration late{clock::now().time_since_epoch().count() - now->killed};
    now->noticed[rank] = std::chrono::duration<double>(late).count();
    std::snprintf(now->error[rank], sizeof now->error[rank], "%s", e.what());
    return 1;
  }
}

}  // namespace lightgbm
