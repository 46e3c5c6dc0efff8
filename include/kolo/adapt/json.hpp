// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cost tables and networks as JSON, for nlohmann::json (nlohmann-json3-dev):
// `nlohmann::json::parse(text).get<kolo::tuning>()`. Opt-in.
#pragma once

#include <kolo/schedule/cost_model.hpp>
#include <kolo/schedule/schedule.hpp>
#include <kolo/simulate/network.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::adapt {
inline constexpr const char* pattern_names[] = {"unknown", "rounds", "one_way", "exchange", "there_and_back"};

inline const nlohmann::json& needed(const nlohmann::json& j, const char* name) {
  if (!j.contains(name)) throw std::invalid_argument(std::string{"kolo: a \""} + name + "\" is needed in " + j.dump());
  return j.at(name);
}

/// Returns `j` if it is a list.
inline const nlohmann::json& list(const nlohmann::json& j, std::string_view what) {
  if (!j.is_array()) throw std::invalid_argument("kolo: " + std::string{what} + " are a list, not " + j.dump());
  return j;
}

inline pattern pattern_from(const nlohmann::json& name) {
  for (unsigned i = 1; i < std::size(pattern_names); ++i)
    if (name == pattern_names[i]) return static_cast<pattern>(i);
  throw std::invalid_argument("kolo: a table has no rows for " + name.dump() +
                              "; rounds, one_way, exchange and there_and_back are possible");
}

inline kind kind_from(const nlohmann::json& wanted) {
  for (std::size_t k = 0; k < tuning::kinds; ++k)
    if (wanted == name(static_cast<kind>(k))) return static_cast<kind>(k);
  throw std::invalid_argument("kolo: there is no collective called " + wanted.dump());
}

/// Reads a number; for an integral type it must be whole and not negative.
template <class Number>
void read_number(const nlohmann::json& j, const std::string& where, Number& to) {
  if constexpr (std::is_integral_v<Number>) {
    constexpr auto most = std::numeric_limits<Number>::max();
    const bool is_whole = j.is_number_unsigned() || (j.is_number_integer() && j.get<std::int64_t>() >= 0);
    if (!is_whole || j.get<std::uint64_t>() > std::uint64_t(most))
      throw std::invalid_argument("kolo: " + where + " is a whole number from 0 to " + std::to_string(most) + ", not " +
                                  j.dump());
  } else if (!j.is_number()) {
    throw std::invalid_argument("kolo: " + where + " is a number, not " + j.dump());
  }
  to = j.get<Number>();
}

/// Reads a list of exactly N numbers.
template <std::size_t N>
void read_number(const nlohmann::json& j, const std::string& where, std::array<double, N>& to) {
  if (!j.is_array() || j.size() != N)
    throw std::invalid_argument("kolo: " + where + " is a list of " + std::to_string(N) + " numbers, not " + j.dump());
  for (std::size_t i = 0; i < N; ++i) read_number(j[i], "a number of " + where, to[i]);
}

/// Reads those numbers that `j` names, and rejects names that are neither theirs nor in `others`. `members` calls
/// see(name, member) for each.
void read_numbers(const nlohmann::json& j, const std::string& what, auto& to, auto members,
                  const std::vector<std::string>& others = {}) {
  if (!j.is_object()) throw std::invalid_argument("kolo: " + what + " is an object, not " + j.dump());
  nlohmann::json rest = j;
  std::string names;
  members(to, [&](const char* name, auto& number) {
    names += (names.empty() ? "" : ", ") + std::string{name};
    if (j.contains(name)) read_number(j.at(name), what + "'s \"" + name + '"', number);
    rest.erase(name);
  });
  for (const std::string& name : others) {
    if (name != "origin") names += ", " + name;
    rest.erase(name);
  }
  if (!rest.empty())
    throw std::invalid_argument("kolo: " + what + " has no \"" + rest.begin().key() + "\"; it has " + names);
}
nlohmann::json written(const auto& from, auto members) {
  nlohmann::json j;
  members(from, [&](const char* name, const auto& number) { j[name] = number; });
  return j;
}

inline constexpr auto numbers_of_tuning = [](auto& t, auto see) {
  see("copied", t.copied);
  see("noticed", t.noticed);
};
inline constexpr auto numbers_of_row = [](auto& r, auto see) {
  see("ranks", r.ranks);
  see("round", r.round);
  see("hop", r.hop);
  see("duplex", r.duplex);
  see("message", r.message);
  see("bytes", r.bytes);
  see("shared", r.shared);
  see("combined", r.combined);
};
inline constexpr auto numbers_of_native_row = [](auto& r, auto see) {
  see("ranks", r.ranks);
  for (std::size_t k = 0; k < tuning::kinds; ++k) see(name(static_cast<kind>(k)), r.seconds[k]);
};

/// Calls read(the JSON of a row, its name in errors, the row) for each row.
void read_rows(const nlohmann::json& all, const std::string& what, auto& rows, auto read) {
  if (list(all, "the rows of " + what).size() > rows.size())
    throw std::invalid_argument("kolo: " + what + " has at most " + std::to_string(rows.size()) + " rows");
  auto to = rows.begin();
  for (const nlohmann::json& one : all) {
    read(one, "a row of " + what, *to);
    if (to++->ranks == 0) throw std::invalid_argument("kolo: a row of " + what + " says for how many \"ranks\" it is");
  }
}
}  // namespace detail::adapt

/// {"rows": [{"ranks": 2, "runs_as": "rounds", "round": seconds, "hop": seconds, "duplex": seconds, "message": seconds,
/// "bytes": [one for each of tuning::sizes], ...}, ...], "copied": ..., "noticed": ...}; numbers that are not named
/// are 0. "native": [{"ranks": 2, "allreduce": [seconds for each of tuning::native_sizes], ...}, ...] is optional.
/// "origin" as in a network.
/// Errors  std::invalid_argument: an unknown name, an unknown pattern, a value that is not a number, a list of another
///         length, rows that are no list, a table without its rows, a row without its ranks or `runs_as`, too many
///         rows; errors of nlohmann::json.
inline void from_json(const nlohmann::json& j, tuning& t) {
  using nlohmann::json;
  t = {};
  detail::adapt::read_numbers(j, "a table", t, detail::adapt::numbers_of_tuning, {"rows", "native", "origin"});
  detail::adapt::read_rows(detail::adapt::needed(j, "rows"), "a table", t.rows,
                           [](json one, const std::string& what, tuning::row& to) {
                             if (one.contains("turn"))
                               one.emplace("duplex", one["turn"]), one.erase("turn");  // the name in version 0.1
                             detail::adapt::read_numbers(one, what, to, detail::adapt::numbers_of_row, {"runs_as"});
                             to.runs_as = detail::adapt::pattern_from(detail::adapt::needed(one, "runs_as"));
                           });
  if (j.contains("native"))
    detail::adapt::read_rows(j.at("native"), "a table of native times", t.native,
                             [](const json& one, const std::string& what, tuning::native_row& to) {
                               detail::adapt::read_numbers(one, what, to, detail::adapt::numbers_of_native_row);
                             });
}

/// Writes a cost table as JSON, from which `from_json` makes the same table.
inline void to_json(nlohmann::json& j, const tuning& t) {
  j = detail::adapt::written(t, detail::adapt::numbers_of_tuning);
  j["rows"] = nlohmann::json::array();
  for (const auto& row : t.rows) {
    if (row.ranks == 0) continue;
    j["rows"].push_back(detail::adapt::written(row, detail::adapt::numbers_of_row));
    j["rows"].back()["runs_as"] = detail::adapt::pattern_names[unsigned(row.runs_as)];
  }
  for (const auto& row : t.native)
    if (row.ranks > 0) j["native"].push_back(detail::adapt::written(row, detail::adapt::numbers_of_native_row));
}

}  // namespace kolo::inline KOLO_ABI

namespace kolo::inline KOLO_ABI::detail::adapt {
inline constexpr auto numbers_of_link = [](auto& l, auto see) {
  see("latency", l.latency);
  see("overhead", l.overhead);
  see("gap", l.gap);
  see("seconds_per_byte", l.seconds_per_byte);
};
inline constexpr auto numbers_of_network = [](auto& n, auto see) {
  numbers_of_link(n, see);
  see("seconds_per_byte_reduced", n.seconds_per_byte_reduced);
  see("ranks_per_node", n.ranks_per_node);
  see("cards_per_node", n.cards_per_node);
  see("noise", n.noise);
  see("seed", n.seed);
};
inline constexpr auto numbers_of_straggler = [](auto& s, auto see) {
  see("rank", s.rank);
  see("factor", s.factor);
};
/// Returns make(the JSON in the file); errors name the file.
auto read_file(const std::string& path, auto make) {
  std::ifstream file{path};
  if (!file) throw std::invalid_argument("kolo: " + path + " cannot be read");
  try {
    return make(nlohmann::json::parse(file));
  } catch (const std::exception& e) {
    throw std::invalid_argument(path + ": " + e.what());
  }
}
}  // namespace kolo::inline KOLO_ABI::detail::adapt

namespace kolo::inline KOLO_ABI {
namespace simulate {

/// A network that owns its stragglers. Converts to a `network`, which refers to them.
struct described_network {
  network numbers{};  ///< without stragglers
  std::vector<straggler> stragglers{};

  operator network() const& {  // NOLINT: implicit, since it is a network
    network n = numbers;
    n.stragglers = stragglers;
    return n;
  }
  operator network() const&& = delete;
};

inline void from_json(const nlohmann::json& j, straggler& s) {
  s = {};
  detail::adapt::read_numbers(j, "a straggler", s, detail::adapt::numbers_of_straggler);
}
inline void from_json(const nlohmann::json& j, link& l) {
  l = {};
  detail::adapt::read_numbers(j, "a link", l, detail::adapt::numbers_of_link);
}

/// {"latency": seconds, "inside": {"latency": seconds, ...}, "stragglers": [{"rank": 3, "factor": 1.5}, ...], ...}:
/// names are the members of `network`; those that are not named have the values of `network{}`. "origin" may name the
/// source of the numbers, and is not read.
/// Errors  std::invalid_argument: an unknown name, a value that is not a number.
inline void from_json(const nlohmann::json& j, described_network& n) {
  n = {};
  detail::adapt::read_numbers(j, "a network", n.numbers, detail::adapt::numbers_of_network,
                              {"inside", "stragglers", "origin"});
  if (j.contains("inside")) n.numbers.inside = j.at("inside").get<link>();
  if (j.contains("stragglers"))
    n.stragglers = detail::adapt::list(j.at("stragglers"), "a network's \"stragglers\"").get<std::vector<straggler>>();
}
/// The same, but rejects stragglers, to which a `network` only refers.
inline void from_json(const nlohmann::json& j, network& n) {
  if (j.contains("stragglers"))
    throw std::invalid_argument("kolo: a network does not own its stragglers: read a described_network");
  n = j.get<described_network>().numbers;
}

/// Writes stragglers, links and networks as JSON, with the names of their members; `from_json` reads it.
inline void to_json(nlohmann::json& j, const straggler& s) {
  j = detail::adapt::written(s, detail::adapt::numbers_of_straggler);
}
inline void to_json(nlohmann::json& j, const link& l) { j = detail::adapt::written(l, detail::adapt::numbers_of_link); }
inline void to_json(nlohmann::json& j, const network& n) {
  j = detail::adapt::written(n, detail::adapt::numbers_of_network);
  j["inside"] = n.inside;
  if (!n.stragglers.empty()) j["stragglers"] = std::vector<straggler>(n.stragglers.begin(), n.stragglers.end());
}
inline void to_json(nlohmann::json& j, const described_network& n) { to_json(j, static_cast<network>(n)); }

/// Reads a network from a file.
/// Errors  std::invalid_argument, which names the file.
inline described_network read_network(const std::string& path) {
  return detail::adapt::read_file(path, [](const nlohmann::json& j) { return j.get<described_network>(); });
}

}  // namespace simulate

}  // namespace kolo::inline KOLO_ABI
