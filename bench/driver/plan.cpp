// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads plans.
#include "plan.hpp"

#include "../elements.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

namespace kolo_bench {

namespace {

using nlohmann::json;

/// If it is missing: `otherwise`.
template <class T>
std::vector<T> list(const json& entry, const char* name, std::vector<T> otherwise) {
  return entry.contains(name) ? entry.at(name).get<std::vector<T>>() : otherwise;
}

/// The smallest size, from `bytes` on, that is a whole number of elements for every rank.
std::uint64_t at_least_one_element(const std::string& collective, const std::string& element, int ranks,
                                   std::uint64_t bytes) {
  const bool cut = collective == "reduce_scatter" || collective == "alltoall";
  const auto unit = element_bytes(element) * (cut ? static_cast<std::uint64_t>(ranks) : 1);
  return (bytes + unit - 1) / unit * unit;
}

/// For other collectives "in place" differs between MPI and kolo.
void check_place(const std::string& collective, const std::string& place) {
  static const std::vector<std::string> possible{"allreduce", "reduce", "allgather", "broadcast", "barrier"};
  if (place == "in_place" && std::find(possible.begin(), possible.end(), collective) == possible.end())
    throw std::runtime_error{collective + " is not measured in place"};
}

void check_names(const json& entry, const std::vector<std::string>& known) {
  for (const auto& [name, value] : entry.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw std::runtime_error{"a plan has no entry \"" + name + '"'};
}

/// Sizes that round up to the same one are one comparison, and a barrier has no size.
void add(comparison c, std::size_t first_of_entry, std::vector<comparison>& all) {
  const auto twin =
      std::find_if(all.begin(), all.end(), [&](const comparison& other) { return other.where == c.where; });
  if (twin == all.end()) all.push_back(std::move(c));
  else if (static_cast<std::size_t>(twin - all.begin()) < first_of_entry)
    throw std::runtime_error{"two entries of the plan measure the same: " + c.where.collective + ", " +
                             std::to_string(c.where.bytes) + " bytes"};
}

void expand(const json& entry, std::vector<comparison>& all) {
  using strings = std::vector<std::string>;
  check_names(entry,
              {"collective", "bytes", "ranks", "element", "place", "mode", "algorithms", "buffers", "implementations"});
  const auto first = all.size();
  for (const auto& collective : entry.at("collective").get<strings>())
    for (const int ranks : list<int>(entry, "ranks", {2}))
      for (const auto& element : list<std::string>(entry, "element", {"float"}))
        for (const auto& place : list<std::string>(entry, "place", {"out_of_place"})) {
          if (ranks < 1) throw std::runtime_error{"a plan is for one rank at least, not " + std::to_string(ranks)};
          check_place(collective, place);
          for (const auto& mode : list<std::string>(entry, "mode", {"touched"}))
            for (const auto bytes : list<std::uint64_t>(entry, "bytes", {0})) {
              const auto possible =
                  collective == "barrier" ? 0 : at_least_one_element(collective, element, ranks, bytes);
              add({{collective, possible, ranks, element, place, mode},
                   list<std::string>(entry, "algorithms", {}),
                   list<std::string>(entry, "buffers", {"ordinary"}),
                   list<std::string>(entry, "implementations", {})},
                  first, all);
            }
        }
}

}  // namespace

plan read_plan(const std::string& file) {
  std::ifstream in{file};
  if (!in) throw std::runtime_error{"the plan " + file + " cannot be read"};
  const auto j = json::parse(in, nullptr, true, true);
  check_names(j, {"rounds", "burst_milliseconds", "row_seconds", "compare"});
  plan p;
  p.rounds = j.value("rounds", p.rounds);
  p.burst_milliseconds = j.value("burst_milliseconds", p.burst_milliseconds);
  p.row_seconds = j.value("row_seconds", p.row_seconds);
  for (const auto& entry : j.at("compare")) expand(entry, p.comparisons);
  return p;
}

}  // namespace kolo_bench
