// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An allreduce whose elements travel in groups with one scale each (kolo::scaled): for the executor, a group is an
// element.
#pragma once

#include <kolo/collective/call.hpp>
#include <kolo/reduce/scaled.hpp>
#include <kolo/schedule/verify.hpp>
#include <kolo/select/one_tree.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// Whether every message carries the operand of one rank, or the result. Then each block is combined at one owner
/// (two_shot), or by every rank for itself (one_shot). False for a schedule that `verify` rejects. Costs a proof.
template <Schedule S>
  requires(detail::schedule::reduces(S::collective))
constexpr bool reduces_once(const S& schedule, int size) {
  if (size == 1) return true;
  if (!supports(schedule, size)) return false;
  const detail::schedule::erased<S> subject{schedule, size};
  if (detail::schedule::misfit_of(subject)) return false;
  detail::schedule::prover proof{subject};
  return proof.run() && !proof.sends_partial_results();
}

namespace detail::collective {

template <class T>
std::span<const select::candidate> candidates_that_reduce_once(const select::selection_query&) {
  return select::of_one_tree<void>::from_left;  // one_shot and two_shot
}

/// A view of floats as groups of N: group g is elements g N, g N + 1, ... Groups that are contiguous in `out` stay in
/// place. Others (across two runs; the last, if it is not full) have copies: filled before the call by `copy_in`, and
/// written back after it by `copy_out`. The last is padded with its last element, so that no operator gives the padding
/// a greater weight than an element. Construction allocates. `In`: a view that is copied into `out` before that.
template <class In, class Out, int N>
class grouped {
  using group = detail::reduce::group<float, N>;
  struct group_run {
    std::size_t first;  ///< group
    group* groups;
  };
  struct state {
    In in;
    Out out;
    std::vector<group_run> group_runs{};
    std::vector<std::size_t> copied{};  ///< groups
    std::vector<group> copies{};
  };

 public:
  using element_type = group;

  grouped(const In& in, const Out& out) : state_{std::make_shared<state>(state{in, out})} {
    state& s = *state_;
    for (std::size_t g = 0, n = 0; g < size(); g += n) {
      n = view::run_of(s.out, g * N).size() / N;
      if (n == 0) n = 1, s.copied.push_back(g);
    }
    s.copies.resize(s.copied.size());
    group* copy = s.copies.data();
    for (std::size_t g = 0, n = 0; g < size(); g += n) {
      const std::span<float> run = view::run_of(s.out, g * N);
      n = std::max<std::size_t>(run.size() / N, 1);
      s.group_runs.push_back({g, run.size() < N ? copy++ : reinterpret_cast<group*>(run.data())});
    }
  }

  std::size_t size() const { return (state_->out.size() + N - 1) / N; }
  std::span<group> run(std::size_t g) const {
    const auto& all = state_->group_runs;
    const auto next =
        std::upper_bound(all.begin(), all.end(), g, [](std::size_t i, const group_run& s) { return i < s.first; });
    const std::size_t last = next == all.end() ? size() : next->first;
    return {(next - 1)->groups + (g - (next - 1)->first), last - g};
  }

  void copy_in() const {
    state& s = *state_;
    for (std::size_t i = 0, n = 0; i < s.out.size(); i += n) {
      const auto from = view::run_of(s.in, i);
      const std::span<float> to = view::run_of(s.out, i);
      n = std::min(from.size(), to.size());
      if (from.data() != to.data()) std::copy_n(from.data(), n, to.data());
    }
    for_copies([](float& inside, float& copied) { copied = inside; });
    if (const std::size_t rest = s.out.size() % N; rest > 0)
      std::fill(s.copies.back().x + rest, std::end(s.copies.back().x), s.copies.back().x[rest - 1]);
  }
  void copy_out() const {
    for_copies([](float& inside, float& copied) { inside = copied; });
  }

 private:
  void for_copies(auto f) const {
    state& s = *state_;
    for (std::size_t k = 0; k < s.copied.size(); ++k) {
      const std::size_t first = s.copied[k] * N, last = std::min(first + N, s.out.size());
      for (std::size_t i = first; i < last; ++i) f(view::run_of(s.out, i)[0], s.copies[k].x[i - first]);
    }
  }

  std::shared_ptr<state> state_;
};

/// Replaces each group by its value after the wire; the rounding error of each element is added the next time, if it is
/// finite. Allocates the first time only.
template <class Wire, View V>
void round_groups_with_feedback(const V& view, std::vector<float>& residuals) {
  constexpr std::size_t N = Wire::group;
  residuals.resize(core::rounded_up(view.size(), N));
  float* rest = residuals.data();
  for (std::size_t first = 0; first < view.size(); first += N, rest += N) {
    const auto each_run = [&](auto f) {
      for (std::size_t k = 0, n = std::min(N, view.size() - first), count = 0; k < n; k += count) {
        const std::span<float> run = view::run_of(view, first + k);
        f(run.data(), k, count = std::min(run.size(), n - k));
      }
    };
    typename Wire::elements wanted{};
    each_run([&](const float* from, std::size_t k, std::size_t count) { std::copy_n(from, count, wanted.x + k); });
    for (std::size_t k = 0; k < N; ++k) wanted.x[k] += rest[k];
    const auto sent = static_cast<typename Wire::elements>(Wire{wanted});
    each_run([&](float* to, std::size_t k, std::size_t count) { std::copy_n(sent.x + k, count, to); });
    for (std::size_t k = 0; k < N; ++k) {
      const float left = wanted.x[k] - sent.x[k];
      rest[k] = std::isfinite(left) ? left : 0;
    }
  }
}

template <class W, class Op, class A>
struct scaled_call<wired<W, Op>, A> {
  static constexpr int N = W::group;

  template <class C, class In, class Out>
  static auto make(C& comm, const In& in, const Out& out, const wired<W, Op>& op, const A& algorithm) {
    constexpr auto K = kind::allreduce;
    static_assert(space_of<Out> == memory_space::host,
                  "kolo: a wire with scales takes views of host memory, and this one is of device memory");
    static_assert(!select::Native<A>,
                  "kolo: the transport's own allreduce cannot use a wire with scales: leave the algorithm out");
    require_equal(comm, name(K), "in has ", in.size(), " elements, and out has ", out.size());
    require_same_or_disjoint(comm, K, kolo::erase(in), kolo::erase(out));
    const grouped<In, Out, N> groups{in, out};
    const detail::reduce::of_groups<Op> each{op.op};
    return make_call<K>(groups, groups, wired<W, detail::reduce::of_groups<Op>>{each}, algorithm, [&](auto& c) {
      check_that_it_reduces_once(comm, c.schedule);
      complete<K, detail::reduce::group<float, N>>(comm, c, groups.size(), out.size());
    });
  }

 private:
  template <class C, class S>
  static void check_that_it_reduces_once([[maybe_unused]] C& comm, [[maybe_unused]] const S& schedule) {
    if constexpr (schedule::Automatic<S> || select::Native<S>) {
    } else if constexpr (std::is_empty_v<S>) {
      static_assert(reduces_once(S{}, 4),
                    "kolo: this algorithm sends partial results, which a wire with scales would round in every round: "
                    "use kolo::two_shot, kolo::one_shot, or kolo::automatic");
    } else {
      require(comm, kind::allreduce, reduces_once(schedule, comm.size()),
              "the algorithm sends partial results, which a wire with scales would round in every round");
    }
  }
};

}  // namespace detail::collective
}  // namespace kolo::inline KOLO_ABI
