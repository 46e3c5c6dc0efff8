// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The variants of the exchange of gradients: in which buckets, and when.
#pragma once

#include "settings.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace synthetic {

/// `moments` are the names.
enum class moment {
  after,   ///< after the backward pass
  during,  ///< during it, by calls of progress() from the computing thread
  helper   ///< during it, by a helper thread of each rank
};

struct way {
  moment when = moment::after;
  std::string cut = "planned";  ///< one of `cuts`: buckets as planned by the optimizer, one per tensor, or one for all
};

/// The optimizer's option bucket_bytes for this variant.
inline std::size_t cap_of(const way& w, const settings& s) {
  if (w.cut == "tensor") return 1;
  if (w.cut == "one") return ~std::size_t{0} / 2;
  return s.bucket_bytes;
}

/// Every combination of the settings' moments and cuts.
inline std::vector<way> ways_of(const settings& s) {
  std::vector<way> all;
  for (const moment m : {moment::after, moment::during, moment::helper})
    for (const auto& cut : s.cuts)
      if (std::find(s.moments.begin(), s.moments.end(), moments[int(m)]) != s.moments.end()) all.push_back({m, cut});
  return all;
}

}  // namespace synthetic
