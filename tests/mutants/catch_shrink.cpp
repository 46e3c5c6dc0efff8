// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the agreement of the surviving ranks on the members of the next communicator.
// built with others: ranks
#include "laws/shrink_laws.hpp"
#include "processes/what_ranks_say.hpp"

#include <chrono>
#include <stdexcept>

using namespace testing;
using namespace std::chrono_literals;

template <class Law>
static bool holds(Law law) {
  for (int again = 0; again < 5; ++again)
    if (on_threads(4, law, {.timeout = 10s}) != all_say(4, "")) return false;
  return true;
}

/// Memory of threads whose mapping fails when rank 1 has agreed with the others and maps the new region.
struct at_its_end : kolo::detail::shm::private_mapping {
  static inline thread_local int left = -1;
  std::shared_ptr<std::byte> map(std::uint64_t region, std::size_t bytes) const {
    if (left > 0 && --left == 0) throw std::runtime_error("out of memory");
    return private_mapping::map(region, bytes);
  }
};

static bool who_never_arrives_is_left_out_at_once() {
  using comm_type = kolo::communicator<kolo::detail::shm::slot_transport<at_its_end>>;
  const kolo::detail::shm::region_shape shape{3, {.timeout = 10s}};
  at_its_end memory;
  const auto region = comm_type::transport_type::initialise(memory, shape);
  const auto start = std::chrono::steady_clock::now();
  const auto said = on_threads(3, [&](auto& outer) {
    comm_type comm{memory, region, shape, outer.rank()};
    kolo::barrier(outer);
    if (comm.rank() == 1) at_its_end::left = 2;
    auto rest = comm.shrink();
    return laws::is_whole(rest, comm.rank() / 2, 2);
  });
  return said == all_but(1, 3, "") && std::chrono::steady_clock::now() - start < 9s;
}

static bool a_launch_that_goes_on_is_well() {
  return on_processes(3, [](auto& comm) {
           if (comm.rank() == 1) ::raise(SIGKILL);
           comm = comm.shrink();
           return std::to_string(comm.size());
         }).status == 0;
}

int main() {
  return holds(laws::shrinking_calls_those_who_wait) && holds(laws::shrinking_leaves_out_who_left) &&
                 holds(laws::shrinking_happens_once) && who_never_arrives_is_left_out_at_once() &&
                 a_launch_that_goes_on_is_well()
             ? 0
             : 1;
}
