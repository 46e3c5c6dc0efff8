// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws algorithms: `draw ring allreduce 5 > ring.svg`; several names, separated by commas, become pictures side by side.
#include <kolo/schedule/catalogue.hpp>
#include <kolo/schedule/draw.hpp>

#include <CLI/CLI.hpp>

#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

struct wishes {
  std::string algorithms{}, collective = "allreduce", file{};
  int ranks = 5, across = 4, segments = 0, radix = 0;  // 0: the algorithm's default
  bool list = false;
};

/// "ring: allreduce, reduce_scatter, allgather"
template <class A>
std::string line_of(const char* name, const A& family) {
  std::string line = name, between = ": ";
  kolo::for_each_schedule_of(
      family, [&](const auto& schedule) { line += between + kolo::name(schedule.collective), between = ", "; });
  return line;
}

std::string list() {
  std::string all;
  kolo::for_each_family([&](const char* name, const auto& family) { all += line_of(name, family) + '\n'; });
  return all;
}

/// The family with the requested parameters, those of them that it has; adds them to `title`.
template <class A>
A with_parameters(A family, const wishes& w, std::string& title) {
  if constexpr (requires { family.segments; })
    if (w.segments > 0) family.segments = w.segments, title += ", " + std::to_string(w.segments) + " segments";
  if constexpr (requires { family.radix; })
    if (w.radix > 0) family.radix = w.radix, title += ", radix " + std::to_string(w.radix);
  return family;
}

/// Adds the picture of one algorithm; throws std::invalid_argument if there is none.
void add(kolo::drawing& to, const std::string& wanted, const wishes& w) {
  std::string has;
  bool drawn = false;
  kolo::for_each_family([&](const char* name, const auto& family) {
    if (name != wanted) return;
    has = line_of(name, family);
    std::string title = name;
    kolo::for_each_schedule_of(with_parameters(family, w, title), [&](const auto& schedule) {
      if (kolo::name(schedule.collective) == w.collective) to.add(schedule, w.ranks, title), drawn = true;
    });
  });
  if (has.empty()) throw std::invalid_argument("there is no algorithm '" + wanted + "'; choose one of\n" + list());
  if (!drawn) throw std::invalid_argument("there is no " + w.collective + " in '" + wanted + "'; choose from\n" + has);
}

std::string draw(const wishes& w) {
  kolo::drawing all{w.across};
  std::istringstream names{w.algorithms};
  for (std::string name; std::getline(names, name, ',');) add(all, name, w);
  return all.svg();
}

void add_options(CLI::App& app, wishes& w) {
  app.add_option("algorithms", w.algorithms, "Names of algorithms, separated by commas; each becomes a picture");
  app.add_option("collective", w.collective, "The collective that they perform")->capture_default_str();
  app.add_option("ranks", w.ranks, "Number of ranks")->check(CLI::Range(2, 64))->capture_default_str();
  app.add_option("--segments", w.segments, "Number of segments, for algorithms that have segments")
      ->check(CLI::Range(1, 256));
  app.add_option("--radix", w.radix, "Radix, for algorithms that have one")->check(CLI::Range(2, 64));
  app.add_option("--across", w.across, "Pictures per row")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--out", w.file, "File to write, instead of standard output");
  app.add_flag("--list", w.list, "List all algorithms, and the collectives of each");
}

void write(const std::string& text, const std::string& file) {
  if (file.empty()) {
    std::cout << text;
    return;
  }
  std::ofstream out{file};
  out << text;
  out.close();
  if (!out) throw std::invalid_argument("cannot write " + file);
}

}  // namespace

int main(int argc, char** argv) {
  wishes w;
  CLI::App app{"Draws algorithms as SVG: ranks across, rounds down, an arrow for each message."};
  add_options(app, w);
  CLI11_PARSE(app, argc, argv);
  try {
    if (!w.list && w.algorithms.empty()) throw std::invalid_argument("name an algorithm; one of\n" + list());
    write(w.list ? list() : draw(w), w.file);
    return 0;
  } catch (const std::invalid_argument& e) {
    std::cerr << "draw: " << e.what() << (std::string{e.what()}.ends_with('\n') ? "" : "\n");
    return 1;
  }
}
