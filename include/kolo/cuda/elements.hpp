// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The work of one device thread on elements: combine, convert, copy. Ordinary C++, so that the host gets the same bits
// from it.
#pragma once

#include <kolo/core/uninitialized.hpp>
#include <kolo/reduce/kernel.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace kolo::inline KOLO_ABI::detail::cuda {

/// As on the host (reduce/loops.hpp): a conversion from a 16-bit type to another type goes through float.
template <class To, class From>
KOLO_HOST_DEVICE constexpr To to(const From& x) {
  if constexpr (accumulate_in_float<From> && !std::is_same_v<From, To>) return static_cast<To>(float(x));
  else return static_cast<To>(x);
}

/// Adjacent elements that are read and written at once.
template <class T, std::size_t N>
struct alignas(N == 1 ? alignof(T) : N * sizeof(T)) packed {
  T x[N];
};

/// Elements read at once: 16 bytes of T, where the sizes of T and of its wire type W are powers of two; else 1.
template <class T, class W = T>
inline constexpr std::size_t elements_per_load = std::has_single_bit(sizeof(T)) && std::has_single_bit(sizeof(W)) &&
                                                         sizeof(T) < 16 && sizeof(W) <= sizeof(T)
                                                     ? 16 / sizeof(T)
                                                     : 1;

template <class X, std::size_t N>
bool is_aligned(const std::byte* p) {
  return reinterpret_cast<std::uintptr_t>(p) % alignof(packed<X, N>) == 0;
}

KOLO_HOST_DEVICE inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  for (std::size_t b = 0; b < bytes; ++b)
    static_cast<unsigned char*>(to)[b] = static_cast<const unsigned char*>(from)[b];
}

/// The i-th N elements; `by_bytes` where an address is not aligned, since a device traps there.
template <class X, std::size_t N>
KOLO_HOST_DEVICE packed<X, N> load(const std::byte* from, std::size_t i, bool by_bytes) {
  if (!by_bytes) return reinterpret_cast<const packed<X, N>*>(from)[i];
  core::uninitialized<packed<X, N>> r;
  copy_bytes(&r.value, from + i * sizeof r.value, sizeof r.value);
  return r.value;
}
template <class X, std::size_t N>
KOLO_HOST_DEVICE void store(std::byte* to, std::size_t i, const packed<X, N>& x, bool by_bytes) {
  if (by_bytes) copy_bytes(to + i * sizeof x, &x, sizeof x);
  else ::new (static_cast<void*>(to + i * sizeof x)) packed<X, N>(x);
}

template <class To, class From, std::size_t N, std::size_t... J>
KOLO_HOST_DEVICE packed<To, N> convert(const packed<From, N>& from, std::index_sequence<J...>) {
  return {{to<To>(from.x[J])...}};
}
template <class To, class From, std::size_t N>
KOLO_HOST_DEVICE packed<To, N> convert(const packed<From, N>& from) {
  return convert<To>(from, std::make_index_sequence<N>{});
}

// Work is a value: `launch_work(stream, items, work)` calls work(i) for each i < items, in any order and on any
// threads. Elements come in chunks of N, where all addresses allow it; those at the end one by one.

template <class Work, std::size_t N>
KOLO_HOST_DEVICE void do_chunk(const Work& work, std::size_t chunk) {
  const std::size_t first = chunk * N;
  if (work.count - first >= N) return work.template some<N>(chunk);
  for (std::size_t i = first; i < work.count; ++i) work.template some<1>(i);
}

/// into[0] = into[1] = ... = from[0] op from[1] ..., finished if `finish_size` > 0: `kernel::combine`, of at most Most
/// sources in one pass, into at most Targets. The thread that reads an element of all sources also writes it to all
/// targets, so a target may be a source.
template <class T, class Op, std::size_t Most, std::size_t Targets, std::size_t N>
struct combining {
  using W = reduce::wire_element_t<Op, T>;
  using A = reduce::accumulator_t<T, Op>;

  Op op;
  std::size_t count;
  int n, targets, finish_size;
  bool by_bytes;
  std::conditional_t<Most == 0, const source*, source[Most == 0 ? 1 : Most]> from;  ///< Most == 0: a pointer to them
  std::byte* into[Targets];

  KOLO_HOST_DEVICE void operator()(std::size_t i) const { do_chunk<combining, N>(*this, i); }

  template <std::size_t U>
  KOLO_HOST_DEVICE void some(std::size_t i) const {
    const auto x = result<U>(i);
    if constexpr (Targets == 1) store(into[0], i, x, by_bytes);
    else
      for (int k = 0; k < targets; ++k) store(into[k], i, x, by_bytes);
  }

 private:
  template <std::size_t U>
  KOLO_HOST_DEVICE packed<T, U> result(std::size_t i) const {
    constexpr std::make_index_sequence<U> all{};
    core::uninitialized<packed<A, U>> so_far;
    so_far.put(operand<U>(0, i));
    for (int k = 1; k < n; ++k) so_far.put(together(so_far.value, operand<U>(k, i), all));
    if constexpr (Finishes<Op, A>)
      if (finish_size > 0) so_far.put(finished(so_far.value, all));
    return convert<T>(so_far.value);
  }
  template <std::size_t U>
  KOLO_HOST_DEVICE packed<A, U> operand(int k, std::size_t i) const {
    if constexpr (!std::is_same_v<T, W>)
      if (from[k].on_wire) return convert<A>(load<W, U>(from[k].data, i, by_bytes));
    return convert<A>(load<T, U>(from[k].data, i, by_bytes));
  }
  template <std::size_t U, std::size_t... J>
  KOLO_HOST_DEVICE packed<A, U> together(const packed<A, U>& a, const packed<A, U>& b,
                                         std::index_sequence<J...>) const {
    return {{to<A>(op(a.x[J], b.x[J]))...}};
  }
  template <std::size_t U, std::size_t... J>
  KOLO_HOST_DEVICE packed<A, U> finished(const packed<A, U>& a, std::index_sequence<J...>) const {
    return {{to<A>(op.finish(a.x[J], finish_size))...}};
  }
};

/// wire = from in its wire type, rounded = the value that arrives: `kernel::to_wire`; either may be null.
template <class T, class W, std::size_t N>
struct narrowing {
  std::byte* wire;
  const std::byte* from;
  std::byte* rounded;
  std::size_t count;
  bool by_bytes;

  KOLO_HOST_DEVICE void operator()(std::size_t i) const { do_chunk<narrowing, N>(*this, i); }

  template <std::size_t U>
  KOLO_HOST_DEVICE void some(std::size_t i) const {
    const auto narrow = convert<W>(load<T, U>(from, i, by_bytes));
    if (wire) store(wire, i, narrow, by_bytes);
    if (rounded) store(rounded, i, convert<T>(narrow), by_bytes);
  }
};

/// dst = wire in its own type: `kernel::from_wire`.
template <class T, class W, std::size_t N>
struct widening {
  std::byte* dst;
  const std::byte* wire;
  std::size_t count;
  bool by_bytes;

  KOLO_HOST_DEVICE void operator()(std::size_t i) const { do_chunk<widening, N>(*this, i); }

  template <std::size_t U>
  KOLO_HOST_DEVICE void some(std::size_t i) const {
    store(dst, i, convert<T>(load<W, U>(wire, i, by_bytes)), by_bytes);
  }
};

/// Copies runs of bytes, to pack and unpack a view that is not contiguous. The runs do not overlap. Adjacent threads
/// copy adjacent bytes.
struct copying {
  struct run {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };
  static constexpr int most = 160;  // makes this just below 4 KiB, which every device takes as an argument

  run runs[most];
  std::size_t threads;  ///< for each run

  KOLO_HOST_DEVICE void operator()(std::size_t i) const { copy_run(runs[i / threads], i % threads, threads); }

  /// The part of a run that one of `threads` threads copies.
  KOLO_HOST_DEVICE static void copy_run(const run& r, std::size_t thread, std::size_t threads) {
    const auto misalignment = (reinterpret_cast<std::uintptr_t>(r.to) | reinterpret_cast<std::uintptr_t>(r.from)) % 16;
    if (misalignment == 0) units<packed<std::uint64_t, 2>>(r, thread, threads);
    else if (misalignment % 4 == 0) units<std::uint32_t>(r, thread, threads);
    else units<unsigned char>(r, thread, threads);
  }

 private:
  template <class Unit>
  KOLO_HOST_DEVICE static void units(const run& r, std::size_t thread, std::size_t threads) {
    const std::size_t whole = r.bytes / sizeof(Unit);
    for (std::size_t u = thread; u < whole; u += threads)
      reinterpret_cast<Unit*>(r.to)[u] = reinterpret_cast<const Unit*>(r.from)[u];
    for (std::size_t rest = whole * sizeof(Unit) + thread; rest < r.bytes; rest += threads)
      copy_bytes(r.to + rest, r.from + rest, 1);
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda
