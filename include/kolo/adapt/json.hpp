// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables and networks as JSON, for nlohmann::json (nlohmann-json3-dev): `nlohmann::json::parse(text).get<kolo::tuning>()`. Opt-in.
#pragma once

#include <kolo/transport/tuning.hpp>

#include <nlohmann/json.hpp>

#include <stdexcept>
#include <string>

namespace kolo::inline v0 {

namespace detail {
inline constexpr const char* pattern_names[] = {"unknown", "rounds", "one_way", "exchange", "there_and_back"};

inline pattern pattern_from(const std::string& name) {
  for (unsigned i = 1; i < std::size(pattern_names); ++i)
    if (name == pattern_names[i]) return static_cast<pattern>(i);
  throw std::invalid_argument("kolo: a table has no rows for \"" + name + "\"; rounds, one_way, exchange and there_and_back are possible");
}
}  // namespace detail

/// {"rows": [{"ranks": 2, "runs_as": "rounds", "round": seconds, "message": seconds, "bytes": [one for each of tuning::sizes], ...}, ...], ...};
/// what a row does not name is 0.
/// Errors  std::invalid_argument: an unknown pattern, too many rows; what nlohmann::json throws.
inline void from_json(const nlohmann::json& j, tuning& t) {
  t = {};
  std::size_t n = 0;
  for (const auto& row : j.at("rows")) {
    if (n == t.rows.size()) throw std::invalid_argument("kolo: a table has at most " + std::to_string(t.rows.size()) + " rows");
    const auto constants = [&](const char* name) { return row.contains(name) ? row.at(name).get<tuning::per_size>() : tuning::per_size{}; };
    t.rows[n++] = {row.at("ranks").get<int>(), detail::pattern_from(row.at("runs_as")), row.value("round", 0.0), row.value("message", 0.0),
                   constants("bytes"), constants("shared"), constants("combined")};
  }
  if (j.contains("copied")) t.copied = j.at("copied").get<tuning::per_size>();
  t.noticed = j.value("noticed", 0.0);
}

inline void to_json(nlohmann::json& j, const tuning& t) {
  j = {{"copied", t.copied}, {"noticed", t.noticed}, {"rows", nlohmann::json::array()}};
  for (const auto& row : t.rows)
    if (row.ranks > 0)
      j["rows"].push_back({{"ranks", row.ranks}, {"runs_as", detail::pattern_names[static_cast<unsigned>(row.runs_as)]}, {"round", row.round},
                           {"message", row.message}, {"bytes", row.bytes}, {"shared", row.shared}, {"combined", row.combined}});
}

}  // namespace kolo::inline v0
