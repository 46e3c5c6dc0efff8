// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank that forks: the child destroys its own copies, and the rank continues.
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

#include <optional>

using namespace testing;

TEST_CASE("a forked child may destroy its copy of the communicator") {
  const auto end = on_processes(2, [](auto& comm) {
    kolo::barrier(comm);
    if (comm.rank() == 1) {
      child{[&] {
        try {
          const auto copy = std::move(comm.transport());
          throw 1;
        } catch (int) {  // the copy is destroyed
        }
        return std::string{};
      }}.result();
    }
    return end_of([&] { kolo::barrier(comm); });
  });
  CHECK(end.said == all_say(2, "fine"));
  CHECK(end.no_process_left);
}

TEST_CASE("a forked child may destroy its copy of a request, and the rank's operation continues") {
  const auto end = on_processes(2, [](auto& comm) {
    std::vector<int> x(1 << 20, comm.rank() + 1);
    auto request = kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{});
    if (comm.rank() == 1)
      child{[&] {
        { const auto copy = std::move(request); }
        return std::string{};
      }}.result();
    const auto said = end_of([&] { request.wait(); });
    return said + (x == std::vector<int>(x.size(), 3) ? "" : ", but other numbers");
  });
  CHECK(end.said == all_say(2, "fine"));
  CHECK(end.no_process_left);
}

TEST_CASE("a forked child may destroy its copy of symmetric memory, and the ranks' memory remains") {
  const auto end = on_processes(2, [](auto& comm) {
    std::optional x{kolo::symmetric<int>(comm, 1)};
    (*x)[0] = 7;
    if (comm.rank() == 1) {
      child{[&] {
        x.reset();
        return std::string{};
      }}.result();
      x.reset();
    }
    kolo::barrier(comm);
    return comm.rank() == 0 ? std::to_string((*x)[0]) : "7";
  });
  CHECK(end.said == all_say(2, "7"));
  CHECK(end.clean);
}

TEST_CASE("the death of a forked child is not the rank's") {
  const auto end = on_processes(2, [](auto& comm) {
    if (comm.rank() == 1) child{[] { return ::raise(SIGKILL), std::string{}; }}.result();
    return end_of([&] { kolo::barrier(comm); });
  });
  CHECK(end.said == all_say(2, "fine"));
  CHECK(end.no_process_left);
}
