// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which cores share a cache or a NUMA node, as sysfs reports them; the topology that ranks make of it.
#include <kolo/kolo.hpp>
#include <kolo/os/cores.hpp>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>

#include "support/catch.hpp"
#include "support/ends.hpp"
#include "support/scratch.hpp"

namespace {
using kolo::detail::os::cores_of_list, kolo::detail::os::lowest_core_sharing;

/// Eight cores of two NUMA nodes; 0 to 3 and 4 to 5 share an L3 each, 6 and 7 an L2 only.
class small_host {
 public:
  small_host() {
    write("node/node0/cpulist", "0-5");
    write("node/node2/cpulist", "6,7");
    for (int core = 0; core < 8; ++core) {
      const std::string caches = "cpu/cpu" + std::to_string(core) + "/cache/index", mine = std::to_string(core);
      const int even = core - core % 2;
      const std::string pair = std::to_string(even) + "-" + std::to_string(even + 1);
      write(caches + "0/level", "1"), write(caches + "0/shared_cpu_list", mine);
      if (core < 6) write(caches + "1/level", "3"), write(caches + "1/shared_cpu_list", core < 4 ? "0-3" : "4-5");
      write(caches + "2/level", "2"), write(caches + "2/shared_cpu_list", pair);
    }
  }
  int sharing(const char* cores, bool numa) const {
    return lowest_core_sharing(cores_of_list(cores), numa, root_ / "");
  }

 private:
  void write(const std::string& name, const std::string& line) const {
    const std::filesystem::path to = root_ / name;
    std::filesystem::create_directories(to.parent_path());
    std::ofstream{to} << line << '\n';
  }
  testing::scratch_directory root_;
};
}  // namespace

TEST_CASE("a list of cores is parsed as Linux writes it") {
  const auto count = [](const char* list) {
    const cpu_set_t cores = cores_of_list(list);
    return CPU_COUNT(&cores);
  };
  CHECK(count("0\n") == 1);
  CHECK(count("0-3,8-11\n") == 8);
  CHECK(count("1,3,5-6") == 4);
  CHECK(count("") == 0);
  CHECK(count("\n") == 0);
  CHECK(count("1000-100000") == CPU_SETSIZE - 1000);
  const cpu_set_t cores = cores_of_list("2,4-5");
  CHECK((CPU_ISSET(2, &cores) && !CPU_ISSET(3, &cores) && CPU_ISSET(4, &cores) && CPU_ISSET(5, &cores)));
}

TEST_CASE("cores share the last level of cache or a NUMA node, or they share none") {
  const small_host host;
  CHECK(host.sharing("2", false) == 0);
  CHECK(host.sharing("1-3", false) == 0);
  CHECK(host.sharing("4,5", false) == 4);
  CHECK(host.sharing("7", false) == 6);
  CHECK(host.sharing("3-4", false) == -1);
  CHECK(host.sharing("0-7", false) == -1);
  CHECK(host.sharing("1,4", true) == 0);
  CHECK(host.sharing("7", true) == 6);
  CHECK(host.sharing("5-6", true) == -1);
  CHECK(host.sharing("9", true) == -1);
  CHECK(host.sharing("9", false) == -1);
  CHECK(host.sharing("", false) == -1);
}

TEST_CASE("ranks that share a cache make a topology, or an error that names the rank which is bound to none") {
  using kolo::locality, kolo::detail::collective::topology_by;
  std::mutex guard;
  std::set<std::string> in_turn, unbound;
  int in_twos = 0, alike = 0;
  kolo::threads::run(4, [&](auto& comm) {
    const int r = comm.rank();
    const auto t = topology_by(comm, 40 + r / 2, locality::cache);
    const auto turns = testing::words_of([&] { topology_by(comm, r % 2, locality::numa_node); });
    const auto free = testing::words_of([&] { topology_by(comm, r == 2 ? -1 : 0, locality::cache); });
    kolo::topology one_core{};
    cpu_set_t before, mine;
    CPU_ZERO(&mine);
    ::sched_getaffinity(0, sizeof before, &before);
    CPU_SET(std::size_t(::sched_getcpu()), &mine);
    ::sched_setaffinity(0, sizeof mine, &mine);
    const bool is_known = lowest_core_sharing(mine, false) >= 0;
    const auto text = testing::words_of([&] { one_core = kolo::topology_of(comm, locality::cache); });
    ::sched_setaffinity(0, sizeof before, &before);
    const std::lock_guard lock{guard};
    in_twos += t.ranks_per_node == 2;
    in_turn.insert(turns);
    unbound.insert(free);
    alike += is_known ? text.empty() ? one_core.holds(4) : text.find("cache by cache") != std::string::npos
                      : text.find("may use cores of more than one cache") != std::string::npos;
  });
  CHECK(in_twos == 4);
  CHECK(alike == 4);
  REQUIRE((in_turn.size() == 1 && unbound.size() == 1));
  CHECK(in_turn.begin()->find(
            "not numbered NUMA node by NUMA node: rank 2 is on an earlier NUMA node than rank 1; bind") !=
        std::string::npos);
  CHECK(unbound.begin()->find("rank 2 may use cores of more than one cache") != std::string::npos);
}
