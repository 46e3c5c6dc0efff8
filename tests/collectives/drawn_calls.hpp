// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random sequences of calls: any collective, algorithm and part lengths; and one rank's side of a call, with views of its own.
#pragma once

#include <kolo/kolo.hpp>
#include <kolo/schedule/catalogue.hpp>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/any_schedule.hpp"
#include "collectives/drawn_tensors.hpp"
#include "collectives/ranks.hpp"

namespace testing {

using kolo::kind;
using soak::mixed;

/// A random schedule of kind K: of the family `only` if it has one, else of any family.
template <kind K>
std::pair<std::string, any_schedule<K, false>> draw_schedule(dice d, int p, bool is_ragged_alltoall,
                                                             std::string_view only) {
  std::vector<std::pair<std::string, any_schedule<K, false>>> all;
  kolo::for_each_family([&](const char* name, auto family) {
    if constexpr (requires { family.segments = 1; }) family.segments = 1 + d.below(8);
    if constexpr (kolo::AlgorithmFor<decltype(family), K>) {
      const auto s = kolo::schedule_of<K>(family);
      if (!kolo::supports(s, p) || (is_ragged_alltoall && kolo::detail::schedule::scratch_blocks(s, p) > 0) ||
          (only != "" && only != name))
        return;
      all.push_back({name, {s, p}});
    }
  });
  return all.empty() ? draw_schedule<K>(d, p, is_ragged_alltoall, "") : all[d.below(all.size())];
}

using lengths = std::vector<std::size_t>;
inline std::size_t sum_of_first(const lengths& all, int n) {
  std::size_t sum = 0;
  for (int r = 0; r < n; ++r) sum += all[static_cast<std::size_t>(r)];
  return sum;
}

/// What all ranks agree on; for an alltoall also the lengths that only two ranks know.
struct drawn_call {
  kind what{};
  int ranks = 1, root = 0;
  bool is_half = false, in_place = false, is_equal = true;
  bool is_automatic = false;
  const char* algorithm = "";      ///< empty: any
  std::size_t n = 0;               ///< length of the vector
  std::vector<lengths> parts{{}};  ///< length of each rank's part; for an alltoall: [from][to]
  std::uint64_t seed = 0;

  drawn_call() = default;
  drawn_call(dice& d, int p, std::size_t slot)
      : what{static_cast<kind>(d.below(11))}, ranks{p}, root{d.below(p)}, is_half{d.one_in(3)} {
    const auto per_slot = slot / (is_half ? 2 : 4);
    in_place = d.one_in(3) && (what == kind::allreduce || what == kind::reduce || what == kind::scan);
    is_equal = d.one_in(4);
    is_automatic = d.one_in(3);
    algorithm = d.one_in(3) ? "one_shot" : "";
    n = length(d, per_slot, 12);
    const auto usual = length(d, per_slot, 30);
    parts.resize(what == kind::alltoall ? static_cast<std::size_t>(p) : 1);
    for (auto& row : parts) row.resize(static_cast<std::size_t>(p), usual);
    const int often = 1 + d.below(4);
    for (auto& row : parts)
      for (auto& count : row)
        if (!is_equal && !d.one_in(often)) count = length(d, per_slot, 30);
    seed = d.draw();
  }
  template <class Length>
  static drawn_call alltoall(int p, const char* algorithm, Length length_of) {
    drawn_call c;
    c.what = kind::alltoall, c.ranks = p, c.is_equal = false, c.algorithm = algorithm;
    c.parts.assign(static_cast<std::size_t>(p), lengths(static_cast<std::size_t>(p)));
    for (int from = 0; from < p; ++from)
      for (int to = 0; to < p; ++to)
        c.parts[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)] = length_of(from, to);
    return c;
  }

  /// Mostly a slot's length or close to it; sometimes 0, sometimes many slots.
  static std::size_t length(dice& d, std::size_t per_slot, int seldom) {
    if (d.one_in(seldom)) return d.below(100 * per_slot);
    switch (d.below(5)) {
      case 0: return 0;
      case 1: return d.below(4 * per_slot);
      case 2: return (1 + d.below(std::size_t{4})) * per_slot - 1 + d.below(std::size_t{3});
      default: return 1 + d.below(per_slot);
    }
  }
  const lengths& counts() const { return parts[0]; }
  lengths from(int rank) const { return parts[static_cast<std::size_t>(rank)]; }
  lengths to(int rank) const {
    lengths all;
    for (const auto& row : parts) all.push_back(row[static_cast<std::size_t>(rank)]);
    return all;
  }
};

struct drawn_calls {
  drawn_calls(int p, std::vector<drawn_call> calls) : ranks{p}, all{std::move(calls)} {}
  drawn_calls(dice& d, std::size_t slot, bool few) : ranks{2 + d.below(few ? 5 : 15)} {
    for (int n = 1 + d.below(5); n > 0; --n) all.emplace_back(d, ranks, slot);
  }
  bool are_repeatable() const {
    return std::none_of(all.begin(), all.end(), [](const drawn_call& c) { return c.in_place; });
  }
  int ranks;
  std::vector<drawn_call> all{};
};

/// One rank's side of a call.
template <class C>
struct task {
  std::string text{};
  std::function<kolo::request<typename C::transport_type>()> start{};
  std::function<void()> run{};
  std::function<std::string()> check = [] { return std::string{}; };
};

/// What `rank` holds at i. Sums over all ranks are exact, also in 16 bits.
template <class T>
T held(std::uint64_t seed, int rank, std::size_t i) {
  return T(static_cast<int>(mixed(seed, (i << 8) + static_cast<std::size_t>(rank)) % 64));
}

template <class T>
struct both_tensors {
  both_tensors(std::uint64_t own, std::size_t ins, std::size_t outs) : in{dice{own}, ins}, out{dice{own + 1}, outs} {
    for (std::size_t i = 0; i < outs; ++i) out[i] = T(-5);
  }
  tensor<T> in, out;
};

template <class C>
class task_maker {
  using wire = typename C::transport_type;
  static constexpr bool can_block = std::is_same_v<wire, kolo::threads::transport>;  ///< each rank has its own thread

 public:
  static constexpr bool takes_halves =
      kolo::SharedMemoryTransport<wire> &&
      !can_block;  ///< the other transports run the same code for them, and it takes long to compile

  task_maker(C& comm, const drawn_call& c)
      : comm_{comm}, c_{c}, me_{comm.rank()}, p_{comm.size()}, rank_{static_cast<std::size_t>(me_)} {}

  template <class T>
  task<C> make() {
    switch (c_.what) {
      case kind::allreduce: return reduction<T>(c_.n, {0, c_.n}, {0, p_});
      case kind::reduce_scatter: return reduction<T>(c_.n, kolo::block(c_.n, p_, me_), {0, p_});
      case kind::reduce: return reduction<T>(c_.n, {0, me_ == c_.root ? c_.n : 0}, {0, p_});
      case kind::scan: return reduction<T>(c_.n, {0, c_.n}, {0, me_ + 1});
      case kind::exclusive_scan: return reduction<T>(c_.n, {0, c_.n}, {0, me_});
      case kind::broadcast: return movement<T>(c_.n, 0);
      case kind::allgather: return movement<T>(own(), whole());
      case kind::gather: return movement<T>(own(), me_ == c_.root ? whole() : 0);
      case kind::scatter: return movement<T>(me_ == c_.root ? whole() : 0, own());
      case kind::alltoall: return movement<T>(sum_of_first(c_.from(me_), p_), sum_of_first(c_.to(me_), p_));
      default: return of_nothing();
    }
  }

 private:
  std::size_t own() const { return c_.counts()[rank_]; }
  std::size_t whole() const { return sum_of_first(c_.counts(), p_); }
  std::uint64_t own_seed() const { return mixed(c_.seed, rank_); }

  /// What is called if the choice is not automatic.
  template <kind K>
  auto algorithm(task<C>& t) {
    if constexpr (!can_block || !kolo::AlgorithmFor<kolo::one_shot, K>) {
      if (c_.is_automatic) return any_schedule<K, false>{};
      const bool is_ragged = K == kind::alltoall && !c_.is_equal;
      auto [name, s] = draw_schedule<K>(dice{c_.seed}, p_, is_ragged, c_.algorithm);
      t.text += " (" + name + ")";
      return s;
    } else {
      if (!c_.is_automatic) t.text += " (one_shot)";
      return kolo::one_shot{};  // its small calls run by plans
    }
  }
  /// The call, to be started or run: call(start or run, algorithm).
  template <kind K, class Start, class Run, class Call>
  void bind(task<C>& t, Start start, Run run, Call call) {
    if (c_.is_automatic) t.text += " (automatic)";
    const auto with = [call, is_automatic = c_.is_automatic, chosen = algorithm<K>(t)](auto f) {
      return is_automatic ? call(f, kolo::automatic{}) : call(f, chosen);
    };
    t.start = [=] { return with(start); };
    if constexpr (can_block) t.run = [=] { with(run); };
  }

  template <class T>
  task<C> reduction(std::size_t n, kolo::extent mine, std::pair<int, int> of) {
    const bool in_place = c_.in_place;
    const auto m = std::make_shared<both_tensors<T>>(own_seed(), n, in_place ? 0 : mine.count);
    for (std::size_t i = 0; i < n; ++i) m->in[i] = held<T>(c_.seed, me_, i);
    task<C> t{.text = kolo::name(c_.what) + std::string{" of "} + std::to_string(n)};
    const auto in = m->in.view(), out = in_place ? in : m->out.view();
    const auto call = [=, &comm = comm_](auto f, const auto& a) { return f(comm, in, out, kolo::sum, a); };
    const auto to_root = [=, &comm = comm_, root = c_.root](auto f, const auto& a) {
      return f(comm, in, out, kolo::sum, root, a);
    };
    switch (c_.what) {
      case kind::allreduce: bind<kind::allreduce>(t, kolo::start_allreduce, kolo::allreduce, call); break;
      case kind::reduce_scatter:
        bind<kind::reduce_scatter>(t, kolo::start_reduce_scatter, kolo::reduce_scatter, call);
        break;
      case kind::reduce: bind<kind::reduce>(t, kolo::start_reduce, kolo::reduce, to_root); break;
      case kind::scan: bind<kind::scan>(t, kolo::start_scan, kolo::scan, call); break;
      default: bind<kind::exclusive_scan>(t, kolo::start_exclusive_scan, kolo::exclusive_scan, call);
    }
    t.check = [m, mine, of, in_place, text = t.text, seed = c_.seed] {
      return compared(text, m->in, in_place ? m->in : m->out, mine.count, [&](std::size_t i) {
        int sum = 0;
        for (int r = of.first; r < of.second; ++r)
          sum += static_cast<int>(static_cast<float>(held<T>(seed, r, mine.first + i)));
        return of.first == of.second ? T(-5) : T(sum);  // exclusive, rank 0
      });
    };
    return t;
  }

  template <class T>
  task<C> movement(std::size_t ins, std::size_t outs) {
    const auto m = std::make_shared<both_tensors<T>>(own_seed(), ins, outs);
    task<C> t{.text = kolo::name(c_.what) + std::string{" of "} + std::to_string(ins) + " to " + std::to_string(outs)};
    fill(m->in);
    auto& result = c_.what == kind::broadcast ? m->in : m->out;
    const auto in = m->in.view(), out = m->out.view();
    const auto of_parts = [&](auto... root) {
      return [=, &comm = comm_, equal = c_.is_equal, counts = c_.counts()](auto f, const auto& a) {
        return equal ? f(comm, in, out, root..., a) : f(comm, in, out, counts, root..., a);
      };
    };
    switch (c_.what) {
      case kind::broadcast:
        bind<kind::broadcast>(
            t, kolo::start_broadcast, kolo::broadcast,
            [=, &comm = comm_, root = c_.root](auto f, const auto& a) { return f(comm, in, root, a); });
        break;
      case kind::allgather: bind<kind::allgather>(t, kolo::start_allgather, kolo::allgather, of_parts()); break;
      case kind::gather: bind<kind::gather>(t, kolo::start_gather, kolo::gather, of_parts(c_.root)); break;
      case kind::scatter: bind<kind::scatter>(t, kolo::start_scatter, kolo::scatter, of_parts(c_.root)); break;
      default:
        bind<kind::alltoall>(
            t, kolo::start_alltoall, kolo::alltoall,
            [=, &comm = comm_, equal = c_.is_equal, from = c_.from(me_), to = c_.to(me_)](auto f, const auto& a) {
              return equal ? f(comm, in, out, a) : f(comm, in, out, from, to, a);
            });
    }
    t.check = [m, &result, c = c_, me = me_, text = t.text] {
      return compared(text, m->in, result, result.size(), [&](std::size_t i) { return wanted<T>(c, me, i); });
    };
    return t;
  }

  task<C> of_nothing() {
    task<C> t{.text = "barrier"};
    bind<kind::barrier>(t, kolo::start_barrier, kolo::barrier,
                        [&comm = comm_](auto f, const auto& a) { return f(comm, a); });
    return t;
  }

  template <class T>
  void fill(tensor<T>& in) const {
    for (std::size_t i = 0; i < in.size(); ++i)
      in[i] = c_.what == kind::scatter    ? joined<T>(c_.seed, c_.counts(), i)
              : c_.what == kind::alltoall ? joined<T>(mixed(c_.seed, rank_), c_.from(me_), i)
                                          : held<T>(c_.seed, me_, i);
  }
  template <class T>
  static T joined(std::uint64_t seed, const lengths& parts, std::size_t i) {
    std::size_t r = 0;
    while (i >= parts[r]) i -= parts[r++];
    return held<T>(seed, static_cast<int>(r), i);
  }
  template <class T>
  static T wanted(const drawn_call& c, int me, std::size_t i) {
    if (c.what == kind::broadcast) return held<T>(c.seed, c.root, i);
    if (c.what == kind::scatter) return held<T>(c.seed, me, i);
    if (c.what != kind::alltoall) return joined<T>(c.seed, c.counts(), i);
    const lengths parts = c.to(me);
    std::size_t from = 0;
    while (i >= parts[from]) i -= parts[from++];
    return held<T>(mixed(c.seed, from), me, i);
  }
  template <class T, class Wanted>
  static std::string compared(const std::string& text, tensor<T>& in, tensor<T>& got, std::size_t n, Wanted wanted_at) {
    if (!in.is_tidy() || !got.is_tidy()) return text + ": memory beside the elements was written";
    for (std::size_t i = 0; i < n; ++i)
      if (const T w = wanted_at(i), g = got[i]; std::memcmp(&w, &g, sizeof(T)) != 0)
        return text + ": element " + std::to_string(i) + " is wrong";
    return "";
  }

  C& comm_;
  const drawn_call& c_;
  int me_, p_;
  std::size_t rank_;
};

template <class C>
task<C> make_task(C& comm, const drawn_call& c) {
  task_maker<C> maker{comm, c};
  if constexpr (task_maker<C>::takes_halves)
    if (c.is_half) return maker.template make<kolo::float16>();
  return maker.template make<int>();
}

}  // namespace testing
