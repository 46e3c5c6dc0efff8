// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables and networks are equal after writing to JSON and reading, and an error in a file is reported.
#include <kolo/adapt/json.hpp>

#include "support/catch.hpp"
#include "support/ends.hpp"

#include <cstdio>
#include <fstream>
#include <string>

using namespace kolo;
using nlohmann::json;
using testing::words_of;

namespace {

/// The error about this text; empty if it is read.
template <class T>
std::string said(const char* text) {
  return words_of<std::invalid_argument>([&] { (void)json::parse(text).get<T>(); });
}

/// Its numbers are distinct.
simulate::described_network network_of_many_numbers() {
  return {{.latency = 0.1,
           .overhead = 1.0 / 3,
           .gap = 3,
           .seconds_per_byte = 4e-10,
           .seconds_per_byte_reduced = 5,
           .ranks_per_node = 6,
           .inside = {7, 8e-300, 9, 10},
           .cards_per_node = 11,
           .noise = 12,
           .seed = ~std::uint64_t{13}},
          {{14, 1.5}, {16, 17}}};
}

}  // namespace

TEST_CASE("a network is equal after writing and reading") {
  const auto n = network_of_many_numbers();
  const auto back = json::parse(json(n).dump()).get<simulate::described_network>();
  const simulate::network a = n, b = back;
  CHECK((a.latency == b.latency && a.overhead == b.overhead && a.gap == b.gap &&
         a.seconds_per_byte == b.seconds_per_byte));
  CHECK((a.seconds_per_byte_reduced == b.seconds_per_byte_reduced && a.ranks_per_node == b.ranks_per_node));
  CHECK((a.cards_per_node == b.cards_per_node && a.noise == b.noise && a.seed == b.seed));
  CHECK((a.inside.latency == b.inside.latency && a.inside.overhead == b.inside.overhead));
  CHECK((a.inside.gap == b.inside.gap && a.inside.seconds_per_byte == b.inside.seconds_per_byte));
  REQUIRE(b.stragglers.size() == 2);
  CHECK((b.stragglers.data() == back.stragglers.data() && b.stragglers[1].rank == 16 && b.stragglers[1].factor == 17));
  CHECK(json(a) == json(n));
  CHECK(json(n.numbers).get<simulate::network>().cards_per_node == 11);
}

TEST_CASE("fields that a network omits have their default values") {
  CHECK(json(json::parse(R"({"origin": "a guess"})").get<simulate::network>()) == json(simulate::network{}));
  const auto n = json::parse(R"({"latency": 1, "inside": {"gap": 2}})").get<simulate::network>();
  CHECK((n.latency == 1 && n.overhead == simulate::network{}.overhead && n.inside.gap == 2));
  CHECK((n.inside.latency == simulate::link{}.latency && n.ranks_per_node == 0 && n.stragglers.empty()));
}

TEST_CASE("an error in a network is reported") {
  using simulate::network, simulate::described_network;
  CHECK(said<network>(R"({"latncy": 1})") ==
        "kolo: a network has no \"latncy\"; it has latency, overhead, gap, seconds_per_byte, seconds_per_byte_reduced, "
        "ranks_per_node, "
        "cards_per_node, noise, seed, inside, stragglers");
  CHECK(said<network>(R"({"inside": {"noise": 1}})") ==
        "kolo: a link has no \"noise\"; it has latency, overhead, gap, seconds_per_byte");
  CHECK(said<network>(R"({"inside": 1})") == "kolo: a link is an object, not 1");
  CHECK(said<network>(R"({"latency": "2 us"})") == "kolo: a network's \"latency\" is a number, not \"2 us\"");
  CHECK(said<network>(R"({"ranks_per_node": 8.5})") ==
        "kolo: a network's \"ranks_per_node\" is a whole number from 0 to 2147483647, not 8.5");
  CHECK(said<network>(R"({"cards_per_node": 4294967297})").find("from 0 to 2147483647") != std::string::npos);
  CHECK(said<network>(R"({"seed": -1})") ==
        "kolo: a network's \"seed\" is a whole number from 0 to 18446744073709551615, not -1");
  CHECK(said<network>(R"([1, 2])") == "kolo: a network is an object, not [1,2]");
  CHECK(said<network>(R"({"stragglers": []})") ==
        "kolo: a network does not own its stragglers: read a described_network");
  CHECK(said<described_network>(R"({"stragglers": {"rank": 1}})") ==
        "kolo: a network's \"stragglers\" are a list, not {\"rank\":1}");
  CHECK(said<described_network>(R"({"stragglers": [{"rank": 1, "factors": 2}]})") ==
        "kolo: a straggler has no \"factors\"; it has rank, factor");
}

TEST_CASE("an error in a file is reported with the file's name") {
  const auto read = [](const std::string& path) {
    return words_of<std::invalid_argument>([&] { (void)simulate::read_network(path); });
  };
  CHECK(read("/nowhere/at/all.json") == "kolo: /nowhere/at/all.json cannot be read");
  const std::string path = "adapt_json_test.json";
  const auto write = [&](const char* text) { std::ofstream{path} << text; };
  write(R"({"latency": 1)");
  CHECK(read(path).find(path + ": [json.exception.parse_error") == 0);
  write(R"({"lag": 1})");
  CHECK(read(path).find(path + ": kolo: a network has no \"lag\"") == 0);
  write(R"({"latency": 1e-6})");
  CHECK(read(path) == "");
  std::remove(path.c_str());
}

TEST_CASE("a table is equal after writing and reading") {
  tuning t;
  t.rows[0] = {.ranks = 2, .runs_as = pattern::rounds, .round = 0.1, .message = 0.2};
  t.rows[0].bytes = {1, 2, 3, 4, 5, 6};
  t.rows[0].shared[1] = 1.0 / 3;
  t.rows[1] = {.ranks = 4, .runs_as = pattern::there_and_back, .round = 1e-300};
  t.rows[1].combined = {9, 8, 7, 6, 5, 4};
  t.native[0].ranks = 3;
  t.native[0].seconds[static_cast<std::size_t>(kind::scan)] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1.0 / 3};
  t.copied = {6, 5, 4, 3, 2, 1};
  t.noticed = 1e-7;
  const auto back = json::parse(json(t).dump()).get<tuning>();
  CHECK(json(back) == json(t));
  CHECK((back.rows[0].runs_as == pattern::rounds && back.rows[0].message == 0.2 &&
         back.rows[0].bytes == t.rows[0].bytes && back.rows[0].shared == t.rows[0].shared));
  CHECK((back.rows[1].ranks == 4 && back.rows[1].round == 1e-300 && back.rows[1].combined == t.rows[1].combined));
  CHECK((back.native[0].ranks == 3 && back.native[0].seconds == t.native[0].seconds && back.native[1].ranks == 0));
  CHECK((back.rows[2].ranks == 0 && back.copied == t.copied && back.noticed == 1e-7));
}

TEST_CASE("an error in a table is reported") {
  CHECK(said<tuning>(R"({"rows": [{"ranks": 2, "runs_as": "circles"}]})") ==
        "kolo: a table has no rows for \"circles\"; rounds, one_way, exchange and there_and_back are possible");
  auto many = json{{"rows", json::array()}};
  for (int i = 0; i < 25; ++i) many["rows"].push_back({{"ranks", 2}, {"runs_as", "rounds"}});
  CHECK(said<tuning>(many.dump().c_str()) == "kolo: a table has at most 24 rows");
  CHECK(said<tuning>(R"({"rows": [], "native": [{"ranks": 2, "allredcue": []}]})") ==
        "kolo: a row of a table of native times has no \"allredcue\"; it has ranks, allreduce, reduce_scatter, "
        "allgather, "
        "broadcast, "
        "reduce, gather, scatter, alltoall, scan, exclusive_scan, barrier");
  CHECK(said<tuning>(R"({"rows": [], "native": [{}, {}, {}, {}, {}]})")
            .find("a table of native times has at most 4 rows") != std::string::npos);
  CHECK(said<tuning>(R"({"rows": {}})") == "kolo: the rows of a table are a list, not {}");
  CHECK(said<tuning>(R"({"rows": [], "native": null})") ==
        "kolo: the rows of a table of native times are a list, not null");
  CHECK(said<tuning>("{}") == "kolo: a \"rows\" is needed in {}");
  CHECK(said<tuning>(R"({"rows": [{"ranks": 2}]})") == "kolo: a \"runs_as\" is needed in {\"ranks\":2}");
  const auto about = [](const char* row) {
    return said<tuning>((std::string{R"({"rows": [{"runs_as": "rounds", )"} + row + "}]}").c_str());
  };
  CHECK(about(R"("ranks": 2, "mesage": 1e-6)") ==
        "kolo: a row of a table has no \"mesage\"; it has ranks, round, hop, duplex, message, bytes, shared, combined, "
        "runs_as");
  CHECK(about(R"("ranks": 2.7)") ==
        "kolo: a row of a table's \"ranks\" is a whole number from 0 to 2147483647, not 2.7");
  CHECK(about(R"("ranks": 2, "hop": "2 us")") == "kolo: a row of a table's \"hop\" is a number, not \"2 us\"");
  CHECK(about(R"("hop": 1)") == "kolo: a row of a table says for how many \"ranks\" it is");
  CHECK(about(R"("ranks": 0)") == "kolo: a row of a table says for how many \"ranks\" it is");
  CHECK(about(R"("ranks": 2, "bytes": [1, 2, 3, 4, 5, 6, 7])") ==
        "kolo: a row of a table's \"bytes\" is a list of 6 numbers, not [1,2,3,4,5,6,7]");
  CHECK(about(R"("ranks": 2, "shared": [1, 2])").find("is a list of 6 numbers, not [1,2]") != std::string::npos);
  CHECK(about(R"("ranks": 2, "combined": 1)").find("is a list of 6 numbers, not 1") != std::string::npos);
  CHECK(about(R"("ranks": 2, "bytes": [1, 2, 3, 4, 5, "six"])").find("is a number, not \"six\"") != std::string::npos);
  CHECK(said<tuning>(R"({"rows": [], "native": [{"scan": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}]})") ==
        "kolo: a row of a table of native times says for how many \"ranks\" it is");
  CHECK(
      said<tuning>(R"({"rows": [], "native": [{"ranks": 2, "scan": [1]}]})").find("is a list of 12 numbers, not [1]") !=
      std::string::npos);
  CHECK(said<tuning>(R"({"rows": [], "notice": 1e-7})") ==
        "kolo: a table has no \"notice\"; it has copied, noticed, rows, native");
  CHECK(said<tuning>(R"({"rows": [], "noticed": null})") == "kolo: a table's \"noticed\" is a number, not null");
}

TEST_CASE("the field turn of a row of a table is read as duplex, unless duplex is given too") {
  const auto duplex = [](const char* row) {
    return json::parse(std::string{R"({"origin": "by hand", "rows": [{"ranks": 2, "runs_as": "rounds", )"} + row +
                       "}]}")
        .get<tuning>()
        .rows[0]
        .duplex;
  };
  CHECK(duplex(R"("turn": 1)") == 1);
  CHECK(duplex(R"("turn": 1, "duplex": 2)") == 2);
}
