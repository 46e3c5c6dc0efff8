// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs of links, and schedules synthesized for them, as JSON, for nlohmann::json (nlohmann-json3-dev). Opt-in.
#pragma once

#include <kolo/adapt/json.hpp>
#include <kolo/schedule/synthesized.hpp>
#include <kolo/schedule/verify.hpp>
#include <kolo/simulate/graph.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string>

namespace kolo::inline KOLO_ABI {

namespace detail::adapt {
inline constexpr const char* arrival_names[] = {"replace", "mine_first", "theirs_first", "in_rank_order"};

inline arrival arrival_from(const nlohmann::json& name) {
  for (std::size_t i = 0; i < std::size(arrival_names); ++i)
    if (name == arrival_names[i]) return static_cast<arrival>(i);
  throw std::invalid_argument("kolo: there is no arrival called " + name.dump());
}

inline constexpr auto numbers_of_graph = [](auto& g, auto see) {
  see("ranks", g.ranks);
  see("switches", g.switches);
  see("seconds_per_byte_reduced", g.seconds_per_byte_reduced);
};
inline constexpr auto numbers_of_table = [](auto& t, auto see) {
  see("ranks", t.ranks);
  see("blocks", t.blocks);
  see("rounds", t.rounds);
  see("reduce_rounds", t.reduce_rounds);
  see("root", t.root);
};

struct graph_numbers {
  int ranks = 1, switches = 0;
  double seconds_per_byte_reduced = 0;
};

}  // namespace detail::adapt

/// {"collective": "allgather", "ranks": 4, "blocks": 4, "rounds": 2, "reduce_rounds": 2, "root": 0,
///  "messages": [[round, from, to, first block, blocks], ...]}; a message that does not replace has a sixth element:
/// "mine_first" or another arrival.
inline void to_json(nlohmann::json& j, const schedule_table& t) {
  j = detail::adapt::written(t, detail::adapt::numbers_of_table);
  j["collective"] = name(t.collective);
  auto& all = j["messages"] = nlohmann::json::array();
  for (const scheduled_message& m : t.messages) {
    all.push_back({m.round, m.from, m.to, m.first, m.count});
    if (m.then != arrival::replace) all.back().push_back(detail::adapt::arrival_names[int(m.then)]);
  }
}
/// Errors  std::invalid_argument: an unknown or missing name, a value that is not a number.
inline void from_json(const nlohmann::json& j, schedule_table& t) {
  t = {};
  detail::adapt::read_numbers(j, "a table of a schedule", t, detail::adapt::numbers_of_table,
                              {"collective", "messages"});
  t.collective = detail::adapt::kind_from(detail::adapt::needed(j, "collective"));
  for (const auto& m : detail::adapt::list(detail::adapt::needed(j, "messages"), "the messages of a schedule")) {
    if (!m.is_array() || m.size() < 5 || m.size() > 6)
      throw std::invalid_argument("kolo: a message is [round, from, to, first block, blocks], not " + m.dump());
    int n[5];
    for (std::size_t i = 0; i < 5; ++i) detail::adapt::read_number(m[i], "an element of a message", n[i]);
    t.messages.push_back(
        {n[0], n[1], n[2], n[3], n[4], m.size() == 6 ? detail::adapt::arrival_from(m[5]) : arrival::replace});
  }
}

inline void to_json(nlohmann::json& j, const synthesized& s) { to_json(j, s.table()); }

/// Reads the schedule from a file that has `nlohmann::json(mine)`, and verifies it.
/// Errors  std::invalid_argument, which names the file: it cannot be read, or its schedule is wrong.
inline synthesized read_schedule(const std::string& path) {
  return detail::adapt::read_file(path, [](const nlohmann::json& j) {
    const synthesized s{j.get<schedule_table>()};
    if (const verdict v = verify(s, s.table().ranks); !v) throw std::invalid_argument(v.message());
    return s;
  });
}

namespace simulate {

/// {"ranks": 4, "switches": 1, "links": [{"between": [0, 4], "latency": seconds, "seconds_per_byte": seconds, ...},
/// {"from": 1, "to": 2, ...}, ...]}: switches are numbered after the ranks; "between" is a link in both directions,
/// "from" and "to" a link in one. "origin" may name the source of the numbers, and is not read.
inline void to_json(nlohmann::json& j, const graph& g) {
  const detail::adapt::graph_numbers numbers{g.ranks(), g.vertices() - g.ranks(), g.seconds_per_byte_reduced};
  j = detail::adapt::written(numbers, detail::adapt::numbers_of_graph);
  auto& all = j["links"] = nlohmann::json::array();
  for (const graph::edge& e : g.edges()) {
    all.push_back(e.times);
    all.back()["from"] = e.from, all.back()["to"] = e.to;
  }
}
/// Errors  std::invalid_argument: an unknown or missing name, a value that is not a number, or what `graph` rejects.
inline void from_json(const nlohmann::json& j, graph& g) {
  detail::adapt::graph_numbers numbers;
  detail::adapt::read_numbers(j, "a graph", numbers, detail::adapt::numbers_of_graph, {"links", "origin"});
  g = graph{numbers.ranks, numbers.switches};
  g.seconds_per_byte_reduced = numbers.seconds_per_byte_reduced;
  for (const auto& one : detail::adapt::list(detail::adapt::needed(j, "links"), "the links of a graph")) {
    link times;
    detail::adapt::read_numbers(one, "a link of a graph", times, detail::adapt::numbers_of_link,
                                {"between", "from", "to"});
    int a = 0, b = 0;
    const bool both = one.contains("between");
    if (both && (!one.at("between").is_array() || one.at("between").size() != 2))
      throw std::invalid_argument("kolo: a link is between two, not " + one.at("between").dump());
    detail::adapt::read_number(both ? one.at("between")[0] : detail::adapt::needed(one, "from"), "an end of a link", a);
    detail::adapt::read_number(both ? one.at("between")[1] : detail::adapt::needed(one, "to"), "an end of a link", b);
    if (both) g.link(a, b, times);
    else g.link_one_way(a, b, times);
  }
}

/// Reads a graph from a file.
/// Errors  std::invalid_argument, which names the file.
inline graph read_graph(const std::string& path) {
  return detail::adapt::read_file(path, [](const nlohmann::json& j) { return j.get<graph>(); });
}

}  // namespace simulate

}  // namespace kolo::inline KOLO_ABI
