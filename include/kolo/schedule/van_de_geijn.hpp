// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The broadcast of long vectors: a scatter, then an allgather.
#pragma once

#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/combinators.hpp>
#include <kolo/schedule/ring.hpp>

namespace kolo::inline KOLO_ABI {

/// Before  the root holds every block; p blocks.
/// After   every rank holds every block.
/// Cost    2q rounds, 2(p-1)/p n bytes in all at the root.
/// Order   nothing is combined.
/// Errors  none of its own.
/// Source  Barnett, Shuler, Gupta, Payne, van de Geijn, Watts, "Interprocessor collective communication library", SHPCC
///         1994.
struct van_de_geijn {
  using broadcast = sequence<binomial::scatter, circulant::allgather>;
};

/// As `van_de_geijn`, with an allgather between neighbours only: q + p - 1 rounds.
struct van_de_geijn_ring {
  using broadcast = sequence<binomial::scatter, ring::allgather>;
};

}  // namespace kolo::inline KOLO_ABI
