// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checked mode over MPI: every rank learns of every disagreement, also where MPI's own collectives would not notice it.
#include <kolo/observe/checked.hpp>

#include "mpi/world.hpp"
#include "support/checked_cases.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

void expect_words(complaints& wrong, const std::string& got, const std::string& wanted) {
  wrong.expect(got == wanted, "got \"" + got + "\" instead of \"" + wanted + '"');
}

template <class C, class... Args>
void every_case(mpi_world& world, const char* name, Args... args) {
  world.run(name, [&](complaints& wrong) {
    double took = 0;
    int cases = 0;
    every_disagreement(
        world.size(),
        [&](auto f) {
          C comm{MPI_COMM_WORLD, args...};
          MPI_Barrier(MPI_COMM_WORLD);
          const double begin = MPI_Wtime();
          f(comm);
          took += MPI_Wtime() - begin;
          ++cases;
        },
        [&](const char*, const std::string& got, const std::string& wanted) { expect_words(wrong, got, wanted); });
    wrong.expect(took < cases * 5.0, "the errors came late");
  });
}

/// MPI's own collectives.
template <class C, class... Args>
void natively(mpi_world& world, const char* name, Args... args) {
  const int last = world.size() - 1;
  const auto expect = [&](const char* what, const std::string& wanted, auto call) {
    world.run((std::string{name} + ": another " + what).c_str(), [&](complaints& wrong) {
      C comm{MPI_COMM_WORLD, args...};
      int x[8]{1};
      kolo::allreduce(comm, x, kolo::sum, kolo::native{});
      wrong.expect(x[0] == comm.size(), "a wrong sum");
      std::string got;
      try {
        call(comm, comm.rank() == last);
      } catch (const kolo::error& e) {
        got = e.what();
      }
      wrong.expect(got.starts_with(wanted) && got.find("; rank " + std::to_string(last) + " calls ") != got.npos,
                   "got \"" + got + '"');
    });
  };
  expect("count",
         "kolo: allreduce #2, rank 0: the count differs: rank 0 calls allreduce of 8 float, sum, at checked.cpp:",
         [](auto& comm, bool other) {
           std::vector<float> x(other ? 7 : 8);
           kolo::allreduce(comm, x, kolo::sum, kolo::native{});
         });
  expect("root",
         "kolo: broadcast #2, rank 0: the root differs: rank 0 calls broadcast of 8 float, root 0, at checked.cpp:",
         [](auto& comm, bool other) {
           std::vector<float> x(8);
           kolo::broadcast(comm, x, other ? 1 : 0, kolo::native{});
         });
  expect("collective", "kolo: barrier #2, rank 0: the collective differs: rank 0 calls barrier, at checked.cpp:",
         [](auto& comm, bool other) {
           std::vector<float> x(8);
           if (other) kolo::start_allreduce(comm, x, kolo::max, kolo::native{}).wait();
           else kolo::start_barrier(comm, kolo::native{}).wait();
         });
}

/// Only one rank is checked: by an option, or by its environment, as when a launcher passes a variable to one host only.
template <class C>
void alone(mpi_world& world) {
  world.run("a communicator of which only one rank is checked is refused on all ranks", [&](complaints& wrong) {
    const int last = world.size() - 1;
    const auto said = [&](bool checked) -> std::string {
      try {
        C comm{MPI_COMM_WORLD, kolo::mpi::options{.timeout = 60s, .checked = checked}};
        kolo::barrier(comm);
      } catch (const kolo::error& e) {
        return std::string{kolo::name(e.code())} + ", " + e.what();
      }
      return "nothing";
    };
    const auto expect_refusal = [&](const std::string& got, int other, const char* modes) {
      expect_words(wrong, got,
                   "mismatch, kolo: rank " + std::to_string(world.rank()) + ": rank " + std::to_string(other) + modes +
                       ": all ranks are checked, or none");
    };
    expect_refusal(said(world.rank() == 0), 1, " was given checked 0, rank 0 1");
    if (world.rank() == last) ::setenv("KOLO_CHECKED", "1", 1);
    expect_refusal(said(false), last, " was given checked 1, rank 0 0");
    ::unsetenv("KOLO_CHECKED");
    expect_words(wrong, said(false), "nothing");
  });
}

}  // namespace

int main(int argc, char** argv) {
  const kolo::mpi::environment env{argc, argv};
  mpi_world world;
  const kolo::mpi::options checked{.timeout = 60s, .checked = true};
  if (world.size() > 1) {
    every_case<kolo::mpi::communicator>(world, "messages", checked);
    every_case<kolo::mpi::routed_communicator>(world, "slots of one host", checked);
    alone<kolo::mpi::communicator>(world);
    alone<kolo::mpi::routed_communicator>(world);
    natively<kolo::mpi::communicator>(world, "MPI's own", checked);
    natively<kolo::communicator<kolo::checked<kolo::mpi::transport>>>(world, "MPI's own, under the decorator");
  }
  return world.status();
}
