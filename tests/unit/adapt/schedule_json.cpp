// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs and schedules are equal after writing to JSON and reading; exported schedules, when executed, do what the schedule does.
#include <kolo/adapt/schedule_export.hpp>
#include <kolo/adapt/schedule_json.hpp>
#include <kolo/schedule/synthesize.hpp>

#include "support/catch.hpp"
#include "support/ends.hpp"
#include "support/scratch.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

using testing::contains, testing::words_of;

namespace {

using kolo::kind;
using kolo::simulate::graph;
using nlohmann::json;

graph uneven() {
  graph g = graph::torus({2, 3}, {.latency = 1e-6, .overhead = 0, .gap = 2e-7, .seconds_per_byte = 1e-10});
  g.remove(0, 1).link(2, 5, {.latency = 3e-6, .overhead = 1e-7, .seconds_per_byte = 1e-9});
  g.seconds_per_byte_reduced = 1e-11;
  return g;
}

template <class T>
std::string said(const json& j) {
  return words_of<std::exception>([&] { (void)j.get<T>(); });
}

/// Executes a plan of MSCCL++ with numbers in place of chunks: each rank that can proceed does, until none can.
class player {
 public:
  player(const json& plan, const std::vector<std::vector<double>>& at_first)
      : plan_(plan), data_{at_first}, done_(at_first.size()) {
    for (const auto& gpu : plan["gpus"]) scratch_.emplace_back(gpu["scratch_chunks"].get<std::size_t>());
  }
  /// Empty if a rank waits for ever.
  std::vector<std::vector<double>> run() {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t r = 0; r < done_.size(); ++r)
        while (done_[r] < ops(r).size() && play(r, ops(r)[done_[r]])) ++done_[r], moves = true;
    }
    for (std::size_t r = 0; r < done_.size(); ++r)
      if (done_[r] != ops(r).size()) return {};
    return data_;
  }

 private:
  const json& block(std::size_t r) const { return plan_["gpus"][r]["threadblocks"][0]; }
  const json& ops(std::size_t r) const { return block(r)["ops"]; }
  std::size_t peer(std::size_t r, const json& op) const {
    const std::size_t channel = block(r)["channels"][0]["channel_ids"][op["channel_ids"][0].get<std::size_t>()];
    return plan_["gpus"][r]["channels"][0]["connected_to"][channel];
  }
  double& chunk(std::size_t r, const json& buffer, std::size_t i) {
    const std::size_t index = buffer["index"].get<std::size_t>() + i;
    std::string type = buffer.value("type", "");
    if (buffer.contains("buffer_id")) {
      const std::size_t id =
          block(r)["remote_buffer_refs"][0]["remote_buffer_ids"][buffer["buffer_id"].get<std::size_t>()];
      const auto& remote = plan_["gpus"][r]["remote_buffers"][id];
      type = remote["type"];
      r = remote["rank"];
    }
    return type == "s" ? scratch_[r].at(index) : data_[r].at(index);
  }
  bool play(std::size_t r, const json& op) {
    const std::string name = op["name"];
    if (name == "signal") ++raised_[{r, peer(r, op)}];
    if (name == "wait" && raised_[{peer(r, op), r}]-- == 0) return raised_[{peer(r, op), r}] = 0, false;
    if (name != "put" && name != "re") return true;
    const auto& from = op["src_buff"];
    for (std::size_t i = 0; i < from[0]["size"].get<std::size_t>(); ++i)
      chunk(r, op["dst_buff"][0], i) = chunk(r, from[0], i) + (name == "re" ? chunk(r, from[1], i) : 0);
    return true;
  }

  json plan_;
  std::vector<std::vector<double>> data_, scratch_{};
  std::vector<std::size_t> done_;
  std::map<std::pair<std::size_t, std::size_t>, int> raised_{};
};

/// The fields of a message of protocol buffers: number, value, bytes.
std::vector<std::tuple<int, std::uint64_t, std::string_view>> fields_of(std::string_view bytes) {
  std::vector<std::tuple<int, std::uint64_t, std::string_view>> all;
  const auto varint = [&] {
    std::uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(0));
      bytes.remove_prefix(1);
      v |= std::uint64_t{byte & 127u} << shift;
      if (byte < 128) return v;
    }
  };
  while (!bytes.empty()) {
    const std::uint64_t tag = varint(), value = varint();
    REQUIRE((tag % 8 == 0 || tag % 8 == 2));
    all.emplace_back(static_cast<int>(tag >> 3), value, tag % 8 == 2 ? bytes.substr(0, value) : "");
    if (tag % 8 == 2) bytes.remove_prefix(value);
  }
  return all;
}

struct trace_node {
  std::uint64_t id = 0, type = 0;
  std::vector<std::uint64_t> after{};
  std::map<std::string, std::uint64_t> attributes{};
};
std::vector<trace_node> nodes_of(const std::string& trace) {
  std::vector<trace_node> all;
  std::string_view rest = trace;
  for (bool head = true; !rest.empty(); head = false) {
    std::size_t length = 0, used = 0;
    do length |= std::size_t{static_cast<unsigned char>(rest.at(used)) & 127u} << (7 * used);
    while (static_cast<unsigned char>(rest.at(used++)) >= 128);
    const auto message = fields_of(rest.substr(used, length));
    rest.remove_prefix(used + length);
    if (head) {
      CHECK(std::get<2>(message.at(0)) == "0.0.4");
      continue;
    }
    trace_node n;
    for (const auto& [field, value, bytes] : message) {
      if (field == 1) n.id = value;
      if (field == 3) n.type = value;
      if (field == 5) n.after.push_back(value);
      if (field != 10) continue;
      const auto attribute = fields_of(bytes);
      n.attributes[std::string{std::get<2>(attribute.at(0))}] = std::get<1>(attribute.at(1));
    }
    all.push_back(n);
  }
  return all;
}

}  // namespace

TEST_CASE("a graph is equal after writing and reading, and an error is reported") {
  const graph g = uneven();
  const auto back = json::parse(json(g).dump()).get<graph>();
  CHECK((back.ranks() == 6 && back.edges().size() == g.edges().size() && json(back) == json(g)));
  CHECK(kolo::cut_bound(kind::allgather, back, 1 << 20) == kolo::cut_bound(kind::allgather, g, 1 << 20));
  const auto star = json::parse(R"({"ranks": 2, "switches": 1, "origin": "a page", "links": [
      {"between": [0, 2], "latency": 1e-6}, {"from": 1, "to": 2}, {"from": 2, "to": 1, "gap": 3}]})")
                        .get<graph>();
  CHECK((star.edges().size() == 4 && star.is_switch(2) && star.edges()[3].times.gap == 3));
  CHECK(contains(said<graph>({{"ranks", 2}, {"links", {{{"between", {0, 1}}, {"speed", 1}}}}}), "has no \"speed\""));
  CHECK(contains(said<graph>({{"ranks", 2}, {"links", {{{"between", {0, 2}}}}}}), "a link joins two ranks"));
  CHECK(contains(said<graph>({{"ranks", -2}, {"links", json::array()}}), "a whole number"));
  CHECK(contains(said<graph>({{"ranks", 2}, {"links", {{{"between", 3}}}}}), "a link is between two"));
  CHECK(contains(said<graph>({{"ranks", 2}, {"links", {{{"from", 0}}}}}), "\"to\" is needed"));
  CHECK(contains(said<graph>({{"ranks", 2}}), "\"links\" is needed"));
  CHECK(contains(said<graph>({{"ranks", 2}, {"links", json::object()}}), "the links of a graph are a list, not {}"));
  CHECK(
      contains(said<graph>({{"ranks", 2147483647}, {"switches", 2147483647}, {"links", json::array()}}), "2^29 ranks"));
}

TEST_CASE("a schedule is equal after writing and reading, and is proven when it is read") {
  const auto mine = kolo::synthesize(kind::allreduce, uneven(), 1 << 16);
  CHECK(json::parse(json(mine).dump()).get<kolo::schedule_table>() == mine.table());
  const testing::scratch_directory scratch;
  const auto path = scratch / "schedule.json";
  std::ofstream{path} << json(mine);
  CHECK(kolo::read_schedule(path).table() == mine.table());
  auto short_one = mine.table();
  short_one.messages.pop_back();
  std::ofstream{path} << json(short_one);
  const auto why = words_of<std::invalid_argument>([&] { (void)kolo::read_schedule(path); });
  CHECK((contains(why, path.c_str()) && contains(why, "block")));
  json j = mine;
  j["messages"] = json::object();
  CHECK(contains(said<kolo::schedule_table>(j), "the messages of a schedule are a list, not {}"));
  j = mine;
  j["messages"][0] = {1, 2, 3};
  CHECK(contains(said<kolo::schedule_table>(j), "a message is [round"));
  j["messages"][0] = {0, 1, 2, 0, 1, "somehow"};
  CHECK(contains(said<kolo::schedule_table>(j), "there is no arrival called \"somehow\""));
  j["messages"][0].back() = 2;
  CHECK(contains(said<kolo::schedule_table>(j), "there is no arrival called 2"));
  j["collective"] = "gossip";
  CHECK(contains(said<kolo::schedule_table>(j), "no collective called \"gossip\""));
  j["collective"] = 3;
  CHECK(contains(said<kolo::schedule_table>(j), "no collective called 3"));
}

TEST_CASE("a plan for MSCCL++, when executed, does what the schedule does") {
  for (const kind k : {kind::allreduce, kind::reduce_scatter, kind::allgather, kind::broadcast}) {
    const auto mine = kolo::synthesize(k, uneven(), 1 << 16, k == kind::broadcast ? 4 : 0);
    const int p = 6, blocks = mine.table().blocks, each = blocks / p;
    const json plan = kolo::mscclpp_plan(mine, "mine");
    std::vector<std::vector<double>> at_first;
    for (int r = 0; r < p; ++r) {
      at_first.emplace_back();
      for (int b = 0; b < blocks; ++b)
        at_first.back().push_back(k != kind::allgather || b / each == r ? (1 << r) + 64.0 * b : -1e9);
    }
    const auto at_last = player{plan, at_first}.run();
    INFO(kolo::name(k));
    REQUIRE(at_last.size() == 6);
    int wrong = 0;
    for (int r = 0; r < p; ++r)
      for (int b = 0; b < blocks; ++b) {
        const bool is_mine = k != kind::reduce_scatter || b / each == r;
        const double whole = k == kind::allgather   ? (1 << (b / each)) + 64.0 * b
                             : k == kind::broadcast ? 16 + 64.0 * b
                                                    : 63 + 6 * 64.0 * b;
        wrong += is_mine && at_last[static_cast<std::size_t>(r)][static_cast<std::size_t>(b)] != whole;
      }
    CHECK(wrong == 0);
    CHECK(plan["gpus"][5]["output_chunks"] == (k == kind::reduce_scatter ? each : blocks));
  }
  CHECK_THROWS_AS(kolo::mscclpp_plan(kolo::synthesize(kind::reduce, uneven(), 1 << 16), "x"), std::invalid_argument);
}

TEST_CASE("a Chakra trace has each message at both ends, and nothing begins before the data it needs is there") {
  const auto mine = kolo::synthesize(kind::allreduce, uneven(), 1 << 16);
  constexpr std::size_t bytes = 1000;
  std::map<std::uint64_t, std::vector<std::uint64_t>> sent, received;  // by tag: from, to, bytes
  for (int r = 0; r < 6; ++r) {
    std::uint64_t last = 0;
    std::size_t combined = 0, at_once = 0, before_any_came = 0;
    for (const trace_node& n : nodes_of(kolo::chakra_trace(mine, r, bytes))) {
      CHECK(n.id == ++last);
      for (const std::uint64_t before : n.after) CHECK(before < n.id);
      CHECK(n.attributes.at("is_cpu_op") == 0);
      at_once += n.after.empty();
      combined += n.type == 4;
      if (n.type == 4) continue;
      const auto& a = n.attributes;
      CHECK(a.at(n.type == 5 ? "comm_src" : "comm_dst") == static_cast<unsigned>(r));
      (n.type == 5 ? sent : received)[a.at("comm_tag")] = {a.at("comm_src"), a.at("comm_dst"), a.at("comm_size")};
    }
    std::size_t to_combine = 0;
    for (const auto& m : mine.table().messages) to_combine += m.to == r && m.then != kolo::arrival::replace;
    CHECK(combined == to_combine);
    int first = mine.table().rounds;
    for (const auto& m : mine.table().messages) first = m.to == r ? std::min(first, m.round) : first;
    for (const auto& m : mine.table().messages) before_any_came += m.round <= first && (m.from == r || m.to == r);
    CHECK(at_once == before_any_came);
  }
  CHECK((sent == received && sent.size() == mine.table().messages.size()));
}

TEST_CASE("the source of a schedule is C++ in every locale: no digits are grouped") {
  struct grouped : std::numpunct<char> {
    char do_thousands_sep() const override { return ','; }
    std::string do_grouping() const override { return "\1"; }
  };
  const auto mine = kolo::synthesize(kind::allgather, uneven(), 1 << 16);
  const auto text = kolo::as_source(mine, "mine");
  const std::locale before = std::locale::global(std::locale{std::locale::classic(), new grouped});
  const auto here = kolo::as_source(mine, "mine");
  std::locale::global(before);
  CHECK(here == text);
}

TEST_CASE("the source of a schedule contains its collective, ranks and root") {
  const auto text = kolo::as_source(kolo::synthesize(kind::broadcast, uneven(), 1 << 16, 2), "from_two");
  for (const char* part : {"struct from_two {", "kolo::kind::broadcast", "p == 6 && root == 2", "int root = 2;"})
    CHECK(contains(text, part));
}
