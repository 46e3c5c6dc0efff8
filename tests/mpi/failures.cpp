// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Failures over MPI: ranks that disagree, are late, or throw give the same error on all ranks; buffers in use.
#include <kolo/point_to_point.hpp>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

#include "mpi/world.hpp"
#include "support/ends.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {
bool is_cut = false;              ///< the next message that MPI_Test completes is reported truncated
int freed = 0;                    ///< calls of MPI_Comm_free
const double* scanned = nullptr;  ///< where MPI's own scan puts its result
}  // namespace

// Wrappers through the PMPI profiling interface.
extern "C" int MPI_Test(MPI_Request* r, int* flag, MPI_Status* status) {
  const int code = PMPI_Test(r, flag, status);
  return code == MPI_SUCCESS && *flag != 0 && std::exchange(is_cut, false) ? MPI_ERR_TRUNCATE : code;
}
extern "C" int MPI_Comm_free(MPI_Comm* comm) { return ++freed, PMPI_Comm_free(comm); }
extern "C" int MPI_Iscan(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                         MPI_Request* r) {
  scanned = static_cast<double*>(out);
  return PMPI_Iscan(in, out, count, type, op, comm, r);
}

namespace {

kolo::mpi::options patient() { return {.timeout = 60s}; }

kolo::failure failure_of(int rank) {
  kolo::failure f;
  f.rank = f.peer = rank;
  return f;
}

void expect_end(complaints& wrong, const std::string& got, const std::string& wanted) {
  wrong.expect(got == wanted, "the call ended with \"" + got + "\" instead of \"" + wanted + '"');
}

/// Rank 1 makes another call than the others; then all call barrier. In one of the two every rank must throw the same mismatch, within 30 s.
template <class Most, class One>
void disagreement(mpi_world& world, const char* name, Most most, One one, std::chrono::seconds timeout = 60s) {
  world.run(name, [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, kolo::mpi::options{.timeout = timeout}};
    const double begin = MPI_Wtime();
    std::string said;
    try {
      if (comm.rank() == 1) one(comm);
      else most(comm);
      kolo::barrier(comm);
    } catch (const kolo::error& e) {
      said = kolo::sentence(e.cause());  // without the buffers in use, which differ between ranks
      wrong.expect(e.code() == kolo::errc::mismatch, "not a mismatch: " + said);
    }
    wrong.expect(MPI_Wtime() - begin < 30, "the error came late");
    char words[400] = {};
    said.copy(words, sizeof words - 1);
    MPI_Bcast(words, sizeof words, MPI_CHAR, 0, MPI_COMM_WORLD);
    wrong.expect(!said.empty() && said == words,
                 "rank 0 says \"" + std::string{words} + "\", this one \"" + said + '"');
  });
}

const auto sum_of_ten = [](auto& comm) {
  int x[10]{};
  kolo::allreduce(comm, x, kolo::sum);
};
/// Too long for MPI's eager protocol.
const auto sum_of_many = [](auto& comm) {
  std::vector<int> x(100'000);
  kolo::allreduce(comm, x, kolo::sum, kolo::ring{});
};

void disagreements(mpi_world& world) {
  disagreement(world, "another collective", sum_of_ten, [](auto& comm) {
    int x[10]{}, all[100]{};
    kolo::allgather(comm, x, std::span{all}.first(10 * static_cast<std::size_t>(comm.size())));
  });
  disagreement(world, "another count", sum_of_many, [](auto& comm) {
    std::vector<int> x(100'001);
    kolo::allreduce(comm, x, kolo::sum, kolo::ring{});
  });
  disagreement(world, "another type", sum_of_ten, [](auto& comm) {
    unsigned x[10]{};
    kolo::allreduce(comm, x, kolo::sum);
  });
  disagreement(world, "another operator", sum_of_many, [](auto& comm) {
    std::vector<int> x(100'000);
    kolo::allreduce(comm, x, kolo::max, kolo::ring{});
  });
  disagreement(
      world, "another algorithm", sum_of_many,
      [](auto& comm) {
        std::vector<int> x(100'000);
        kolo::allreduce(comm, x, kolo::sum, kolo::rabenseifner{});
      },
      2s);  // two ranks may both send first: the mismatch shows only after half the deadline
  disagreement(
      world, "another root",
      [](auto& comm) {
        int x[10]{};
        kolo::broadcast(comm, x, 0);
      },
      [](auto& comm) {
        int x[10]{};
        kolo::broadcast(comm, x, 1);
      });
  disagreement(
      world, "another root of an empty broadcast", [](auto& comm) { kolo::broadcast(comm, std::span<int>{}, 0); },
      [](auto& comm) { kolo::broadcast(comm, std::span<int>{}, 1); });
  disagreement(
      world, "another tag between two ranks",
      [](auto& comm) {
        int x[10]{};
        if (comm.rank() == 0) kolo::send(comm, x, 1, 5);
      },
      [](auto& comm) {
        int x[10]{};
        kolo::receive(comm, x, 0, 6);
      });
  disagreement(
      world, "another length between two ranks",
      [](auto& comm) {
        std::vector<int> x(100'000), y(100'000);
        if (comm.rank() == 0) kolo::exchange(comm, x, y, 1);
      },
      [](auto& comm) {
        std::vector<int> x(100'001), y(100'001);
        kolo::exchange(comm, x, y, 0);
      });
  disagreement(
      world, "one call too few", [](auto& comm) { sum_of_ten(comm), sum_of_ten(comm); }, sum_of_ten);
  disagreement(world, "split on one rank, allreduce on the others", sum_of_ten, [](auto& comm) { comm.split(0, 0); });
}

/// The last rank calls after the others have thrown: all get the same error, and no memory is written after it.
void late(mpi_world& world) {
  world.run("a late rank", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, patient()};
    const bool is_late = comm.rank() == comm.size() - 1;
    std::vector<int> x(50'000, comm.rank());
    if (is_late) MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    const auto end =
        end_of([&] { kolo::allreduce(comm, x, kolo::sum, kolo::one_shot{}, {.timeout = is_late ? 20s : 300ms}); });
    wrong.expect(end.starts_with("timeout "), "ended with \"" + end + '"');
    wrong.expect(MPI_Wtime() - begin < 15, "the deadline did not hold");
    std::fill(x.begin(), x.end(), -1);
    if (!is_late) MPI_Barrier(MPI_COMM_WORLD);
    expect_end(wrong, end_of([&] { kolo::barrier(comm); }), end);
    std::this_thread::sleep_for(50ms);
    wrong.expect(std::all_of(x.begin(), x.end(), [](int i) { return i == -1; }),
                 "memory was written after the failure");
  });
}

/// Two ranks wait for each other, and need no other: none of those that do something else is late.
void waiting_for_each_other(mpi_world& world) {
  world.run("two ranks that receive from each other blame no third one", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, patient()};
    if (const int rank = comm.rank(); rank < 2) {
      int x = 0;
      const auto words = words_of([&] { kolo::receive(comm, std::span{&x, 1}, 1 - rank, {.timeout = 500ms}); });
      wrong.expect(words.find("rank 0 waits for rank 1, which waits for rank 0") != words.npos ||
                       words.find("rank 1 waits for rank 0, which waits for rank 1") != words.npos,
                   "ended with \"" + words + '"');
    }
    MPI_Barrier(MPI_COMM_WORLD);
  });
}

/// The last rank calls after a later call has failed: the pending operations end with that failure, and nothing is received for them any more.
void under_way(mpi_world& world) {
  world.run("pending operations end with the failure of a later call", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, kolo::mpi::options{.timeout = 60s, .piece_bytes = 4096}};
    std::vector<int> x(4096, comm.rank()), all(x.size() * static_cast<std::size_t>(comm.size())), sum(10), ten(10, 1);
    const bool is_last = comm.rank() == comm.size() - 1;
    if (!is_last) {
      auto added = kolo::start_allreduce(comm, ten, sum, kolo::sum, kolo::one_shot{});
      auto gathered = kolo::start_allgather(comm, x, all, kolo::ring{});
      MPI_Barrier(MPI_COMM_WORLD);  // after the first failure a start is refused
      const auto end = end_of([&] { kolo::barrier(comm, {.timeout = 100ms}); });
      wrong.expect(end.starts_with("timeout "), "ended with \"" + end + '"');
      expect_end(wrong, end_of([&] { added.wait(); }), end);
      expect_end(wrong, end_of([&] { gathered.wait(); }), end);
      std::fill(all.begin(), all.end(), -1);
    } else {
      MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_last)
      wrong.expect(end_of([&] { kolo::allgather(comm, x, all, kolo::ring{}); }) != "fine",
                   "the last rank's call did not fail");
    MPI_Barrier(MPI_COMM_WORLD);
    if (!is_last)
      wrong.expect(std::count(all.begin(), all.end(), -1) == std::ssize(all), "memory was written after the failure");
  });
}

/// MPI lets the receiver of a long message read it from the sender's buffer, also after the send has failed: it counts as in use, and the message arrives
/// intact.
void sent_late(mpi_world& world) {
  static std::vector<int> x(200'000, 7);  // outlives MPI
  world.run("the buffer of a long message to a late receiver is in use after the timeout", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, patient()};
    const int last = comm.size() - 1;
    if (comm.rank() == 0) {
      std::size_t in_use = 0;
      try {
        kolo::send(comm, x, last, {.timeout = 100ms});
      } catch (const kolo::error& e) {
        in_use = e.buffers_in_use();
      }
      wrong.expect(in_use == 1 && comm.buffers_in_use() == 1, "the buffer does not count as in use");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    std::vector<int> y(x.size());
    if (comm.rank() == last && end_of([&] { kolo::receive(comm, y, 0); }) == "fine")
      wrong.expect(x == y, "the message is wrong");
  });
}

/// MPI's own collective goes on after the deadline, in the communicator's packed buffer, which is not reused.
void packed_late(mpi_world& world) {
  world.run("MPI's own collective of a view completes after the communicator is destroyed", [&](complaints& wrong) {
    static std::vector<double> x(2000), y(2000);  // outlive MPI
    const std::ptrdiff_t n = std::ssize(x) / 2;
    const bool is_late = world.rank() == 0;
    std::fill(x.begin(), x.end(), 1 + world.rank());
    const auto end = end_of([&] {
      kolo::mpi::communicator comm{MPI_COMM_WORLD, patient()};
      if (is_late) MPI_Barrier(MPI_COMM_WORLD);
      const auto half = [&](auto& v) { return kolo::strided<double, 1>{v.data(), {n}, {2}}; };
      kolo::scan(comm, half(x), half(y), kolo::sum, kolo::native{}, {.timeout = 1s});  // by then all have begun
    });
    if (is_late) return;
    expect_end(wrong, end, "timeout -1");
    const std::vector<std::vector<double>> others(100, std::vector<double>(500, -5));  // would be where that buffer was
    MPI_Barrier(MPI_COMM_WORLD);
    const double sum = (world.rank() + 1) * (world.rank() + 2) / 2.0, begin = MPI_Wtime();
    for (int there = 0; std::count(scanned, scanned + n, sum) != n && MPI_Wtime() - begin < 5;)  // MPI makes progress
      MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    wrong.expect(std::count(scanned, scanned + n, sum) == n, "MPI's result is not in its buffer");
  });
}

/// end(comm, timeout) returns how a call ended; it must name the last rank. A rank that is not scheduled for long is named as well: then the test is
/// repeated with a longer timeout.
template <class F>
void expect_last_named(complaints& wrong, F end) {
  for (auto timeout = 300ms;; timeout *= 4) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, patient()};
    const std::string said = end(comm, timeout), wanted = "timeout " + std::to_string(comm.size() - 1);
    int all_well = said == wanted;
    MPI_Allreduce(MPI_IN_PLACE, &all_well, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (all_well != 0 || timeout > 4s) return expect_end(wrong, said, wanted);
  }
}

/// The last rank is stopped before a call. The deadline of rank 1 passes; it waits for rank 0, which waits for the last rank: the last rank is named.
void stopped(mpi_world& world) {
  world.run("a stopped rank is named", [&](complaints& wrong) {
    const int last = world.size() - 1, asks = std::min(1, last - 1);
    int process = ::getpid();
    MPI_Bcast(&process, 1, MPI_INT, last, MPI_COMM_WORLD);
    expect_last_named(wrong, [&](auto& comm, auto timeout) {
      std::vector<int> x(1000);
      if (comm.rank() == last) ::raise(SIGSTOP);
      while (comm.rank() != last && !kolo::detail::os::is_stopped({process})) std::this_thread::yield();
      const auto end = end_of(
          [&] { kolo::allreduce(comm, x, kolo::sum, kolo::ring{}, {.timeout = comm.rank() == asks ? timeout : 20s}); });
      ::kill(process, SIGCONT);
      return end;
    });
  });
}

/// The last rank computes before a call. The deadline of a rank passes that waits for ranks that also wait: the last rank is named.
void computing(mpi_world& world) {
  world.run("a rank that computes is named", [&](complaints& wrong) {
    const int last = world.size() - 1, asks = std::max(0, last - 1);
    expect_last_named(wrong, [&](auto& comm, auto timeout) {
      std::vector<int> x(1000);
      int word = 0;  // says that the others have thrown
      if (comm.rank() == last) MPI_Recv(&word, 1, MPI_INT, asks, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      const auto end = end_of(
          [&] { kolo::allreduce(comm, x, kolo::sum, kolo::ring{}, {.timeout = comm.rank() == asks ? timeout : 20s}); });
      if (comm.rank() == asks) MPI_Send(&word, 1, MPI_INT, last, 7, MPI_COMM_WORLD);
      return end;
    });
  });
}

/// MPI has few communicators: a failure channel frees its own also after a roll call.
void called_the_roll(mpi_world& world) {
  world.run("a failure channel frees its communicator after a roll call", [&](complaints& wrong) {
    freed = 0;
    {
      kolo::detail::mpi::failure_channel all{kolo::detail::mpi::duplicate(MPI_COMM_WORLD), world.rank(), world.size()};
      if (world.rank() == 0) all.call_the_roll();
      MPI_Barrier(MPI_COMM_WORLD);
      const auto is_silent = [](const auto& s) { return s.is == kolo::detail::transport::sign_of_life::silent; };
      const auto waits = [&] {
        all.poll();
        all.answer({kolo::detail::transport::sign_of_life::waiting, 0});
        return std::count_if(all.signs().begin(), all.signs().end(), is_silent) > 1;  // rank 0 asks only the others
      };
      while (waits()) continue;
      MPI_Request everybody;
      MPI_Ibarrier(MPI_COMM_WORLD, &everybody);
      for (int there = 0; there == 0; waits()) MPI_Test(&everybody, &there, MPI_STATUS_IGNORE);
    }
    wrong.expect(freed == 1, "its communicator was not freed");
  });
}

/// From MPICH 4.2 on MPI_Comm_free would end the program.
void unreceived(mpi_world& world) {
  world.run("a communicator with a message that nobody has received is left alone", [&](complaints& wrong) {
    freed = 0;
    {
      const kolo::detail::mpi::handle own = kolo::detail::mpi::duplicate(MPI_COMM_WORLD);
      int word = 0, has_come = world.rank() != 0;
      if (world.rank() == 1) MPI_Send(&word, 1, MPI_INT, 0, 0, own.get());
      while (!has_come) MPI_Iprobe(1, 0, own.get(), &has_come, MPI_STATUS_IGNORE);
    }
    wrong.expect(freed == (world.rank() == 0 ? 0 : 1), "freed " + std::to_string(freed) + " times");
  });
}

void thrown(mpi_world& world) {
  world.run("an exception destroys a communicator", [&](complaints& wrong) {
    const int last = world.size() - 1;
    try {
      kolo::mpi::communicator comm{MPI_COMM_WORLD, patient()};
      if (comm.rank() == last) throw std::runtime_error{"this rank's own exception"};
      expect_end(wrong, end_of([&] { kolo::barrier(comm); }), "peer failed " + std::to_string(last));
    } catch (const std::runtime_error& e) {
      wrong.expect(world.rank() == last && std::string{e.what()} == "this rank's own exception", e.what());
    }
  });
  world.run("an exception destroys a request", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, patient()};
    std::vector<int> x(100'000);
    const auto unwind = [&] {
      auto request = kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{});
      if (comm.rank() == 0) throw std::runtime_error{"this rank's own exception"};
      request.wait();
    };
    try {
      expect_end(wrong, end_of(unwind), "peer failed 0");
    } catch (const std::runtime_error&) {
    }
    expect_end(wrong, end_of([&] { kolo::barrier(comm); }), "peer failed 0");
  });
  world.run("a rank refuses its arguments", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, patient()};
    std::vector<int> x(10), y(comm.rank() == 0 ? 9 : 10);
    expect_end(wrong, end_of([&] { kolo::allreduce(comm, x, y, kolo::sum); }),
               comm.rank() == 0 ? "invalid argument 0" : "peer failed 0");
  });
}

void refused_options(mpi_world& world) {
  world.run("a communicator without a deadline on one rank is refused on all ranks", [&](complaints& wrong) {
    const auto make = [&](auto timeout) {
      kolo::mpi::communicator{MPI_COMM_WORLD, kolo::mpi::options{.timeout = timeout}};
    };
    expect_end(wrong, end_of([&] { make(world.rank() == 1 ? 0s : 60s); }),
               world.rank() == 1 ? "invalid argument -1" : "peer failed 1");
    expect_end(wrong, end_of([&] { make(0s); }), "invalid argument -1");
  });
}

/// A receive that ended with an error is complete for MPI: its request is not used any more.
void cut_off(mpi_world& world) {
  world.run("a receive that ends with an error", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, patient()};
    const int last = comm.size() - 1;
    int x[10]{};
    is_cut = comm.rank() == last;
    const auto end = end_of([&] {
      kolo::broadcast(comm, x, 0, kolo::binomial{});
      kolo::barrier(comm);
    });
    expect_end(wrong, end, comm.rank() == last ? "mismatch -1" : "peer failed " + std::to_string(last));
    wrong.expect(!is_cut, "no message was truncated");
  });
}

/// MPI reuses the number of a communicator that its ranks have freed: a failure that another rank still reports on the old one is not received on the new one.
void number_again(mpi_world& world) {
  if (world.size() < 3) return;
  world.run("a failure on a communicator that other ranks have freed does not reach a new one", [&](complaints& wrong) {
    MPI_Comm others = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, world.rank() == 1 ? 1 : 0, world.rank(), &others);
    try {
      kolo::mpi::communicator comm{MPI_COMM_WORLD, patient()};
      sum_of_ten(comm);
      if (world.rank() == 1) {
        MPI_Barrier(MPI_COMM_WORLD);  // waits until the others have freed theirs
        throw std::runtime_error{"this rank's own exception"};
      }
    } catch (const std::runtime_error&) {
    }
    if (world.rank() != 1) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (world.rank() != 1) {
      kolo::mpi::communicator rest{others, patient()};
      const auto sums = [&] {
        for (int i = 0; i < 40; ++i) sum_of_ten(rest);  // every 32nd operation polls for failures
      };
      expect_end(wrong, end_of(sums), "fine");
    }
    MPI_Comm_free(&others);
  });
}

void contained(mpi_world& world) {
  world.run("a failure of a child does not affect its parent", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, patient()};
    auto child = comm.split(0, -comm.rank());
    const auto end = end_of([&] {
      if (child.rank() == 0) child.transport().fail(failure_of(0));
      kolo::barrier(child);
    });
    expect_end(wrong, end, "system 0");
    expect_end(wrong, end_of([&] { child.split(0, 0); }), "system 0");
    expect_end(wrong, end_of([&] { sum_of_ten(comm); }), "fine");
  });
}

void another_thread(mpi_world& world) {
  world.run("a call from another thread is refused if MPI was initialised for a single thread", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD, patient()};
    std::string end;
    std::thread{[&] { end = end_of([&] { sum_of_ten(comm); }); }}.join();
    expect_end(wrong, end, "invalid argument -1");
  });
}

}  // namespace

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv};
  mpi_world world;
  if (world.size() == 1) return 0;  // one rank cannot disagree
  disagreements(world);
  late(world);
  waiting_for_each_other(world);
  under_way(world);
  sent_late(world);
  packed_late(world);
  stopped(world);
  computing(world);
  called_the_roll(world);
  unreceived(world);
  thrown(world);
  refused_options(world);
  cut_off(world);
  contained(world);
  number_again(world);
  another_thread(world);
  return world.status();
}
