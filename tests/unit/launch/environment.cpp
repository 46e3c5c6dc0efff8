// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// from_environment: each launcher's variables, how they are interpreted, and which are refused.
#include <kolo/launch/environment.hpp>

#include <map>

#include "support/catch.hpp"

namespace {

using variables = std::map<std::string, std::string>;

kolo::launched read(const variables& v) {
  return kolo::from_environment([&v](const char* name) -> const char* {
    const auto found = v.find(name);
    return found == v.end() ? nullptr : found->second.c_str();
  });
}

std::string place(const kolo::launched& l) {
  const auto pair = [](int a, int b) { return ' ' + std::to_string(a) + '/' + std::to_string(b); };
  return (l.launcher.empty() ? "nobody" : l.launcher) + pair(l.rank, l.size) + pair(l.local_rank, l.local_size) +
         pair(l.node_rank, l.node_count);
}

std::string refusal(const variables& v) {
  try {
    return "accepted: " + place(read(v));
  } catch (const kolo::error& e) {
    return e.code() == kolo::errc::invalid_argument ? e.what() : "another code";
  }
}

variables with(variables v, const variables& more) {
  for (const auto& [name, value] : more) v[name] = value;
  return v;
}
variables without(variables v, const std::string& name) {
  v.erase(name);
  return v;
}

const variables mpich{{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "4"}};
const variables open_mpi{{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"OMPI_COMM_WORLD_NODE_RANK", "2"}};
const variables srun{
    {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "6"}, {"SLURM_NTASKS", "7"},
    {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "3"},  {"SLURM_NNODES", "4"}, {"SLURM_TASKS_PER_NODE", "2(x3),1"}};
const variables torchrun{
    {"RANK", "3"},       {"WORLD_SIZE", "4"},       {"LOCAL_RANK", "1"},         {"LOCAL_WORLD_SIZE", "2"},
    {"GROUP_RANK", "1"}, {"GROUP_WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "x"}};

}  // namespace

TEST_CASE("without a launcher there is one rank") {
  CHECK(place(read({})) == "nobody 0/1 0/1 0/1");
  CHECK(place(read({{"PATH", "/bin"}, {"LOCAL_RANK", "3"}})) == "nobody 0/1 0/1 0/1");
}

TEST_CASE("the variables of every launcher are read") {
  CHECK(place(read(mpich)) == "mpich 5/8 1/4 1/2");
  CHECK(place(read(open_mpi)) == "open-mpi 2/4 2/4 0/1");
  CHECK(place(read(srun)) == "srun 6/7 0/1 3/4");
  CHECK(place(read(torchrun)) == "torchrun 3/4 1/2 1/2");
  CHECK(place(read({{"KOLO_RANK", "1"}, {"KOLO_SIZE", "3"}})) == "kolo 1/3 1/3 0/1");
  CHECK(read(srun).rank_variable == "SLURM_PROCID");
  CHECK(read(mpich).rank_variable == "PMI_RANK");
}

TEST_CASE("if variables are missing, one host is assumed, or hosts that are filled in order") {
  CHECK(place(read({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})) == "mpich 1/2 1/2 0/1");
  CHECK(place(read({{"RANK", "1"}, {"WORLD_SIZE", "2"}})) == "torchrun 1/2 1/2 0/1");
  CHECK(place(read(without(without(torchrun, "GROUP_WORLD_SIZE"), "TORCHELASTIC_RUN_ID"))) == "torchrun 3/4 1/2 1/2");
  CHECK(place(read({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "2"}})) == "srun 2/4 2/4 0/1");
  CHECK(place(read({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}})) == "srun 2/4 2/4 0/1");
  CHECK(place(read(with(mpich, {{"PMI_RANK", "8"}, {"PMI_SIZE", "9"}, {"MPI_LOCALRANKID", "0"}}))) ==
        "mpich 8/9 0/4 2/3");
}

TEST_CASE("KOLO_ variables have precedence, then launchers in a fixed order") {
  const auto everything = with(with(with(mpich, open_mpi), srun), torchrun);
  CHECK(place(read(with(everything, {{"KOLO_RANK", "0"}, {"KOLO_SIZE", "1"}}))) == "kolo 0/1 0/1 0/1");
  CHECK(read(everything).launcher == "torchrun");
  CHECK(read(without(everything, "TORCHELASTIC_RUN_ID")).launcher == "open-mpi");
  CHECK(read(with(srun, mpich)).launcher == "mpich");                                  // mpiexec within a Slurm job
  CHECK(read(with(srun, {{"PMI_RANK", "6"}, {"PMI_SIZE", "7"}})).launcher == "srun");  // srun with PMI
  CHECK(read(with(srun, without(torchrun, "TORCHELASTIC_RUN_ID"))).launcher == "torchrun");
  CHECK(read(with(srun, {{"RANK", "captain"}})).launcher == "srun");  // another program's variable
}

TEST_CASE("a Slurm batch script and an interactive step are one rank") {
  CHECK(place(read({{"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "2"}})) == "nobody 0/1 0/1 0/1");
  CHECK(place(read(with(without(srun, "SLURM_STEP_ID"), {{"SLURM_PROCID", "0"}}))) ==
        "nobody 0/1 0/1 0/1");  // a batch script
  const variables interactive{
      {"SLURM_JOB_ID", "77"},        {"SLURM_STEP_ID", "4294967290"},  {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"},
      {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_LOCALID", "0"},           {"SLURM_NODEID", "0"}, {"SLURM_NNODES", "2"},
      {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}};
  CHECK(place(read(interactive)) == "srun 0/1 0/1 0/1");
}

TEST_CASE("tasks_on_node reads the tasks of a node from Slurm's list, and nothing from a malformed one") {
  using kolo::detail::launch::tasks_on_node;
  const auto [list, node, tasks] = GENERATE(table<std::string, int, int>({{"4", 0, 4},
                                                                          {"2(x3),1", 0, 2},
                                                                          {"2(x3),1", 2, 2},
                                                                          {"2(x3),1", 3, 1},
                                                                          {"1,16(x2),3", 1, 16},
                                                                          {"1,16(x2),3", 3, 3}}));
  CHECK(tasks_on_node(list, node) == tasks);
  for (const char* bad : {"", "x", "2(x3", "2(3)", "2(x)", "2,,1", ",2", "2(x3)1", "-2", "0", "2 ", "99999999999"}) {
    INFO(bad);
    CHECK_FALSE(tasks_on_node(bad, 4).has_value());
  }
  CHECK_FALSE(tasks_on_node("2(x3),1", 4).has_value());
  CHECK_FALSE(tasks_on_node("2,", 1).has_value());
}

TEST_CASE("a malformed value is refused with its variable") {
  CHECK(refusal(with(mpich, {{"PMI_RANK", "five"}})) ==
        "kolo: PMI_RANK is \"five\", and should be a whole number from 0 on");
  for (const char* bad : {"", " 1", "1 ", "0x1", "1.0", "-1", "+1", "1e0", "99999999999999999999"}) {
    INFO(bad);
    CHECK(refusal(with(open_mpi, {{"OMPI_COMM_WORLD_RANK", bad}})) ==
          "kolo: OMPI_COMM_WORLD_RANK is \"" + std::string{bad} + "\", and should be a whole number from 0 on");
  }
  CHECK(refusal(with(torchrun, {{"WORLD_SIZE", "0"}})) ==
        "kolo: WORLD_SIZE is \"0\", and should be a whole number from 1 on");
  CHECK(refusal(with(torchrun, {{"LOCAL_RANK", "gpu"}})) ==
        "kolo: LOCAL_RANK is \"gpu\", and should be a whole number from 0 on");
  CHECK(refusal(with(without(torchrun, "GROUP_WORLD_SIZE"), {{"GROUP_RANK", "?"}})) ==
        "kolo: GROUP_RANK is \"?\", and should be a whole number from 0 on");
  CHECK(refusal(with(srun, {{"SLURM_TASKS_PER_NODE", "2(y3)"}})) ==
        "kolo: SLURM_TASKS_PER_NODE is \"2(y3)\", which says nothing about node 3");
  CHECK(refusal({{"KOLO_RANK", std::string(1000, '7')}, {"KOLO_SIZE", "2"}}).size() < 200);
}

TEST_CASE("an incomplete set of variables is refused with the missing one") {
  CHECK(refusal({{"KOLO_SIZE", "4"}}) == "kolo: KOLO_SIZE is \"4\", but KOLO_RANK is not set");
  CHECK(refusal({{"RANK", "1"}}) == "kolo: RANK is \"1\", but WORLD_SIZE is not set");
  CHECK(refusal(without(mpich, "PMI_SIZE")) == "kolo: PMI_RANK is \"5\", but PMI_SIZE is not set");
  CHECK(refusal(without(mpich, "MPI_LOCALNRANKS")) == "kolo: MPI_LOCALRANKID is \"1\", but MPI_LOCALNRANKS is not set");
  CHECK(refusal({{"SLURM_PROCID", "1"}}) == "kolo: SLURM_PROCID is \"1\", but SLURM_NTASKS is not set");
  CHECK(refusal(without(srun, "SLURM_TASKS_PER_NODE")) ==
        "kolo: SLURM_NNODES is \"4\", but SLURM_TASKS_PER_NODE is not set");
  CHECK(refusal({{"KOLO_RANK", "0"}, {"KOLO_SIZE", "2"}, {"KOLO_NODE_COUNT", "2"}}) ==
        "kolo: KOLO_NODE_COUNT is \"2\", but KOLO_NODE_RANK is not set");
  CHECK(refusal({{"KOLO_RANK", "2"}, {"KOLO_SIZE", "4"}, {"KOLO_NODE_RANK", "1"}}) ==
        "kolo: KOLO_NODE_RANK is \"1\", but neither KOLO_NODE_COUNT nor KOLO_LOCAL_RANK is set");
}

TEST_CASE("inconsistent numbers are refused") {
  CHECK(refusal(with(mpich, {{"PMI_RANK", "8"}})) ==
        "kolo: PMI_RANK is \"8\" and PMI_SIZE is \"8\": the first should be less than the second");
  CHECK(refusal(with(mpich, {{"MPI_LOCALRANKID", "4"}})) ==
        "kolo: MPI_LOCALRANKID is \"4\" and MPI_LOCALNRANKS is \"4\": the first should be less than the second");
  CHECK(refusal(with(srun, {{"SLURM_LOCALID", "1"}})) == "kolo: SLURM_LOCALID is \"1\", but 1 tasks run on its node");
  CHECK(refusal(with(mpich, {{"MPI_LOCALNRANKS", "9"}})) ==
        "kolo: mpich announced rank 5 of 8, local rank 1 of 9, node 0 of 1, which do not fit together");
  CHECK(refusal(with(torchrun, {{"GROUP_WORLD_SIZE", "5"}})) ==
        "kolo: torchrun announced rank 3 of 4, local rank 1 of 2, node 1 of 5, which do not fit together");
}
