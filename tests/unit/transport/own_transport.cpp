// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks of examples/own_transport join: foreign connections, ranks that are missing, differ or leave.
#include <sys/socket.h>

#include "support/catch.hpp"
#include "support/ends.hpp"
#include "support/tcp_threads.hpp"

using namespace testing;
using namespace std::chrono_literals;

namespace {

constexpr const char* free_port = "127.0.0.1:0";

/// A client that connects and sends `says`; it stays connected until it is destroyed.
class other_client {
 public:
  explicit other_client(const std::string& where, const std::string& says = {}) {
    line_ = tcp::socket_at(where, [](const tcp::socket& s, const addrinfo& a) {
      return ::connect(s.get(), a.ai_addr, a.ai_addrlen) == 0 || errno == EINPROGRESS;
    });
    pollfd connected{line_.get(), POLLOUT, 0};
    is_there_ = ::poll(&connected, 1, 20'000) == 1 && ::send(line_.get(), says.data(), says.size(), MSG_NOSIGNAL) >= 0;
  }
  bool is_there() const { return is_there_; }

 private:
  tcp::socket line_;
  bool is_there_ = false;
};

std::string bytes_of(const tcp::hello& h) { return {reinterpret_cast<const char*>(&h), sizeof h}; }

/// The outcome of each of `ranks`, which join at rank 0's address.
template <class F>
std::vector<std::string> outcomes(const std::vector<int>& ranks, F join,
                                  tcp::socket listener = tcp::listen_at(free_port)) {
  const std::string address = tcp::text(tcp::endpoint_of(listener));
  std::vector<std::string> said(ranks.size());
  {
    std::vector<std::jthread> all;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      all.emplace_back([&, i] {
        tcp::socket its = ranks[i] == 0 ? std::move(listener) : tcp::socket{};
        said[i] = end_of([&] { join(address, ranks[i], std::move(its)); });
      });
  }
  return said;
}

/// Joins and sums: the sum is right only if all ranks have joined.
auto sum_up(int size, const tcp::options& o = {.timeout = 60s}) {
  return [=](const std::string& address, int rank, tcp::socket listener) {
    tcp::communicator comm{address, rank, size, o, std::move(listener)};
    int x = 1 << rank;
    kolo::allreduce(comm, std::span{&x, 1}, kolo::sum);
    if (x != (1 << size) - 1) throw std::runtime_error("a wrong sum");
  };
}

}  // namespace

TEST_CASE("own transport: foreign connections do not delay the ranks") {
  tcp::socket listener = tcp::listen_at(free_port);
  const std::string where = tcp::text(tcp::endpoint_of(listener));
  tcp::hello of_another_job;
  of_another_job.size = 3, of_another_job.rank = 1;
  const std::string nonsense(4096, '\xff');
  const std::string all_say[] = {"", "GET / HTTP/1.1\r\n\r\n", nonsense, "kolo tcp", bytes_of(of_another_job)};
  std::vector<other_client> all;
  for (int k = 0; k < 20; ++k)
    for (const auto& says : all_say) all.emplace_back(where, says);
  for (const auto& s : all) CHECK(s.is_there());
  CHECK(outcomes({0, 1, 2}, sum_up(3), std::move(listener)) == std::vector<std::string>(3, "fine"));
}

TEST_CASE("own transport: a missing rank is named by all, and foreign connections extend no deadline") {
  tcp::socket listener = tcp::listen_at(free_port);
  const other_client silent{tcp::text(tcp::endpoint_of(listener))};
  const auto begun = std::chrono::steady_clock::now();
  CHECK(outcomes({0, 2}, sum_up(3, {.timeout = 1s}), std::move(listener)) == std::vector<std::string>(2, "timeout 1"));
  CHECK(std::chrono::steady_clock::now() - begun < 20s);
}

TEST_CASE("own transport: without rank 0 the join times out, also if another process listens") {
  const tcp::socket somebody = tcp::listen_at(free_port);
  const std::string where = tcp::text(tcp::endpoint_of(somebody));
  CHECK(end_of([&] { tcp::transport{where, 1, 2, {.timeout = 300ms}}; }) == "timeout 0");
  std::string nobody;
  {
    const tcp::socket closed = tcp::listen_at(free_port);
    nobody = tcp::text(tcp::endpoint_of(closed));
  }
  CHECK(end_of([&] { tcp::transport{nobody, 1, 2, {.timeout = 300ms}}; }) == "timeout 0");
}

TEST_CASE("own transport: another size or piece_bytes, or a duplicate rank, fails on all ranks when they join") {
  const auto another_size = [](const std::string& address, int rank, tcp::socket listener) {
    sum_up(2 + rank)(address, rank, std::move(listener));
  };
  CHECK(outcomes({0, 1}, another_size) == std::vector<std::string>(2, "mismatch 1"));
  const auto another_piece = [](const std::string& address, int rank, tcp::socket listener) {
    sum_up(3, {.timeout = 60s, .piece_bytes = rank == 2 ? 1000u : 2000u})(address, rank, std::move(listener));
  };
  CHECK(outcomes({0, 1, 2}, another_piece) == std::vector<std::string>(3, "mismatch 2"));
  CHECK(outcomes({0, 1, 1}, sum_up(3)) == std::vector<std::string>(3, "mismatch 1"));
}

TEST_CASE("own transport: an invalid address, rank or deadline is refused") {
  for (const char* address : {"", "host", ":1", "127.0.0.1", "256.0.0.1:1", "127.0.0.1:port"})
    CHECK(end_of([&] { tcp::transport{address, 0, 2}; }) == "invalid argument -1");
  CHECK(end_of([] { tcp::transport{"127.0.0.1:0", 2, 2}; }) == "invalid argument -1");
  CHECK(end_of([] { tcp::transport{"127.0.0.1:0", 0, 1, {.timeout = 0s}}; }) == "invalid argument -1");
}

TEST_CASE("own transport: a rank that leaves, throws, passes another count or is late is named by all") {
  const auto said_by = [](int p, auto f) {
    std::vector<std::string> said(static_cast<std::size_t>(p), "nothing");
    try {
      run_tcp_threads(p, [&](auto& comm) { said[static_cast<std::size_t>(comm.rank())] = f(comm); });
    } catch (const std::exception&) {  // the rank that threw has no outcome
    }
    return said;
  };
  using saying = std::vector<std::string>;
  const auto sum_and_next = [](auto& comm, std::size_t count, const auto& algorithm) {
    std::vector<int> x(count);
    const auto first = end_of([&] { kolo::allreduce(comm, x, kolo::sum, algorithm); });
    return first + ", " + end_of([&] { kolo::barrier(comm); });
  };
  for (const std::size_t count : {10u, 1'000'000u}) {
    CHECK(said_by(3, [&](auto& comm) { return comm.rank() == 1 ? "gone" : sum_and_next(comm, count, kolo::ring{}); }) ==
          saying{"peer left 1, peer left 1", "gone", "peer left 1, peer left 1"});
    CHECK(said_by(3, [&](auto& comm) {
            if (comm.rank() == 0) throw std::runtime_error("no more patience");
            return sum_and_next(comm, count, kolo::ring{});
          }) == saying{"nothing", "peer failed 0, peer failed 0", "peer failed 0, peer failed 0"});
    const auto differ = said_by(
        2, [&](auto& comm) { return sum_and_next(comm, count + static_cast<std::size_t>(comm.rank()), kolo::ring{}); });
    CHECK(differ[0].substr(0, 8) == "mismatch");
    CHECK(differ[0] == differ[1]);
  }
  std::latch given_up{2};
  CHECK(said_by(2, [&](auto& comm) {
          int x = 0;
          if (comm.rank() == 1) given_up.arrive_and_wait();
          const auto end = end_of([&] { kolo::allreduce(comm, std::span{&x, 1}, kolo::sum, {.timeout = 100ms}); });
          if (comm.rank() == 0) given_up.count_down();
          return end;
        }) == saying(2, "timeout 1"));
}
