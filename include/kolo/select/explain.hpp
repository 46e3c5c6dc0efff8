// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Explains which algorithm the library selects, and why.
#pragma once

#include <kolo/execute/communicator.hpp>
#include <kolo/schedule/family.hpp>
#include <kolo/select/choose.hpp>

#include <cstdio>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// The prediction of `automatic` for one call.
struct explanation {
  /// One candidate.
  struct considered {
    std::string algorithm;     ///< its name
    double seconds = 0;        ///< predicted; 0 if it is not eligible
    std::string remark{};      ///< why it is not eligible, or how it runs
    bool is_admitted = false;  ///< whether it may be chosen for this call
  };
  kind collective{};                     ///< of the call
  int ranks = 0;                         ///< of its communicator
  std::size_t bytes = 0;                 ///< of its vector
  std::vector<considered> candidates{};  ///< fastest first
  std::string choice{};                  ///< the algorithm
  std::string reason{};                  ///< why
  double bound = 0;                      ///< allreduce: least possible seconds if every rank has a core; others: 0

  using printed_by_message = void;  ///< by `<<`: core/text.hpp
  std::string message() const;      ///< as text, a line per candidate, as `std::cout << explanation` prints it
};

/// What the choice depends on besides the length; set it as in the call.
struct explain_options {
  bool commutes = true;  ///< whether the operator commutes
  /// `any` for `ordered<order::any>(automatic{})`, and if the operator is exact, as on integers. With
  /// `fixed_for_any_count`, and with `by_tree` for `order::tree<L>`, the explanation states the cost of that order.
  order allowed = order::fixed_for_size;
  bool ragged = false;    ///< whether the call has counts
  bool converts = false;  ///< whether elements are sent as another type, by `kolo::wire`
  /// Whether the transport's own library supports these elements and this operator, and may be selected. See `native`.
  bool native = true;
};

namespace detail::select {

inline std::string readable(double seconds) {
  char text[32];
  const char* unit = seconds < 1e-3 ? "us" : seconds < 1 ? "ms" : "s";
  std::snprintf(text, sizeof text, "%.4g %s", seconds * (seconds < 1e-3 ? 1e6 : seconds < 1 ? 1e3 : 1), unit);
  return text;
}

inline const char* words_for(pattern p) {
  switch (p) {
    case pattern::one_way: return "one stream";
    case pattern::exchange: return "one exchange, as streams";
    case pattern::there_and_back: return "an exchange whose results go back, as streams";
    default: return "round by round";
  }
}

/// Returns why a candidate is not eligible; null if it is.
inline const char* why_ineligible(const candidate& c, const selection_query& q, const tuning& table) {
  if (!c.is_native) {
    if (q.is_eligible(c)) return nullptr;
    if (!c.supports(q.size)) return "does not support this number of ranks";
    return q.is_ragged && !c.takes_ragged ? "takes equal parts only" : "does not combine in the order of the ranks";
  }
  if (!q.takes_native && q.reduces_in_order())
    return "the transport's own: only for order::any, since its bits are not promised";
  if (!q.takes_native) return "the transport's own: not of these elements by this operator, or not among these ranks";
  if (!q.is_eligible(c))
    return q.knows_bytes() ? "the transport's own: at most 2^31 - 1 bytes"
                           : "the transport's own: ranks do not know all counts";
  return q.native_first || predicted(c, q, table) > 0
             ? nullptr
             : "the transport's own: no time in the table; kolo::fit(comm) measures it";
}

inline explanation explain_choice(std::span<const candidate> all, const selection_query& q, const tuning& fixed,
                                  const tuning* fitted, const char* origin) {
  const tuning& table = deciding(q, fixed, fitted);
  explanation e{.collective = q.collective, .ranks = q.size, .bytes = q.bytes};
  if (q.size == 1) return e.choice = "none", e.reason = "one rank has no peer", e;
  for (const candidate& c : all) {
    const char* const no = why_ineligible(c, q, table);
    explanation::considered one{.algorithm = c.name, .seconds = no ? 0 : predicted(c, q, table), .is_admitted = !no};
    const char* const own = one.seconds > 0 ? "the transport's own collective, chosen where it saves a twentieth"
                                            : "the transport's own collective, which comes first";
    one.remark = no ? no : c.is_native ? own : words_for(q.runs_as(c.of(q.size)));
    e.candidates.push_back(one);
  }
  const std::size_t choice = chosen(all, q, fixed, fitted), alone = fastest(all, q, table);
  e.choice = all[choice].name;
  e.reason = "it has the least time by the " + std::string{&table == fitted ? "table fitted in this run" : origin};
  const explanation::considered& last = e.candidates.back();
  if (all.back().is_native && last.is_admitted && last.seconds < e.candidates[choice].seconds)
    e.reason += ", but for the transport's own, which saves less than a twentieth";
  if (all[choice].is_native && predicted(all[choice], q, table) == 0)
    e.reason = "the transport's own comes first where it knows elements and operator, until it was measured";
  if (choice != alone)
    e.reason = "of those that give the same bits as the fastest by the " + std::string{origin} +
               ", it has the least time by the table fitted in this run";
  if (q.collective == kind::allreduce) e.bound = table.noticed + double(q.bytes) * tuning::at(table.copied, q.bytes);
  std::stable_sort(e.candidates.begin(), e.candidates.end(), [](const auto& a, const auto& b) {
    return a.is_admitted != b.is_admitted ? a.is_admitted : a.seconds < b.seconds;
  });
  return e;
}

/// Adds to the reason what it costs to combine every element by one tree.
inline void add_price(explanation& of_one_tree, const explanation& at_will) {
  const double seconds = of_one_tree.candidates.front().seconds, least = at_will.candidates.front().seconds;
  char factor[32];
  std::snprintf(factor, sizeof factor, "%.3g", least > 0 ? seconds / least : 1);
  of_one_tree.reason = "of those that combine every element by one tree, " + of_one_tree.reason +
                       "; a free choice is " + at_will.choice + ", " + readable(least) +
                       ", so the promise costs a factor of " + factor;
}

template <kind K, Transport T>
explanation explain_kind(const execute::engine<T>& e, std::size_t bytes, const explain_options& o) {
  const std::size_t known = K == kind::alltoall && o.ragged ? 0 : bytes;  // no rank knows how much the others exchange
  const bool keeps_tree =
      schedule::reduces(K) && (o.allowed == order::fixed_for_any_count || o.allowed == order::by_tree);
  const bool may_be_native = o.native && !o.converts &&
                             (!schedule::reduces(K) || o.allowed == order::any ||
                              (o.allowed == order::fixed_for_size && (KeepsOrder<T> || ComesFirst<T>)));
  const execute::choice c{K, o.commutes || !schedule::reduces(K), o.allowed, may_be_native,
                          keeps_tree ? &candidates_of_one_tree<T> : &candidates_in<K, T>};
  const selection_query q = query_of(e, c, least_of_class(size_class(known)), o.ragged, o.converts);
  constexpr bool is_assumed = requires { requires T::assumes_table; };
  const char* const unmeasured =
      "table of an assumed network, which nobody measured: kolo::fit(comm) measures this one";
  const char* const origin = e.named ? "table that the program named"
                             : is_assumed || &fixed_table(e) == &default_tuning::messages ? unmeasured
                                                                                          : "default table";
  auto found = explain_choice(c.candidates(q), q, fixed_table(e), e.fitted.get(), origin);
  if (keeps_tree && q.size > 1) {
    selection_query free = q;
    free.allowed = order::fixed_for_size;
    const auto at_will = explain_choice(candidates_in<K, T>(free), free, fixed_table(e), e.fitted.get(), origin);
    add_price(found, at_will);
  }
  found.bytes = bytes;
  if (K == kind::reduce && !q.commutes && q.size > 1)
    found.choice = "binomial", found.reason =
                                   "an operator that does not commute is reduced at rank 0 by it, whatever it costs, "
                                   "and the result sent on to the root";
  return found;
}

}  // namespace detail::select

inline std::string explanation::message() const {
  std::string text = detail::select::call_text(collective, bytes, ranks) + ": " + choice + ", because " + reason + "\n";
  for (const auto& c : candidates) {
    text += "  " + c.algorithm + std::string(c.algorithm.size() < 20 ? 20 - c.algorithm.size() : 1, ' ');
    text += !c.is_admitted ? "-  " : c.seconds > 0 ? detail::select::readable(c.seconds) + "  " : "not measured  ";
    text += c.remark + "\n";
  }
  if (bound > 0)
    text += "  bound               " + detail::select::readable(bound) +
            "  every input read once, every result written once, a core for every rank\n";
  return text;
}

/// Returns what `automatic` selects in a call of this collective with a vector of `bytes` on the wire (of all parts
/// together if each rank has one), on this communicator: all candidates with their predicted times, the choice and the
/// reason. Not collective: one rank may call it alone. Prints nothing (`message()` returns the text), and a tuning
/// table may still be named afterwards. Errors  invalid_argument: a permutation or a point-to-point call, which have no
/// choice.
explanation explain(const Communicator auto& comm, kind k, std::size_t bytes, const explain_options& o = {}) {
  const auto& e = *comm.engine();
  if (k > kind::barrier)
    detail::core::throw_error(errc::invalid_argument,
                              {"nothing is chosen in a ", name(k), ": it is its own algorithm"});
  explanation found;
  detail::schedule::for_each_kind([&]<kind K>() {
    if (K == k) found = detail::select::explain_kind<K>(e, K == kind::barrier ? 1 : bytes, o);
  });
  return found;
}

}  // namespace kolo::inline KOLO_ABI
