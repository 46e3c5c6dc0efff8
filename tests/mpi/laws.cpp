// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws of kolo::Transport and kolo::MessageTransport, for the transport over MPI.
#include "laws/message_laws.hpp"
#include "laws/transport_laws.hpp"
#include "mpi/world.hpp"

namespace {

/// All ranks must name the same first failure.
const auto one_winner = [](auto& transport) -> std::string {
  const std::string said = laws::keeps_the_first_failure(transport);
  if (!said.starts_with("first ")) return said;
  const int mine = std::stoi(said.substr(6));
  int least = 0, most = 0;
  MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return least == most ? "" : "ranks name different first failures; this rank names rank " + std::to_string(mine);
};

}  // namespace

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv};
  testing::mpi_world world;
  world.law("what is constant", laws::is_constant);
  for (int k = 0; k < 3; ++k) world.law("the first failure stays", one_winner);
  world.law("a failure wakes everybody", laws::failure_wakes_everybody);
  world.law("a failure of the last rank wakes everybody", laws::failure_of_the_last_wakes_everybody);
  if (world.size() > 1) world.law("a deadline passes for all", laws::deadline_passes);
  world.law("split", laws::split_orders_by_key_and_rank);
  world.law("what failed elsewhere is passed on", laws::passes_on_what_failed_elsewhere);
  world.law("messages arrive in order", laws::messages_arrive_in_order);
  if (world.size() > 1) world.law("another tag is a mismatch", laws::another_tag_is_a_mismatch);
  return world.status();
}
