// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ways in which gradients can be exchanged: in which buckets, and when.
#pragma once

#include "settings.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace synthetic {

/// Named by `moments`.
enum class moment {
  after,   ///< after the backward pass
  during,  ///< during it: by calls of the rank that computes
  helper   ///< during it: by a second thread of each rank
};

struct way {
  moment when = moment::after;
  std::string cut =
      "planned";  ///< one of `cuts`: as the optimizer plans them, a bucket for each tensor, or one for all
};

/// The limit of a bucket's bytes in this way, as the optimizer's options say it.
inline std::size_t cap_of(const way& w, const settings& s) {
  if (w.cut == "tensor") return 1;
  if (w.cut == "one") return ~std::size_t{0} / 2;
  return s.bucket_bytes;
}

/// Every moment that the settings name, in all of the named cuts.
inline std::vector<way> ways_of(const settings& s) {
  std::vector<way> all;
  for (const moment m : {moment::after, moment::during, moment::helper})
    for (const auto& cut : s.cuts)
      if (std::find(s.moments.begin(), s.moments.end(), moments[int(m)]) != s.moments.end()) all.push_back({m, cut});
  return all;
}

}  // namespace synthetic
