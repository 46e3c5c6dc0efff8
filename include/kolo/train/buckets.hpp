// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans which gradients are exchanged together, and in which order: once, before the first step, equally on every rank.
#pragma once

#include <kolo/core/digest.hpp>
#include <kolo/core/error.hpp>
#include <kolo/execute/calls.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// Buckets in the order of their exchange. A bucket is a view of its gradients in place; or packed (`is_packed`), where
/// that was measured to be faster.
struct bucket_plan {
  /// A bucket: its parameters, the number of elements, the bytes of each.
  struct one {
    std::vector<std::size_t> parameters{};  ///< by index, in their order in the bucket
    std::size_t elements = 0;               ///< of all its gradients
    std::size_t element_bytes = 1;          ///< of one
    std::size_t range = 0;                  ///< the index of its range in `mixed_parameters`
    bool is_packed = false;                 ///< this rank copies its gradients, many and tiny, into one buffer
  };
  std::vector<one> buckets{};        ///< the first is exchanged first
  std::vector<std::string> names{};  ///< of all parameters
  std::size_t cap_bytes = 0;         ///< requested or chosen

  using printed_by_message = void;  ///< by `<<`: core/text.hpp
  std::string message() const;      ///< as text, a line per bucket, as `std::cout << plan` prints it
};

namespace detail::train {

using parameter_groups = std::vector<std::vector<std::size_t>>;

constexpr std::size_t not_planned = ~std::size_t{0};

struct planned_tensor {
  std::size_t elements = not_planned, element_bytes = 1, range = 0;
};

/// Returns the group of each parameter; `not_planned`: none.
[[gnu::cold]] inline std::vector<std::size_t> groups_of(std::span<const planned_tensor> tensors,
                                                        const parameter_groups& groups) {
  std::vector<std::size_t> group_of(tensors.size(), not_planned);
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const std::size_t i : groups[g]) {
      const std::string who = "group " + std::to_string(g) + " names parameter " + std::to_string(i);
      if (i >= tensors.size() || tensors[i].elements == not_planned || group_of[i] != not_planned)
        throw error{errc::invalid_argument, who + ", which is not exchanged in a bucket, or is in a group already"};
      if (tensors[i].range != tensors[groups[g].front()].range)
        throw error{errc::invalid_argument, who + ", whose element type is not that of the group's first"};
      group_of[i] = g;
    }
  return group_of;
}

/// Plans from the last parameter to the first, since the backward pass completes the last layer's gradients first. A
/// new bucket begins where `cap_bytes` would be exceeded or another range of `mixed_parameters` begins. A group is one
/// bucket, at the position of its first member in that order. Errors: `invalid_argument` for a group that names no
/// parameter, one that is not planned or in a group already, or two ranges.
[[gnu::cold]] inline bucket_plan plan_buckets(std::span<const planned_tensor> tensors, std::size_t cap_bytes,
                                              const parameter_groups& groups = {}) {
  const std::vector<std::size_t> group_of = groups_of(tensors, groups);
  bucket_plan plan{.cap_bytes = cap_bytes};
  std::vector<std::size_t> bucket_of(groups.size(), not_planned);
  std::size_t open = not_planned;  // the bucket that may still grow
  for (std::size_t i = tensors.size(); i-- > 0;) {
    const planned_tensor& t = tensors[i];
    if (t.elements == not_planned) continue;
    const bool is_grouped = group_of[i] != not_planned;
    std::size_t& into = is_grouped ? bucket_of[group_of[i]] : open;
    const auto ends = [&](const bucket_plan::one& b) {
      return b.range != t.range || (b.elements + t.elements) * t.element_bytes > cap_bytes;
    };
    if (into == not_planned || (!is_grouped && ends(plan.buckets[into])))
      into = plan.buckets.size(), plan.buckets.push_back({.element_bytes = t.element_bytes, .range = t.range});
    plan.buckets[into].parameters.push_back(i);
    plan.buckets[into].elements += t.elements;
  }
  return plan;
}

/// Returns the least power of two, at least 1 MiB, whose predicted time per byte is at most 10 % above that of the best
/// length, up to the length of all gradients. So bucketing costs less than a tenth even if the backward pass hides
/// nothing. Uses the table that also selects the algorithm, so the result is the same on every rank and in every run on
/// this transport. `candidates`: those of collective k.
template <class T>
[[gnu::cold]] std::size_t chosen_cap(const execute::engine<T>& e, kind k, execute::candidates_fn* candidates,
                                     std::size_t all_bytes);

/// The hash of a plan: ranks with different plans have different hashes.
[[gnu::cold]] inline core::digest digest_of(const bucket_plan& plan) {
  core::digest of{plan.buckets.size()};
  for (const auto& b : plan.buckets) {
    of.add(b.elements, b.element_bytes);
    for (const std::size_t i : b.parameters) of.add(i);
  }
  return of;
}

}  // namespace detail::train

inline std::string bucket_plan::message() const {
  const auto counted = [](std::size_t n, const char* noun) { return std::to_string(n) + noun + (n == 1 ? "" : "s"); };
  std::string text = counted(buckets.size(), " bucket") + " of at most " + std::to_string(cap_bytes) + " bytes\n";
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const auto& here = buckets[b];
    text += "  " + std::to_string(b) + ": " + std::to_string(here.elements * here.element_bytes) + " bytes, ";
    text += counted(here.parameters.size(), " tensor") + (here.is_packed ? ", packed" : "") + ": ";
    const auto name = [&](std::size_t i) { return i < names.size() ? names[i] : "parameter " + std::to_string(i); };
    if (!here.parameters.empty()) text += name(here.parameters.front());
    if (here.parameters.size() > 1) text += " ... " + name(here.parameters.back());
    text += "\n";
  }
  return text;
}

}  // namespace kolo::inline KOLO_ABI
