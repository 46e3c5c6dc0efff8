// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides which gradients are exchanged together, and in which order: once, before the first step, and alike on every
// rank.
#pragma once

#include <kolo/core/error.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/select/choose.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// Buckets in the order in which they are exchanged. A bucket is a view of its gradients, where they lie; `is_packed`
/// where packing them was measured to be faster.
struct bucket_plan {
  /// One bucket: which parameters, how many elements, of how many bytes each.
  struct one {
    std::vector<std::size_t> parameters{};  ///< by index, in the order in which they stand in the bucket
    std::size_t elements = 0;               ///< of all its gradients
    std::size_t element_bytes = 1;          ///< of one
    std::size_t range = 0;                  ///< of `mixed_parameters`: which of its ranges
    bool is_packed = false;  ///< gradients of this rank are copied together to travel, being many and tiny
  };
  std::vector<one> buckets{};        ///< the first is exchanged first
  std::vector<std::string> names{};  ///< of all parameters
  std::size_t cap_bytes = 0;         ///< that was asked for, or chosen

  std::string message() const;  ///< the buckets in lines, as `std::cout << plan` has them
};

namespace detail::train {

/// Rules that decide where the gradients' buckets end.
struct bucket_rules {
  std::size_t cap_bytes = 0;                       ///< no bucket is longer, but for a tensor that alone is
  std::vector<std::vector<std::size_t>> groups{};  ///< parameters that are exchanged together, whatever their size
};

constexpr std::size_t not_planned = ~std::size_t{0};

struct planned_tensor {
  std::size_t elements = not_planned, element_bytes = 1, range = 0;
};

/// Which group each parameter is in; `not_planned`: none.
[[gnu::cold]] inline std::vector<std::size_t> groups_of(std::span<const planned_tensor> tensors,
                                                        const bucket_rules& rules) {
  std::vector<std::size_t> group_of(tensors.size(), not_planned);
  for (std::size_t g = 0; g < rules.groups.size(); ++g)
    for (const std::size_t i : rules.groups[g]) {
      const std::string who = "group " + std::to_string(g) + " names parameter " + std::to_string(i);
      if (i >= tensors.size() || tensors[i].elements == not_planned || group_of[i] != not_planned)
        throw error{errc::invalid_argument, who + ", which is not exchanged in a bucket, or is in a group already"};
      if (tensors[i].range != tensors[rules.groups[g].front()].range)
        throw error{errc::invalid_argument, who + ", whose element type is not that of the group's first"};
      group_of[i] = g;
    }
  return group_of;
}

/// Last first, since the backward pass knows the last layer's gradients first. A new bucket begins where the cap would
/// be passed, and where the elements are of another type. A group is a bucket by itself, in the place of the parameter
/// of it that comes first. Errors: `invalid_argument` for a group that names no parameter, one that is not planned or
/// in a group already, or two element types.
[[gnu::cold]] inline bucket_plan plan_buckets(std::span<const planned_tensor> tensors, const bucket_rules& rules) {
  const std::vector<std::size_t> group_of = groups_of(tensors, rules);
  bucket_plan plan{.cap_bytes = rules.cap_bytes};
  std::vector<std::size_t> bucket_of(rules.groups.size(), not_planned);
  std::size_t open = not_planned;  // the bucket that may still grow
  for (std::size_t i = tensors.size(); i-- > 0;) {
    const planned_tensor& t = tensors[i];
    if (t.elements == not_planned) continue;
    const bool is_grouped = group_of[i] != not_planned;
    std::size_t& into = is_grouped ? bucket_of[group_of[i]] : open;
    const auto ends = [&](const bucket_plan::one& b) {
      return b.range != t.range || (b.elements + t.elements) * t.element_bytes > rules.cap_bytes;
    };
    if (into == not_planned || (!is_grouped && ends(plan.buckets[into])))
      into = plan.buckets.size(), plan.buckets.push_back({.element_bytes = t.element_bytes, .range = t.range});
    plan.buckets[into].parameters.push_back(i);
    plan.buckets[into].elements += t.elements;
  }
  return plan;
}

/// The least power of two, from 1 MiB on, whose predicted time per byte is at most 10 % above that of the best length,
/// up to the length of all gradients. So bucketing costs less than a tenth even where the backward pass hides nothing.
/// Uses the table that also chooses the algorithm, so it is alike on every rank, and in every run on this transport.
template <kind K, Transport T>
[[gnu::cold]] std::size_t chosen_cap(const execute::engine<T>& e, std::size_t all_bytes) {
  constexpr std::size_t least = std::size_t{1} << 20;
  if (e.transport.size() == 1 || all_bytes <= least) return std::max(all_bytes, least);
  std::vector<double> per_byte;
  for (std::size_t bytes = least;; bytes *= 2) {
    const select::selection_query q{.collective = K,
                                    .size = e.transport.size(),
                                    .bytes = bytes,
                                    .has_streams = transport::has_streams(e.transport)};
    const auto all = select::candidates_over<K, T>(q.has_streams);
    const select::candidate& fastest = all[select::chosen(all, q, select::fixed_table(e), nullptr)];
    per_byte.push_back(select::predicted(fastest, q, select::fixed_table(e)) / static_cast<double>(bytes));
    if (bytes >= all_bytes) break;
  }
  const double allowed = 1.1 * *std::min_element(per_byte.begin(), per_byte.end());
  std::size_t cap = least;
  for (const double seconds : per_byte) {
    if (seconds <= allowed) break;
    cap *= 2;
  }
  return cap;
}

/// A number that ranks compare: it differs where ranks add different values, or in a different order.
struct digest {
  std::uint64_t value;

  template <class... X>
  void add(const X&... x) {
    ((value = (value ^ static_cast<std::uint64_t>(x)) * 0x9e3779b97f4a7c15u, value ^= value >> 29), ...);
  }
};

/// Identifies a plan: ranks with different plans have different numbers.
[[gnu::cold]] inline digest digest_of(const bucket_plan& plan) {
  digest of{plan.buckets.size()};
  for (const auto& b : plan.buckets) {
    of.add(b.elements, b.element_bytes);
    for (const std::size_t i : b.parameters) of.add(i);
  }
  return of;
}

}  // namespace detail::train

inline std::string bucket_plan::message() const {
  std::string text = std::to_string(buckets.size()) + " buckets of at most " + std::to_string(cap_bytes) + " bytes\n";
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const auto& here = buckets[b];
    text += "  " + std::to_string(b) + ": " + std::to_string(here.elements * here.element_bytes) + " bytes, ";
    text += std::to_string(here.parameters.size()) + " tensors" + (here.is_packed ? ", packed" : "") + ": ";
    const auto name = [&](std::size_t i) { return i < names.size() ? names[i] : "parameter " + std::to_string(i); };
    if (!here.parameters.empty()) text += name(here.parameters.front());
    if (here.parameters.size() > 1) text += " ... " + name(here.parameters.back());
    text += "\n";
  }
  return text;
}

template <class Stream>
  requires requires(Stream& out, const std::string& text) {
    typename Stream::char_type;
    out.write(text.data(), 1);
  }
Stream& operator<<(Stream& out, const bucket_plan& plan) {
  out << plan.message();
  return out;
}

}  // namespace kolo::inline KOLO_ABI
