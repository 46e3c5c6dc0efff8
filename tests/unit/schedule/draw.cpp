// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pictures show every message, every block at every moment with its contributions, and faults.
#include "support/catch.hpp"
#include "support/ends.hpp"
#include "unit/schedule/list.hpp"

#include <kolo/schedule/cost.hpp>
#include <kolo/schedule/draw.hpp>

#include <initializer_list>
#include <stdexcept>
#include <string>

using namespace kolo;

namespace {

int occurrences(const std::string& text, const std::string& what) {
  int n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

template <class S>
int messages_of(const S& schedule, int p) {
  int sum = 0;
  for (int r = 0; r < p; ++r) sum += static_cast<int>(cost_of(schedule, r, p, 0).messages);
  return sum;
}

/// The contents of `count` cells from `first` on: "c7 c7 c4 ..."; cells are ordered by moment, then by rank.
std::string cells(const std::string& svg, int first, int count) {
  const std::string before = "<use class=\"cell\" href=\"#a0-";
  std::string all;
  auto at = svg.find(before);
  for (int i = 0; i < first + count; ++i, at = svg.find(before, at + 1)) {
    REQUIRE(at != std::string::npos);
    const auto begin = at + before.size();
    if (i >= first) all += svg.substr(begin, svg.find('"', begin) - begin) + ' ';
  }
  return all;
}

/// Combines in every round, so contributions are counted twice.
struct never_stores {
  static constexpr auto collective = kind::allreduce;
  static constexpr int blocks(int p) { return p; }
  static constexpr int rounds(int p) { return 2 * (p - 1); }
  static constexpr step at(int r, int p, int k) {
    return transfer{.to = mod(r + 1, p),
                    .send = {mod(r - k, p), 1},
                    .from = mod(r - 1, p),
                    .receive = {mod(r - k - 1, p), 1},
                    .then = arrival::theirs_first};
  }
};

/// Invalid ranges, and messages that no rank receives.
struct wild {
  static constexpr auto collective = kind::broadcast;
  int count = 1, run = 1, peers = 1;
  static constexpr int blocks(int) { return 2; }
  static constexpr int rounds(int) { return 1; }
  constexpr step at(int r, int, int) const {
    if (r > 0) return {};
    return transfer{.to = {1, peers}, .send = {.first = 5, .count = count, .run = run}};
  }
};

std::string refused(int ranks) {
  return testing::words_of<std::invalid_argument>([&] { draw(recursive_doubling::allgather{}, ranks); });
}

}  // namespace

TEST_CASE("every message has an arrow, every block a cell at every moment, and promised blocks a frame") {
  for_each_schedule([](const char* name, const auto& schedule) {
    for (const int p : {2, 3, 5, 8}) {
      if (!supports(schedule, p)) continue;
      const auto svg = draw(schedule, p, name);
      const int blocks = schedule.blocks(p) * kolo::detail::schedule::block_sets(schedule.collective) +
                         kolo::detail::schedule::scratch_blocks(schedule, p);
      INFO(name << ", " << p << " ranks");
      CHECK(occurrences(svg, "<path class=\"message") == messages_of(schedule, p));
      CHECK(occurrences(svg, "<use class=\"cell\"") == blocks * p * (schedule.rounds(p) + 1));
      CHECK(occurrences(svg, "class=\"rank\"") == p);
      CHECK(occurrences(svg, "class=\"promised\"") >= 1);
      CHECK(occurrences(svg, ", proven<") == 1);
      CHECK(occurrences(svg, "class=\"wrong\"") == 0);
      CHECK(occurrences(svg, "-x") == 0);  // nothing is counted twice
      CHECK(svg == draw(schedule, p, name));
    }
  });
}

TEST_CASE("a cell shows whose contributions it holds") {
  const auto ring = draw(kolo::ring::allreduce{}, 3);
  CHECK(cells(ring, 0, 9) == "c1 c1 c1 c2 c2 c2 c4 c4 c4 ");  // a bit for each rank
  CHECK(cells(ring, 9, 9) == "c1 c5 c1 c2 c2 c3 c6 c4 c4 ");  // rank 0 adds its own to what rank 2 had for block 1
  CHECK(cells(ring, 4 * 9, 9) == "c7 c7 c7 c7 c7 c7 c7 c7 c7 ");
  CHECK(occurrences(ring, "class=\"message\"") == 6);
  CHECK(occurrences(ring, "class=\"message copy\"") == 6);

  const auto gathered = draw(one_shot::allgather{}, 3);
  CHECK(cells(gathered, 0, 18) == "c1 c0 c0 c0 c2 c0 c0 c0 c4 c1 c2 c4 c1 c2 c4 c1 c2 c4 ");
  const auto alltoall = draw(one_shot::alltoall{}, 2);
  CHECK(cells(alltoall, 0, 16) == "c1 c1 c0 c0 c2 c2 c0 c0 c1 c1 c1 c2 c2 c2 c1 c2 ");
  CHECK(occurrences(alltoall, "class=\"own\"") == 2);
  CHECK(cells(draw(dissemination::barrier{}, 3), 6, 3) == "c7 c7 c7 ");
}

TEST_CASE("a wrong schedule is drawn, with its fault named and framed") {
  const auto svg = draw(never_stores{}, 3, "never");
  CHECK(occurrences(svg, "allreduce of 3 ranks: rank 0, round 2, block 0: contribution counted twice") == 1);
  CHECK(occurrences(svg, "class=\"fault\"") == 1);
  CHECK(occurrences(svg, "proven") == 0);
  CHECK(cells(svg, 27, 3) == "x7 c7 c5 ");  // round 2: a complete block receives again
  for (const wild& w : {wild{}, wild{.count = 1000}, wild{.run = 0}, wild{.peers = 1000}, wild{.count = 0}})
    CHECK(occurrences(draw(w, 4), "class=\"wrong\"") == 1);
  CHECK(occurrences(draw(wild{}, 4), "class=\"message lost\"") == 1);
}

TEST_CASE("pictures side by side share no ids, and further rows are below") {
  const auto one = draw(ring::allreduce{}, 4, "one");
  drawing beside{2}, below{1};
  for (auto* both : {&beside, &below}) both->add(ring::allreduce{}, 4, "one").add(circulant::allreduce{}, 4, "two");
  const auto svg = beside.svg();
  CHECK(occurrences(svg, "<path class=\"message") ==
        messages_of(ring::allreduce{}, 4) + messages_of(circulant::allreduce{}, 4));
  CHECK(occurrences(svg, "<g id=\"a0-c1\"") == 1);
  CHECK(occurrences(svg, "<g id=\"a1-c1\"") == 1);
  CHECK(occurrences(svg, "<svg") == 1);
  CHECK(occurrences(svg, "<g transform=\"translate(0 ") == 1);
  CHECK(occurrences(below.svg(), "<g transform=\"translate(0 ") == 2);
}

TEST_CASE("names are escaped, and an unsupported number of ranks is refused with a reason") {
  const auto svg = draw(ring::allreduce{}, 2, "a<b & \"c\">\n");
  CHECK(occurrences(svg, "a&lt;b &amp; &quot;c&quot;&gt; </text>") == 1);
  CHECK(refused(6) == "kolo::draw: allgather of 6 ranks: the schedule does not support this number of ranks");
  CHECK(refused(1) == "kolo::draw: 1 rank; 2 to 64 can be drawn");
  CHECK(refused(128) == "kolo::draw: 128 ranks; 2 to 64 can be drawn");
  CHECK(refused(64) == "");
}

TEST_CASE("with many ranks or blocks each round has two squares: its messages, and what all ranks hold") {
  const auto svg = draw(ring::allreduce{}, 64);
  CHECK(svg.size() < 100'000);
  CHECK(draw(two_level<>::alltoall{}, 64).size() < 100'000);
  CHECK(draw(two_level<>::allgather{}, 33).size() < 100'000);
  CHECK(occurrences(svg, "<rect class=\"empty\"") == 2 * 12);
  CHECK((occurrences(svg, "round 0: 64 messages") == 1 && occurrences(svg, "round 125: 64 messages") == 1));
  CHECK((occurrences(svg, "class=\"cell\"") == 0 && occurrences(svg, "A cell is a block") == 0));
  const auto one_square = [](const std::string& text, const char* of,
                             int number) {  // the paths of a square
    auto at = text.find(of);
    for (int i = 0; i < number; ++i) at = text.find("<rect class=\"empty\"", at + 1);
    const auto end = text.find("<", text.find("/>", at) + 3);
    std::string all;
    for (auto path = end; text.compare(path, 12, "<path class=") == 0; path = text.find('<', path + 1))
      all += text.substr(path, text.find("/>", path) - path);
    return all;
  };
  const auto sent = one_square(svg, "round 0:", 1);
  CHECK(occurrences(sent, "M") == 64);  // one point for each message
  const auto ground = svg.find("<rect class=\"empty\" x=\"") + 23;
  const auto place = std::to_string(std::stoi(svg.substr(ground))) + ' ' +
                     std::to_string(std::stoi(svg.substr(svg.find("y=\"", ground) + 3)));
  CHECK(sent.find("translate(" + place + ")scale(3)translate(0 .5)\" d=\"M1 0h1M2 1h1") != std::string::npos);
  CHECK(occurrences(one_square(svg, "round 125:", 2), "stroke-opacity=\".99\"") == 1);  // all hold all
  CHECK(occurrences(one_square(svg, "round 125:", 2), "M") == 64);                      // a line for each rank
  CHECK(occurrences(one_square(svg, "round 0:", 2), "stroke-opacity=\".18\"") == 1);
  CHECK(occurrences(draw(schedule_of<kind::broadcast>(double_tree{.segments = 500}), 12), "<rect class=\"empty\"") ==
        2 * 12);
  const auto wrong = draw(never_stores{}, 20);
  CHECK((occurrences(wrong, "counted twice") == 1 && occurrences(wrong, "proven") == 0));
}

TEST_CASE("a picture without a title is named after its algorithm") {
  const auto title = [](const auto& schedule) {
    const auto svg = draw(schedule, 4);
    const auto begin = svg.find("<title>") + 7;
    return svg.substr(begin, svg.find(": ", begin) - begin);
  };
  CHECK(title(recursive_doubling::allgather{}) == "recursive_doubling");
  CHECK(title(ring::reduce_scatter{}) == "ring");
  CHECK(title(ring::allreduce{}).starts_with("sequence&lt;ring::reduce_scatter, "));
  CHECK(title(never_stores{}).ends_with("never_stores"));
}
