// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model with different kinds of parameters, and the step of one rank that has all gradients.
#pragma once

#include <kolo/train/parameter.hpp>
#include <kolo/train/update.hpp>

#include "train/model.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace testing {

template <class T>
struct any_parameter {
  std::span<T> value{}, gradient{};
  bool local = false;
  kolo::row_list* rows = nullptr;
};

/// Floats: a bias, a table of 20 x 3 of which each rank touches two rows, one local tensor. Doubles: two tensors.
struct assorted {
  std::vector<float> f[3], of_f[3];
  std::vector<double> d[2], of_d[2];
  kolo::row_list rows{.width = 3};

  assorted() {
    for (std::size_t i = 0; i < 3; ++i) f[i].assign(i == 0 ? 7 : i == 1 ? 60 : 5, 1), of_f[i].assign(f[i].size(), 0);
    for (std::size_t i = 0; i < 2; ++i) d[i].assign(i == 0 ? 11 : 130, 2), of_d[i].assign(d[i].size(), 0);
  }
  std::vector<any_parameter<float>> floats() {
    return {{f[0], of_f[0]}, {f[1], of_f[1], false, &rows}, {f[2], of_f[2], true}};
  }
  std::vector<any_parameter<double>> doubles() { return {{d[0], of_d[0]}, {d[1], of_d[1]}}; }
  auto parameters() { return kolo::mixed_parameters{floats(), doubles()}; }

  /// Sets the gradients to the sums over ranks first ... last - 1, divided by `divisor`; that of the local tensor to rank `own`'s.
  void set(int first, int last, int step, int divisor, int own) {
    for (auto& g : of_f) std::fill(g.begin(), g.end(), 0.0f);
    for (auto& g : of_d) std::fill(g.begin(), g.end(), 0.0);
    rows.touched.clear();
    for (int r = first; r < last; ++r) {
      for (std::size_t i = 0; i < 7; ++i) of_f[0][i] += model::at(r, step, 0, i) / static_cast<float>(divisor);
      for (const std::size_t row : {std::size_t{3}, static_cast<std::size_t>(2 * r + step + 5)}) {
        rows.touched.push_back(row);
        for (std::size_t k = 3 * row; k < 3 * row + 3; ++k)
          of_f[1][k] += model::at(r, step, 1, k) / static_cast<float>(divisor);
      }
      for (std::size_t t = 0; t < 2; ++t)
        for (std::size_t i = 0; i < d[t].size(); ++i)
          of_d[t][i] += static_cast<double>(model::at(r, step, 2, i)) / divisor;
    }
    for (std::size_t i = 0; i < 5; ++i) of_f[2][i] = model::at(own, step, 3, i);
  }
  bool is(const assorted& o) const {
    return f[0] == o.f[0] && f[1] == o.f[1] && f[2] == o.f[2] && d[0] == o.d[0] && d[1] == o.d[1];
  }
};

inline const kolo::update::momentum rule{.rate = 0.5, .factor = 0.5};

/// The step of one rank that has all gradients.
struct alone {
  kolo::replicated<kolo::update::momentum, float> of_floats{rule};
  kolo::replicated<kolo::update::momentum, double> of_doubles{rule};
  void step(std::size_t i, std::span<float> value, std::span<float> gradient) { of_floats.step(i, value, gradient); }
  void step(std::size_t i, std::span<double> value, std::span<double> gradient) { of_doubles.step(i, value, gradient); }
  void step(assorted& a, bool with_local = true) {
    for (std::size_t i = 0; i < (with_local ? 3 : 2); ++i) step(i, std::span{a.f[i]}, std::span{a.of_f[i]});
    for (std::size_t i = 0; i < 2; ++i) step(3 + i, std::span{a.d[i]}, std::span{a.of_d[i]});
  }
};

}  // namespace testing
