// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the transports that do harm on purpose and that remember: the planned rank fails where it was planned, and all is written down.
#include <kolo/adapt/chrome_trace.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/transport/faulty.hpp>
#include <kolo/transport/messages.hpp>
#include <kolo/transport/threads.hpp>

#include <atomic>
#include <vector>

namespace {

using namespace kolo;

std::atomic<bool> good{true};
void expect(bool condition) {
  if (!condition) good = false;
}

template <class T, class F>
void on_threads(F f) {
  threads::run(3, [&](auto& whole) {
    communicator<T> comm{std::move(whole.transport())};
    f(comm);
  });
}

template <class C>
int sum(C& comm, std::chrono::nanoseconds timeout = std::chrono::seconds{10}) {
  std::vector<int> x(300, 1);
  kolo::allreduce(comm, x, kolo::sum, ring{}, {.timeout = timeout});
  return x[299];
}

/// The failure of that rank's second call: as planned, in the planned round, and not before.
template <class T>
void fails_as_planned() {
  on_threads<faulty<T>>([](auto& comm) {
    misbehave(comm, {.what = mishap::leave, .rank = 1, .operation = 2, .round = 2, .seed = 7});
    expect(sum(comm) == 3);
    try {
      sum(comm);
      expect(false);
    } catch (const error& e) {
      expect(e.peer() == 1 && (comm.rank() != 1 || (e.round() == 2 && e.sequence() == 2)));
    }
  });
}

template <class T>
void is_cut_as_planned() {
  on_threads<faulty<T>>([](auto& comm) {
    misbehave(comm, {.what = mishap::cut, .rank = 1, .peer = 0});
    try {
      sum(comm, std::chrono::milliseconds{comm.rank() == 1 ? 100 : 10000});
      expect(false);
    } catch (const error& e) {
      expect(e.code() == errc::timeout && e.peer() == 0);
    }
  });
}

void is_written_down() {
  on_threads<traced<messages<threads::transport>>>([](auto& comm) {
    watch(comm);
    sum(comm);
    const trace_log& log = comm.transport().log();
    int sent = 0, received = 0;
    for (std::size_t i = 0; i < log.size(); ++i) {
      expect(log[i].end >= log[i].begin && log[i].sequence == 1 && log[i].round >= 0 && log[i].round < 4);
      sent += log[i].kind == trace_event::what::sent;
      received += log[i].kind == trace_event::what::received;
    }
    expect(sent == 4 && received == 4);
    const auto all = merged_chrome_trace(comm);
    for (const char* rank : {"rank 0", "rank 1", "rank 2"}) expect(all.find(rank) != std::string::npos && all.find(rank) == all.rfind(rank));
  });
}

}  // namespace

int main() {
  fails_as_planned<threads::transport>();
  fails_as_planned<messages<threads::transport>>();
  is_cut_as_planned<threads::transport>();
  is_cut_as_planned<messages<threads::transport>>();
  is_written_down();
  return good ? 0 : 1;
}
