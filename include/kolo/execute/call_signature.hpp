// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The signature of a rank's call, in plain bytes that other ranks compare with their own; and the text of a difference.
#pragma once

#include <kolo/core/call_site.hpp>
#include <kolo/core/error.hpp>
#include <kolo/core/text.hpp>
#include <kolo/execute/call_types.hpp>
#include <kolo/execute/collective_args.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kolo::inline KOLO_ABI::detail::execute {

/// The name without the namespaces of this library, and without the `_t` of its operators.
[[gnu::cold, gnu::noinline]] inline std::string short_name(std::string_view type) {
  std::string name{type};
  std::size_t at;
  for (const std::string_view prefix : {"v0::", "v0_compiled::", "(anonymous namespace)::", "{anonymous}::"})
    while ((at = name.find(prefix)) != std::string::npos) name.erase(at, prefix.size());
  const std::string_view room = "kolo::detail::", all = "kolo::";
  while ((at = name.find(room)) != std::string::npos) name.erase(at, name.find("::", at + room.size()) + 2 - at);
  while ((at = name.find(all)) != std::string::npos) name.erase(at, all.size());
  if (name.ends_with("_t")) name.resize(name.size() - 2);
  return name;
}

/// Names are for error texts; only numbers are compared.
struct call_signature {
  fixed_text<16> collective{};
  fixed_text<32> element{}, op{}, algorithm{};  ///< empty: it has none
  fixed_text<28> file{};
  std::int32_t line = 0, root = -1, tag = -1;                                       ///< root, tag -1: it has none
  std::uint32_t element_hash = 0, op_hash = 0, algorithm_hash = 0, shape_hash = 0;  ///< shape: of the schedule
  std::uint64_t count = 0, counts_hash = 0;  ///< elements, of the vector or of a part; ragged: of all parts
  std::uint64_t sequence = 0;
  std::uint32_t owner = 0;     ///< the optimizer that makes the call, numbered in the order of creation
  std::uint32_t map_hash = 0;  ///< of a permutation: the destination of each rank

  call_signature() = default;
  explicit call_signature(const call_site& site) : line{site.line} {
    const std::string_view path = site.file;
    file = path.substr(path.rfind('/') + 1);
  }
};

template <std::size_t N>
void sign_type(const named_type& type, fixed_text<N>& name, std::uint32_t& hash) {
  if (type.name.empty()) return;
  name = short_name(type.name);
  hash = type.hash;
}
inline void sign_numbers(call_signature& r, const collective_args& args, int size) {
  const auto k = args.collective;
  if (core::has_root(k)) r.root = std::max(args.root, args.schedule.root);
  r.shape_hash = args.schedule.shape();
  if (k == kind::permutation) r.map_hash = args.fingerprint;
  if (core::is_point_to_point(k)) r.tag = std::int32_t(args.tag >> 32);
  r.count = args.is_empty ? 0 : args.count;
  if (!args.send_counts || k == kind::alltoall) return;  // each rank has counts of its own
  r.count = 0;
  for (int i = 0; i < size; ++i) {
    r.count += args.send_counts[i];
    r.counts_hash = (r.counts_hash ^ args.send_counts[i]) * 1099511628211u + 1;
  }
}

/// The signature that other ranks compare.
[[gnu::cold, gnu::noinline]] inline call_signature signature_of(const call_types& types, const collective_args& args,
                                                                int size, call_site site) {
  call_signature r{site};
  sign_type(types.element, r.element, r.element_hash);
  sign_type(types.op, r.op, r.op_hash);
  sign_type(types.algorithm, r.algorithm, r.algorithm_hash);
  sign_numbers(r, args, size);
  return r;
}

/// The coarsest difference; null: none in anything that all ranks must agree on.
inline const char* difference(const call_signature& a, const call_signature& b) {
  if (std::string_view{a.collective} != std::string_view{b.collective}) return "the collective differs";
  if (a.element_hash != b.element_hash) return "the type differs";
  if (a.count != b.count) return "the count differs";
  if (a.counts_hash != b.counts_hash) return "the counts differ";
  if (a.op_hash != b.op_hash) return "the operator differs";
  if (a.tag != b.tag) return "the tag differs";
  if (a.root != b.root) return "the root differs";
  if (a.algorithm_hash != b.algorithm_hash) return "the algorithm differs";
  if (a.owner != b.owner) return "the optimizer differs";
  if (a.map_hash != b.map_hash) return "the distance or map differs";
  return a.shape_hash != b.shape_hash ? "the algorithm's parameters differ" : nullptr;
}

/// "allreduce of 10 int, sum, at train.cpp:12".
[[gnu::cold, gnu::noinline]] inline std::string words_for(const call_signature& r, std::string_view differs) {
  std::string text{std::string_view{r.collective}};
  const std::string_view element = r.element, op = r.op;
  constexpr std::size_t longest = 20;  // of a name, so that both signatures fit into a failure's text
  if (!element.empty()) core::append_words(text, {" of ", r.count, " ", element.substr(0, longest)});
  if (!op.empty()) core::append_words(text, {", ", op.substr(0, longest)});
  if (r.root >= 0) core::append_words(text, {", root ", r.root});
  if (r.tag > 0) core::append_words(text, {", tag ", r.tag});
  if (differs.starts_with("the algorithm")) core::append_words(text, {", by ", std::string_view{r.algorithm}});
  if (differs == "the optimizer differs") core::append_words(text, {", for optimizer ", r.owner});
  core::append_words(text, {", at ", std::string_view{r.file}, ":", r.line});
  return text;
}

/// The same words on every rank.
[[gnu::cold, gnu::noinline]] inline failure disagreement(const call_signature& first, int first_rank,
                                                         const call_signature& other, int other_rank,
                                                         const char* differs) {
  return {.code = errc::mismatch,
          .rank = first_rank,
          .peer = other_rank,
          .sequence = first.sequence,
          .operation = first.collective,
          .text = core::text_of({differs, ": rank ", first_rank, " calls ", words_for(first, differs), "; rank ",
                                 other_rank, " calls ", words_for(other, differs)})};
}

}  // namespace kolo::inline KOLO_ABI::detail::execute
