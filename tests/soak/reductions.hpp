// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random calls that combine.
#pragma once

#include "soak/task.hpp"

namespace soak {

/// The values of ranks first ... last - 1 at i, combined from the left; floats in double.
template <class T, class Op>
T straight(const Op& op, std::uint64_t seed, int first, int last, std::size_t i) {
  if constexpr (std::is_same_v<T, float>) {
    double sum = 0;
    for (int r = first; r < last; ++r) sum += static_cast<double>(value<T>(seed, r, i));
    return static_cast<float>(sum);
  } else {
    T x = value<T>(seed, first, i);
    for (int r = first + 1; r < last; ++r) x = op(x, value<T>(seed, r, i));
    return x;
  }
}

/// The common part of the calls that combine, in memory that exists as long as the task.
template <class T>
struct reduction {
  template <class C>
  reduction(const C& comm, std::size_t in_size, std::size_t out_size, layout how, bool in_place, std::uint64_t s)
      : in{comm, in_size, how, dice{s}},
        out{comm, in_place ? 0 : out_size, how, dice{s + 1}},
        seed{s},
        is_in_place{in_place} {
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = value<T>(s, comm.rank(), i);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = value<T>(s + 2, comm.rank(), i);
  }
  tensor<T>& result() { return is_in_place ? in : out; }
  tensor<T> in, out;
  std::uint64_t seed;
  bool is_in_place;
};

/// Calls make(in, out, algorithm) with the views and the algorithm that were drawn. Only calls on int try every algorithm.
template <kolo::kind K, class T, class C, class Make>
void with_choice(C& comm, dice& d, reduction<T>& r, task<C>& t, Make make) {
  const auto both = [&](auto in, auto out, const char* name, auto algorithm) {
    t.text += std::string{", "} + name;
    make(in, out, algorithm);
  };
  if (!r.in.is_contiguous()) return both(r.in.bucket(), r.result().bucket(), "automatic", kolo::automatic{});
  if constexpr (std::is_same_v<T, int>)
    with_algorithm<K>(d, comm,
                      [&](const char* name, auto algorithm) { both(r.in.span(), r.result().span(), name, algorithm); });
  else both(r.in.span(), r.result().span(), "automatic", kolo::automatic{});
}

template <class C, class T, class Op>
void draw_allreduce(C& comm, dice& d, task<C>& t, std::shared_ptr<reduction<T>> r, Op op) {
  t.repeatable = !r->is_in_place;
  with_choice<kolo::kind::allreduce>(comm, d, *r, t, [&](auto in, auto out, auto algorithm) {
    t.run = [&comm, in, out, op, algorithm]() mutable { kolo::allreduce(comm, in, out, op, algorithm); };
    t.start = [&comm, in, out, op, algorithm]() mutable { return kolo::start_allreduce(comm, in, out, op, algorithm); };
  });
  t.check = [&t, r, op, p = comm.size()] {
    add_to_digest(t.digest, r->result());
    return compared(r->result(), p, [&](std::size_t i) { return straight<T>(op, r->seed, 0, p, i); });
  };
}

template <class C, class T, class Op>
void draw_reduce_scatter(C& comm, dice& d, task<C>& t, std::shared_ptr<reduction<T>> r, Op op) {
  with_choice<kolo::kind::reduce_scatter>(comm, d, *r, t, [&](auto in, auto out, auto algorithm) {
    t.run = [&comm, in, out, op, algorithm]() mutable { kolo::reduce_scatter(comm, in, out, op, algorithm); };
    t.start = [&comm, in, out, op, algorithm]() mutable {
      return kolo::start_reduce_scatter(comm, in, out, op, algorithm);
    };
  });
  t.check = [r, op, p = comm.size(), mine = kolo::block(r->in.size(), comm.size(), comm.rank())] {
    return compared(r->out, p, [&](std::size_t i) { return straight<T>(op, r->seed, 0, p, mine.first + i); });
  };
}

template <class C, class T, class Op>
void draw_reduce(C& comm, dice& d, task<C>& t, std::shared_ptr<reduction<T>> r, Op op, int root) {
  t.text += " to " + std::to_string(root);
  t.repeatable = !r->is_in_place;
  with_choice<kolo::kind::reduce>(comm, d, *r, t, [&](auto in, auto out, auto algorithm) {
    t.run = [&comm, in, out, op, root, algorithm]() mutable { kolo::reduce(comm, in, out, op, root, algorithm); };
    t.start = [&comm, in, out, op, root, algorithm]() mutable {
      return kolo::start_reduce(comm, in, out, op, root, algorithm);
    };
  });
  t.check = [r, op, p = comm.size(), rank = comm.rank(), root] {
    const bool has_it = rank == root;
    return compared(has_it ? r->result() : r->in, p, [&](std::size_t i) {
      return has_it ? straight<T>(op, r->seed, 0, p, i) : value<T>(r->seed, rank, i);
    });
  };
}

template <class C, class T, class Op>
void draw_scan(C& comm, dice& d, task<C>& t, std::shared_ptr<reduction<T>> r, Op op, bool exclusive) {
  t.repeatable = !r->is_in_place;
  const auto make = [&](auto in, auto out, auto call, auto start, auto algorithm) {
    t.run = [=, &comm]() mutable { call(comm, in, out, op, algorithm); };
    t.start = [=, &comm]() mutable { return start(comm, in, out, op, algorithm); };
  };
  if (exclusive)
    with_choice<kolo::kind::exclusive_scan>(comm, d, *r, t, [&](auto in, auto out, auto a) {
      make(in, out, kolo::exclusive_scan, kolo::start_exclusive_scan, a);
    });
  else
    with_choice<kolo::kind::scan>(comm, d, *r, t,
                                  [&](auto in, auto out, auto a) { make(in, out, kolo::scan, kolo::start_scan, a); });
  t.check = [r, op, p = comm.size(), rank = comm.rank(), exclusive] {
    return compared(r->result(), p, [&](std::size_t i) {
      return exclusive && rank == 0 ? /* keeps what it has */ value<T>(r->seed + 2, 0, i)
                                    : straight<T>(op, r->seed, 0, rank + (exclusive ? 0 : 1), i);
    });
  };
}

template <class T, class C, class Op>
void draw_reduction(C& comm, dice& d, task<C>& t, const char* of, Op op) {
  constexpr const char* names[] = {"allreduce", "reduce_scatter", "reduce", "scan", "exclusive_scan"};
  const int which = d.below(5), root = d.below(comm.size());
  const auto n = some_length(d);
  const auto how = static_cast<layout>(d.below(3));
  const bool in_place = which != 1 && which != 4 && d.one_in(2);
  const auto out_size = which == 1                          ? kolo::block(n, comm.size(), comm.rank()).count
                        : which == 2 && comm.rank() != root ? 0
                                                            : n;
  const auto r = std::make_shared<reduction<T>>(comm, n, out_size, how, in_place, d.draw());
  t.text = names[which] + std::string{" of "} + std::to_string(n) + of + layout_names[static_cast<int>(how)] +
           (in_place ? ", in place" : "");
  if (which == 0) draw_allreduce(comm, d, t, r, op);
  else if (which == 1) draw_reduce_scatter(comm, d, t, r, op);
  else if (which == 2) draw_reduce(comm, d, t, r, op, root);
  else draw_scan(comm, d, t, r, op, which == 4);
}

}  // namespace soak
