// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes tables as headers, which are compiled into the library.
#pragma once

#include <kolo/adapt/json.hpp>
#include <kolo/schedule/cost_model.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace kolo_bench {

namespace detail {
inline std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}
/// Six per line, so that a line has at most 120 columns.
template <class Numbers>
std::string numbers(const Numbers& values) {
  std::string text = "{";
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : i % 6 == 0 ? ",\n       " : ", ") + number(values[i]);
  return text + "}";
}
inline std::string text_of(const kolo::tuning::row& r) {
  const auto unless_0 = [](const char* name, double value) { return value == 0 ? "" : name + number(value) + ","; };
  return "    {.ranks = " + std::to_string(r.ranks) +
         ", .runs_as = pattern::" + kolo::detail::adapt::pattern_names[static_cast<unsigned>(r.runs_as)] + "," +
         unless_0(" .round = ", r.round) + unless_0(" .hop = ", r.hop) + "\n    " + unless_0(" .duplex = ", r.duplex) +
         unless_0(" .message = ", r.message) + " .bytes = " + numbers(r.bytes) +
         ",\n     .shared = " + numbers(r.shared) + ",\n     .combined = " + numbers(r.combined) + "},\n";
}
inline std::string text_of(const kolo::tuning::native_row& r) {
  std::string text = "    {.ranks = " + std::to_string(r.ranks) + ", .seconds = {{\n";
  for (std::size_t k = 0; k < r.seconds.size(); ++k)
    text += "      " + numbers(r.seconds[k]) + ",  // " + kolo::name(static_cast<kolo::kind>(k)) + "\n";
  return text + "    }}},\n";
}
}  // namespace detail

/// `inline constexpr tuning NAME{...};`
inline std::string definition(const std::string& name, const kolo::tuning& table) {
  std::string text = "inline constexpr tuning " + name + "{.rows = {{\n";
  for (const auto& r : table.rows)
    if (r.ranks > 0) text += detail::text_of(r);
  if (table.native[0].ranks > 0) text += "}}, .native = {{\n";
  for (const auto& r : table.native)
    if (r.ranks > 0) text += detail::text_of(r);
  return text + "}}, .copied = " + detail::numbers(table.copied) + ", .noticed = " + detail::number(table.noticed) +
         "};\n";
}

/// The first lines of a header whose tables `how` has written.
inline std::string head(const std::string& what, const std::string& how) {
  return "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n// " + what + "; written by `" + how +
         "`.\n#pragma once\n\n#include <kolo/schedule/cost_model.hpp>\n\nnamespace kolo::inline "
         "KOLO_ABI::default_tuning "
         "{\n\n";
}

/// Replaces the whole file, or leaves it.
inline void write_file(const std::string& file, const std::string& text) {
  const auto beside = file + ".new";
  std::ofstream out{beside};
  out << text;
  out.close();
  if (!out) throw std::runtime_error{beside + " cannot be written"};
  std::filesystem::rename(beside, file);
}

/// select/default_tuning.hpp.
inline void write_header(const std::string& file, const kolo::tuning& shared_memory) {
  write_file(file,
             head("Measured tables for the automatic choice", "bash bench/run.sh tune") +
                 "/// Processes, and threads, on one host of two cores, near each other and far: more than two "
                 "ranks share cores.\n" +
                 definition("shared_memory", shared_memory) +
                 "\n/// Not measured: a network of 10 GB/s with start-ups of 3 us, for message transports without a "
                 "table of their own.\n"
                 "inline constexpr tuning messages{.rows = {{\n"
                 "    {.ranks = 2, .runs_as = pattern::rounds, .hop = 2e-06,\n"
                 "     .message = 1e-06, .bytes = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10},\n"
                 "     .combined = {5e-11, 5e-11, 5e-11, 5e-11, 5e-11, 5e-11}},\n"
                 "}}, .copied = {1e-10, 1e-10, 1e-10, 1e-10, 1e-10, 1e-10}, .noticed = 3e-06};\n\n}  // "
                 "namespace kolo::inline KOLO_ABI::default_tuning\n");
}

/// mpi/one_host_tuning.hpp.
inline void write_mpi_header(const std::string& file, const kolo::tuning& mpich, const kolo::tuning& openmpi) {
  write_file(
      file,
      head("Measured tables for the automatic choice over MPI on one host", "bash bench/run.sh tune-mpi --record") +
          "/// MPICH, on one host of two cores: more than two ranks share cores.\n" +
          definition("mpich_one_host", mpich) + "/// Open MPI, otherwise as `mpich_one_host`.\n" +
          definition("openmpi_one_host", openmpi) + "\n}  // namespace kolo::inline KOLO_ABI::default_tuning\n");
}

}  // namespace kolo_bench
