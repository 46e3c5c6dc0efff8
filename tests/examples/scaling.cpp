// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The scaling study: the parameters of ResNet-50, the overlap model compared with numbers computed by hand, and lower bounds of times.
#include "overlap.hpp"
#include "predict.hpp"
#include "resnet50.hpp"
#include "study.hpp"
#include "which.hpp"

#include "support/catch.hpp"
#include "support/ends.hpp"

#include <stdexcept>
#include <string>

using namespace scaling;
using kolo::kind;
using kolo::simulate::network;

namespace {

constexpr network flat{
    .latency = 8e-6, .overhead = 1e-6, .gap = 1e-6, .seconds_per_byte = 1e-9, .seconds_per_byte_reduced = 1e-10},
    nodes{.latency = 8e-6,
          .overhead = 1e-6,
          .seconds_per_byte = 1e-9,
          .ranks_per_node = 4,
          .inside = {1e-6, 1e-6, 0, 1e-10}},
    cards{.latency = 8e-6,
          .overhead = 1e-6,
          .seconds_per_byte = 1e-9,
          .ranks_per_node = 4,
          .inside = {1e-6, 1e-6, 0, 1e-10},
          .cards_per_node = 2},
    nothing{0, 0, 0, 0, 0, 4, {0, 0, 0, 0}, 1};

void check(double found, double expected) { CHECK(found == Approx(expected).epsilon(1e-12)); }

std::string said(kind k, int ranks, const network& n, const std::string& name) {
  return testing::words_of<std::invalid_argument>([&] { (void)fastest(k, ranks, 8, n, name); });
}

}  // namespace

TEST_CASE("scaling: the parameters of ResNet-50") {
  const auto all = resnet50();
  std::size_t elements = 0;
  double work = 0;
  for (const tensor& t : all) elements += t.elements, work += t.work;
  CHECK(elements == 25'557'032);
  CHECK(all.size() == 161);  // 53 convolutions, each followed by two tensors, and the last layer's two
  CHECK((all[0].elements == 9408 && all[0].work == 118'013'952));
  CHECK((all[159].elements == 2'048'000 && all[160].elements == 1000));
  check(work, 4'089'184'256);
}

TEST_CASE("scaling: buckets take gradients from the last layer to the first") {
  const std::vector<tensor> forward{{10, 1}, {5, 0}, {20, 3}};
  const auto two = buckets_of(forward, 20);
  REQUIRE(two.size() == 2);
  CHECK((two[0].elements == 20 && two[0].ready == 0.75));
  CHECK((two[1].elements == 15 && two[1].ready == 1));
  CHECK(buckets_of(forward, 35).size() == 1);
  CHECK(buckets_of(forward, 24).size() == 2);
  CHECK(buckets_of(forward, 25).front().elements == 25);
  CHECK(buckets_of(forward, 1).size() == 3);
}

TEST_CASE("scaling: exchanges are hidden by the backward pass as far as the overlap says") {
  const std::vector<bucket> two{{1, 0.5}, {1, 1}};
  const auto seconds = [&](double overlap, double exchange) {
    return step_seconds({.forward = 2, .backward = 4, .overlap = overlap}, two,
                        [=](const bucket&) { return exchange; });
  };
  check(seconds(1, 0), 6);
  check(seconds(1, 1), 2 + 5);      // from 2 to 3, hidden, and from 4 to 5
  check(seconds(1, 3), 2 + 8);      // from 2 to 5, and then from 5 to 8
  check(seconds(0.5, 1), 2 + 5);    // from 3 to 4, and from 4 to 5
  check(seconds(0.5, 1.5), 2 + 6);  // from 3 to 4.5, and then to 6
  check(seconds(0, 1), 2 + 4 + 2);  // all of it after the backward pass
  check(seconds(0, 0), 6);
  check(step_seconds({.forward = 2, .backward = 4}, {{1, 0.5}}, [](const bucket&) { return 1.0; }),
        6);  // from 2 to 3, and then nothing
}

TEST_CASE("scaling: a network without cost scales without loss") {
  for (const row& r : predict({}, nothing)) {
    INFO(r.gpus << " GPUs");
    check(r.efficiency, 1);
    check(r.rate, 753.0 * r.gpus);
    CHECK(r.communication == Approx(0).margin(1e-12));
  }
}

TEST_CASE("scaling: without overlap a step is forward, backward and all exchanges; with overlap, less") {
  const study none{.gpus = {8}, .overlap = 0}, full{.gpus = {8}},
      half{.gpus = {8}, .overlap = 0, .wire_bytes = 2, .algorithm = "ring"};
  double exchanges = 0, rings = 0;
  for (const bucket& b : buckets_of(resnet50(), 25 * 1024 * 1024 / 4)) {
    exchanges += fastest(kind::allreduce, 8, 4 * b.elements, cards).seconds;
    rings += fastest(kind::allreduce, 8, 2 * b.elements, cards, "ring").seconds;
  }
  check(predict(none, cards)[0].seconds, 256 / 753.0 + exchanges);
  check(predict(half, cards)[0].seconds, 256 / 753.0 + rings);
  CHECK(predict(full, cards)[0].seconds < 256 / 753.0 + 0.5 * exchanges);
  CHECK(predict(half, cards)[0].algorithms == std::vector<std::string>{"ring"});
}

TEST_CASE("scaling: the lower bound has the values computed by hand") {
  check(bound(kind::allreduce, 4, 1000, flat), 10e-6 + 1.5 * 1000 * 1e-9);
  check(bound(kind::broadcast, 4, 1000, flat), 10e-6 + 1000 * 1e-9);
  check(bound(kind::allgather, 4, 1000, flat), 10e-6 + 750 * 1e-9);
  check(bound(kind::allreduce, 4, 1000, nodes), 3e-6 + 1.5 * 1000 * 1e-10);    // in one node
  check(bound(kind::allreduce, 8, 1'000'000, nodes), 10e-6 + 1e6 * 1e-9 / 4);  // two nodes, one card per rank
  check(bound(kind::allreduce, 8, 1'000'000, cards), 10e-6 + 1e6 * 1e-9 / 2);
  check(bound(kind::allgather, 8, 1'000'000, cards), 10e-6 + 0.5e6 * 1e-9 / 2);
  CHECK(bound(kind::broadcast, 1, 1000, flat) == 0);
}

TEST_CASE("scaling: no algorithm is faster than the lower bound") {
  for (const kind k : {kind::allreduce, kind::broadcast, kind::allgather})
    for (const network* n : {&flat, &nodes, &cards})
      for (const int ranks : {2, 3, 4, 6, 8, 9, 16})
        for (const std::size_t bytes : {4u, 1000u, 100'000u, 10'000'000u}) {
          INFO(kolo::name(k) << ", " << ranks << " ranks, " << bytes << " bytes");
          CHECK(fastest(k, ranks, bytes, *n).seconds >= bound(k, ranks, bytes, *n) * (1 - 1e-9));
        }
}

TEST_CASE("scaling: ranges() has one algorithm for small vectors, and another one for large ones") {
  for (const kind k : {kind::allreduce, kind::broadcast, kind::allgather}) {
    const auto all = ranges(k, 16, flat);
    REQUIRE(all.size() >= (k == kind::allgather ? 1 : 2));  // for allgather one_shot may be the fastest at all sizes
    CHECK((all.front().first.bytes == 4 && all.back().last.bytes == std::size_t{1} << 30));
    for (std::size_t i = 1; i < all.size(); ++i) {
      CHECK(all[i].first.bytes == 2 * all[i - 1].last.bytes);
      CHECK(all[i].algorithm != all[i - 1].algorithm);
    }
    for (const size_range& r : all)
      for (const auto& [bytes, seconds, least] : {r.first, r.last}) {
        const auto anew = fastest(k, 16, bytes, flat);
        CHECK((anew.algorithm == r.algorithm && anew.seconds == seconds && bound(k, 16, bytes, flat) == least));
      }
    const auto& end = all.back().last;
    CHECK(end.seconds == fastest(k, 16, end.bytes, flat).seconds);
    if (all.size() > 1) CHECK(fastest(k, 16, end.bytes, flat, all.front().algorithm).seconds > end.seconds);
  }
}

TEST_CASE("scaling: an unknown or unsupported algorithm is refused") {
  CHECK(said(kind::allreduce, 4, flat, "rign") == "there is no allreduce \"rign\" for this network");
  CHECK(said(kind::allreduce, 4, flat, "two_level<ring, ring>") ==
        "there is no allreduce \"two_level<ring, ring>\" for this network");
  CHECK(said(kind::allreduce, 8, nodes, "two_level<ring, ring>") == "");
  CHECK(said(kind::allgather, 6, flat, "recursive_doubling") == "\"recursive_doubling\" does not support 6 ranks");
  for (const auto& name : algorithms_for(kind::allreduce, nodes)) CHECK(said(kind::allreduce, 8, nodes, name) == "");
}
