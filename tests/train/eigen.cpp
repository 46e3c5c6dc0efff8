// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Eigen matrices as parameters: any shape, one type; a transposed gradient and gaps are refused.
#include "support/catch.hpp"

#if __has_include(<Eigen/Core>)
#include <Eigen/Core>
#elif __has_include(<eigen3/Eigen/Core>)
#include <eigen3/Eigen/Core>
#endif

#ifdef EIGEN_CORE_H
#include <kolo/adapt/eigen.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/state.hpp>

#include "train/model.hpp"

using namespace testing;
using kolo::eigen_parameter;

TEST_CASE("matrices, vectors, maps and columns are parameters of one type") {
  Eigen::Matrix<double, 3, 4> fixed, fixed_gradient;
  Eigen::VectorXd column = Eigen::VectorXd::Zero(5), column_gradient = column;
  Eigen::MatrixXd large(3, 8), large_gradient(3, 8);
  double raw[6] = {};
  Eigen::Map<Eigen::Matrix<double, 2, 3, Eigen::RowMajor>> map{raw}, map_gradient{raw};
  const std::vector all{eigen_parameter{fixed, fixed_gradient, "fixed"}, eigen_parameter{column, column_gradient},
                        eigen_parameter{large.middleCols(2, 4), large_gradient.middleCols(2, 4), "part"},
                        eigen_parameter{map, map_gradient, "map"}};
  STATIC_REQUIRE(kolo::Parameters<const std::vector<eigen_parameter<double>>>);
  STATIC_REQUIRE(kolo::ContiguousView<kolo::view_of<decltype((all[0].value))>>);
  REQUIRE(all[0].value.data() == fixed.data());
  REQUIRE(all[0].gradient.data() == fixed_gradient.data());
  REQUIRE(all[1].value.size() == 5);
  REQUIRE(all[2].value.data() == large.data() + 6);
  REQUIRE(all[2].gradient.size() == 12);
  REQUIRE(all[3].name == "map");
}

TEST_CASE("a transposed gradient and gaps are refused, with the parameter's name") {
  Eigen::MatrixXf weight(3, 4), transposed(4, 3), gradient(3, 4);
  REQUIRE(contains(words_of([&] {
                     eigen_parameter{weight, transposed, "weight"};
                   }),
                   "weight is 3 x 4, but its gradient 4 x 3"));
  REQUIRE(contains(words_of([&] { eigen_parameter{weight.topRows(2), gradient.topRows(2), "top"}; }), "top has gaps"));
  REQUIRE(contains(words_of([&] { eigen_parameter{weight.row(1), gradient.row(1), "row"}; }), "row has gaps"));
  REQUIRE(words_of([&] { eigen_parameter{weight, gradient, "weight"}; }).empty());
  REQUIRE(words_of([&] { eigen_parameter{weight.block(0, 1, 2, 1), gradient.block(0, 1, 2, 1), "column"}; }).empty());
}

TEST_CASE("ranks train matrices on averaged gradients") {
  tally t;
  kolo::threads::run(3, [&](auto& comm) {
    const float own = static_cast<float>(comm.rank());
    Eigen::MatrixXf weight = Eigen::MatrixXf::Constant(4, 3, own),
                    weight_gradient = Eigen::MatrixXf::Constant(4, 3, 3 * own);
    Eigen::VectorXf bias = Eigen::VectorXf::Constant(4, own), bias_gradient = Eigen::VectorXf::Constant(4, own);
    std::vector parameters{eigen_parameter{weight, weight_gradient, "weight"},
                           eigen_parameter{bias, bias_gradient, "bias"}};
    kolo::broadcast_parameters(comm, parameters, 2);
    kolo::distributed_optimizer optimizer{comm, descent{1}, parameters};
    t.expect(contains(optimizer.buckets().message(), "bias ... weight"));
    optimizer.step();
    t.expect(weight == Eigen::MatrixXf::Constant(4, 3, 2 - 3) && bias == Eigen::VectorXf::Constant(4, 2 - 1));
  });
  REQUIRE(t.wrong == 0);
}
#else
TEST_CASE("Eigen is not installed: its adapter is not tested", "[.]") {}
#endif
