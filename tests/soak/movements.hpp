// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random calls that only move elements: equal and ragged parts.
#pragma once

#include "soak/task.hpp"

namespace soak {

struct parts {
  std::vector<std::size_t> counts{};
  bool equal = true;
  std::size_t before(int rank) const {
    std::size_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += counts[static_cast<std::size_t>(r)];
    return sum;
  }
  std::size_t of(int rank) const { return counts[static_cast<std::size_t>(rank)]; }
  std::size_t all() const { return before(static_cast<int>(counts.size())); }
};

inline parts draw_parts(dice& d, int p) {
  const auto most = some_length(d) / static_cast<std::size_t>(p);
  parts result{std::vector<std::size_t>(static_cast<std::size_t>(p), most), d.one_in(2)};
  if (!result.equal)
    for (auto& c : result.counts) c = d.one_in(3) ? 0 : d.below<std::size_t>(most + 1);
  return result;
}

/// Two tensors, and the elements of the parts of all ranks.
struct movement {
  template <class C>
  movement(const C& comm, std::size_t in_size, std::size_t out_size, layout how, const parts& p, std::uint64_t s)
      : in{comm, in_size, how, dice{s}}, out{comm, out_size, how, dice{s + 1}}, cut{p}, seed{s} {
    for (std::size_t i = 0; i < out_size; ++i) out[i] = -7;
  }
  /// Element i of the concatenation of all ranks' parts.
  int joined(std::size_t i) const {
    int r = 0;
    while (i >= cut.of(r)) i -= cut.of(r++);
    return value<int>(seed, r, i);
  }
  tensor<int> in, out;
  parts cut;
  std::uint64_t seed;
};

template <kolo::kind K, class C, class Make>
void with_choice(C& comm, dice& d, movement& m, task<C>& t, Make make) {
  const auto both = [&](auto in, auto out, const char* name, auto algorithm) {
    t.text += std::string{", "} + name;
    make(in, out, algorithm);
  };
  if (!m.in.is_contiguous()) return both(m.in.bucket(), m.out.bucket(), "automatic", kolo::automatic{});
  if (!m.cut.equal) return both(m.in.span(), m.out.span(), "automatic", kolo::automatic{});
  with_algorithm<K>(d, comm,
                    [&](const char* name, auto algorithm) { both(m.in.span(), m.out.span(), name, algorithm); });
}

template <class C>
void draw_broadcast(C& comm, dice& d, task<C>& t, layout how, int root) {
  const auto n = some_length(d);
  const auto m = std::make_shared<movement>(comm, n, 0, how, parts{}, d.draw());
  for (std::size_t i = 0; i < n; ++i) m->in[i] = value<int>(m->seed, comm.rank(), i);
  t.text += std::to_string(n) + " from " + std::to_string(root);
  with_choice<kolo::kind::broadcast>(comm, d, *m, t, [&](auto x, auto, auto a) {
    t.run = [&comm, x, root, a]() mutable { kolo::broadcast(comm, x, root, a); };
    t.start = [&comm, x, root, a]() mutable { return kolo::start_broadcast(comm, x, root, a); };
  });
  t.check = [&t, m, root] {
    add_to_digest(t.digest, m->in);
    return compared(m->in, 1, [&](std::size_t i) { return value<int>(m->seed, root, i); });
  };
}

template <class C>
void draw_allgather(C& comm, dice& d, task<C>& t, layout how) {
  const auto cut = draw_parts(d, comm.size());
  const auto m = std::make_shared<movement>(comm, cut.of(comm.rank()), cut.all(), how, cut, d.draw());
  for (std::size_t i = 0; i < m->in.size(); ++i) m->in[i] = value<int>(m->seed, comm.rank(), i);
  t.text += std::to_string(cut.all()) + (cut.equal ? "" : " ragged");
  with_choice<kolo::kind::allgather>(comm, d, *m, t, [&](auto in, auto out, auto a) {
    t.run = [&comm, m, in, out, a]() mutable {
      m->cut.equal ? kolo::allgather(comm, in, out, a) : kolo::allgather(comm, in, out, m->cut.counts, a);
    };
    t.start = [&comm, m, in, out, a]() mutable {
      return m->cut.equal ? kolo::start_allgather(comm, in, out, a)
                          : kolo::start_allgather(comm, in, out, m->cut.counts, a);
    };
  });
  t.check = [&t, m] {
    add_to_digest(t.digest, m->out);
    return compared(m->out, 1, [&](std::size_t i) { return m->joined(i); });
  };
}

template <class C>
void draw_gather(C& comm, dice& d, task<C>& t, layout how, int root) {
  const auto cut = draw_parts(d, comm.size());
  const bool mine = comm.rank() == root;
  const auto m = std::make_shared<movement>(comm, cut.of(comm.rank()), mine ? cut.all() : 0, how, cut, d.draw());
  for (std::size_t i = 0; i < m->in.size(); ++i) m->in[i] = value<int>(m->seed, comm.rank(), i);
  t.text += std::to_string(cut.all()) + (cut.equal ? "" : " ragged") + " to " + std::to_string(root);
  with_choice<kolo::kind::gather>(comm, d, *m, t, [&](auto in, auto out, auto a) {
    t.run = [&comm, m, in, out, root, a]() mutable {
      m->cut.equal ? kolo::gather(comm, in, out, root, a) : kolo::gather(comm, in, out, m->cut.counts, root, a);
    };
    t.start = [&comm, m, in, out, root, a]() mutable {
      return m->cut.equal ? kolo::start_gather(comm, in, out, root, a)
                          : kolo::start_gather(comm, in, out, m->cut.counts, root, a);
    };
  });
  t.check = [m] { return compared(m->out, 1, [&](std::size_t i) { return m->joined(i); }); };
}

template <class C>
void draw_scatter(C& comm, dice& d, task<C>& t, layout how, int root) {
  const auto cut = draw_parts(d, comm.size());
  const bool mine = comm.rank() == root;
  const auto m = std::make_shared<movement>(comm, mine ? cut.all() : 0, cut.of(comm.rank()), how, cut, d.draw());
  for (std::size_t i = 0; i < m->in.size(); ++i) m->in[i] = m->joined(i);
  t.text += std::to_string(cut.all()) + (cut.equal ? "" : " ragged") + " from " + std::to_string(root);
  with_choice<kolo::kind::scatter>(comm, d, *m, t, [&](auto in, auto out, auto a) {
    t.run = [&comm, m, in, out, root, a]() mutable {
      m->cut.equal ? kolo::scatter(comm, in, out, root, a) : kolo::scatter(comm, in, out, m->cut.counts, root, a);
    };
    t.start = [&comm, m, in, out, root, a]() mutable {
      return m->cut.equal ? kolo::start_scatter(comm, in, out, root, a)
                          : kolo::start_scatter(comm, in, out, m->cut.counts, root, a);
    };
  });
  t.check = [m, rank = comm.rank()] {
    return compared(m->out, 1, [&](std::size_t i) { return value<int>(m->seed, rank, i); });
  };
}

/// If parts are not equal, each pair of ranks has its own lengths, which no third rank knows.
template <class C>
void draw_alltoall(C& comm, dice& d, task<C>& t, layout how) {
  const int p = comm.size(), rank = comm.rank();
  const auto each = some_length(d) / static_cast<std::size_t>(p * p);
  const bool equal = d.one_in(2);
  const auto seed = d.draw();
  const auto length = [=](int from, int to) {
    dice own{mixed(seed, static_cast<std::uint64_t>(from * p + to))};
    return equal ? each : own.one_in(4) ? 0 : own.one_in(4) ? own.below(5 * each + 1) : own.below<std::size_t>(20);
  };
  parts to{{}, equal}, from{{}, equal};
  for (int r = 0; r < p; ++r) to.counts.push_back(length(rank, r)), from.counts.push_back(length(r, rank));
  const auto m = std::make_shared<movement>(comm, to.all(), from.all(), how, to, seed);
  const auto fill = [](auto x, const parts& cut, auto element) {
    for (std::size_t r = 0, i = 0; r < cut.counts.size(); ++r)
      for (std::size_t k = 0; k < cut.counts[r]; ++k, ++i) x(i, element(static_cast<int>(r), k));
  };
  fill([&](std::size_t i, int x) { m->in[i] = x; }, to,
       [=](int peer, std::size_t k) { return value<int>(seed, rank * p + peer, k); });
  std::vector<int> wanted(from.all());
  fill([&](std::size_t i, int x) { wanted[i] = x; }, from,
       [=](int peer, std::size_t k) { return value<int>(seed, peer * p + rank, k); });
  t.text += std::to_string(to.all()) + (equal ? "" : " ragged");
  with_choice<kolo::kind::alltoall>(comm, d, *m, t, [&](auto in, auto out, auto a) {
    t.run = [&comm, m, from, in, out, a]() mutable {
      m->cut.equal ? kolo::alltoall(comm, in, out, a) : kolo::alltoall(comm, in, out, m->cut.counts, from.counts, a);
    };
    t.start = [&comm, m, from, in, out, a]() mutable {
      return m->cut.equal ? kolo::start_alltoall(comm, in, out, a)
                          : kolo::start_alltoall(comm, in, out, m->cut.counts, from.counts, a);
    };
  });
  t.check = [m, wanted] { return compared(m->out, 1, [&](std::size_t i) { return wanted[i]; }); };
}

template <class C>
void draw_movement(C& comm, dice& d, task<C>& t) {
  constexpr const char* names[] = {"broadcast", "allgather", "gather", "scatter", "alltoall", "barrier"};
  const int which = d.below(6), root = d.below(comm.size());
  const auto how = static_cast<layout>(d.below(3));
  t.text = names[which] + std::string{" "} + layout_names[static_cast<int>(how)] + " of ";
  if (which == 0) return draw_broadcast(comm, d, t, how, root);
  if (which == 1) return draw_allgather(comm, d, t, how);
  if (which == 2) return draw_gather(comm, d, t, how, root);
  if (which == 3) return draw_scatter(comm, d, t, how, root);
  if (which == 4) return draw_alltoall(comm, d, t, how);
  t.run = [&comm] { kolo::barrier(comm); };
  t.start = [&comm] { return kolo::start_barrier(comm); };
}

}  // namespace soak
