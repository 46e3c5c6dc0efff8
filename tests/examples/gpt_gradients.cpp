// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The small GPT's backward pass compared with differences of its loss, in double precision, for every parameter; and ring attention.
#include "../../examples/gpt/model.hpp"
#include "../../examples/gpt/ring_attention.hpp"

#include <kolo/launch/threads.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

namespace {

constexpr gpt::shape tiny{.words = 7, .places = 4, .width = 6, .heads = 2, .layers = 2};
const std::vector<int> tokens{1, 4, 2, 2, 0, 6, 3, 5}, targets{4, 2, 2, 0, 6, 3, 5, 1};

/// Values that are neither zero nor one, so that no term of a derivative vanishes.
void stir(gpt::model<double>& m) {
  digits::random_numbers random{3};
  for (auto& p : m.parameters())
    for (double& x : p.value) x += 0.3 * double(random.normal());
}

}  // namespace

TEST_CASE("GPT: every gradient is the slope of the loss") {
  gpt::model<double> m{tiny, 1};
  stir(m);
  std::vector<std::size_t> order;
  const double loss = m.backward(tokens, targets, [&](std::size_t i) { order.push_back(i); });
  CHECK(loss == Approx(m.loss(tokens, targets)));
  const auto parameters = m.parameters();
  REQUIRE(order.size() == parameters.size());
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == order.size() - 1 - i);
  for (const auto& p : parameters) {
    double furthest = 0, largest = 0;
    for (std::size_t i = 0; i < p.value.size(); ++i) {
      const double before = p.value[i], step = 1e-5;
      p.value[i] = before + step;
      const double above = m.loss(tokens, targets);
      p.value[i] = before - step;
      const double below = m.loss(tokens, targets);
      p.value[i] = before;
      furthest = std::max(furthest, std::abs((above - below) / (2 * step) - p.gradient[i]));
      largest = std::max(largest, std::abs(p.gradient[i]));
    }
    INFO(p.name << ": largest slope " << largest << ", largest difference " << furthest);
    CHECK(furthest < 1e-8);
    CHECK(largest > 1e-4);
  }
}

TEST_CASE("GPT: a token's output does not depend on later tokens") {
  gpt::model<double> m{tiny, 1};
  stir(m);
  const auto before = m.logits(std::vector{1, 4, 2, 2}), after = m.logits(std::vector{1, 4, 5, 0}),
             alone = m.logits(std::vector{1, 4});
  CHECK((before.leftCols(2) - after.leftCols(2)).norm() == 0);
  CHECK((before.leftCols(2) - alone).norm() < 1e-12);
  CHECK((before.rightCols(2) - after.rightCols(2)).norm() > 0.01);
}

TEST_CASE("GPT: ring attention gives the outputs and gradients of whole sequences") {
  constexpr Eigen::Index width = 6, heads = 2, length = 12, sequences = 2;
  digits::random_numbers random{5};
  const auto drawn =
      [&](Eigen::Index rows) {  // scores far apart, so that a query's largest one changes from block to block
        return gpt::matrix<double>::NullaryExpr(rows, length * sequences, [&] { return 3 * double(random.normal()); })
            .eval();
      };
  const gpt::matrix<double> qkv = drawn(3 * width), dy = drawn(width);
  const auto with = [&](auto&& attention, const gpt::matrix<double>& in, const gpt::matrix<double>& d) {
    attention.heads = heads, attention.length = in.cols() / sequences;
    gpt::matrix<double> all(4 * width, in.cols());
    all.topRows(width) = attention.forward(in);
    all.bottomRows(3 * width) = attention.backward(d);
    return all;
  };
  const gpt::matrix<double> whole = with(gpt::whole_attention<double>{}, qkv, dy);

  for (const int p : {1, 2, 3, 4}) {
    std::vector<double> off(std::size_t(p), 1.0);
    kolo::threads::run(p, [&](kolo::threads::communicator& comm) {
      struct {
        kolo::threads::communicator& comm;
        auto& call() { return comm; }
      } ranks{comm};
      const auto mine = [&](const gpt::matrix<double>& m) {  // this rank's part of each sequence
        gpt::matrix<double> part(m.rows(), m.cols() / p);
        for (Eigen::Index s = 0, n = length / p; s < sequences; ++s)
          part.middleCols(s * n, n) = m.middleCols(s * length + comm.rank() * n, n);
        return part;
      };
      const auto ours = with(gpt::ring_attention<double, decltype(ranks)>{ranks}, mine(qkv), mine(dy));
      off[std::size_t(comm.rank())] = (ours - mine(whole)).cwiseAbs().maxCoeff();
    });
    for (const double o : off) CHECK(o < 1e-12 * whole.cwiseAbs().maxCoeff());
  }
}
