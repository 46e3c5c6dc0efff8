// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a program needs to start ranks and to call collectives. What else there is has headers of its own:
// everything.hpp names them.
#pragma once

// First, so that what they say of a wrong call stands among the first lines of what the compiler says.
#include <kolo/reduce/operators.hpp>
#include <kolo/schedule/family.hpp>

#include <kolo/collective/check.hpp>

#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/alltoall.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/collective/gather.hpp>
#include <kolo/collective/reduce.hpp>
#include <kolo/collective/reduce_scatter.hpp>
#include <kolo/collective/scan.hpp>
#include <kolo/collective/scatter.hpp>
#include <kolo/collective/topology_of.hpp>
#include <kolo/core/own_header.hpp>
#include <kolo/execute/self.hpp>
#include <kolo/launch/processes.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/schedule/binomial.hpp>
#include <kolo/schedule/bruck.hpp>
#include <kolo/schedule/chain.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/circulant_pipelined.hpp>
#include <kolo/schedule/direct.hpp>
#include <kolo/schedule/dissemination.hpp>
#include <kolo/schedule/double_tree.hpp>
#include <kolo/schedule/neighbour_exchange.hpp>
#include <kolo/schedule/pairwise.hpp>
#include <kolo/schedule/rabenseifner.hpp>
#include <kolo/schedule/recursive_doubling.hpp>
#include <kolo/schedule/recursive_halving.hpp>
#include <kolo/schedule/recursive_multiplying.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/swing.hpp>
#include <kolo/schedule/two_level.hpp>
#include <kolo/schedule/van_de_geijn.hpp>
#include <kolo/shm/heap.hpp>
#include <kolo/shm/symmetric.hpp>
#include <kolo/version.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/bucket.hpp>
#include <kolo/view/device.hpp>
#include <kolo/view/float16.hpp>
#include <kolo/view/strided.hpp>

// What is not here is known by name, so that who uses it hears which header to include.
namespace kolo::inline KOLO_ABI {

void broadcast_parameters(detail::core::own_header::train, ...);
void broadcast_object(detail::core::own_header::train, ...);
void on_root(detail::core::own_header::train, ...);
void shard(detail::core::own_header::train, ...);
template <class Comm, class Optimizer, class Range, class Algorithm, class Op>
  requires detail::core::own_header::includes_kolo_train_hpp<Comm>
class distributed_optimizer;
template <class C, class... Rest>
  requires(!detail::core::own_header::includes_kolo_train_hpp<C>)
distributed_optimizer(C&, Rest&&...)
->distributed_optimizer<typename detail::core::own_header::train_is_needed<C>::here, C, C, C, C>;
template <class Comm, class Rule, class Range, class Algorithm, class Op>
  requires detail::core::own_header::includes_kolo_train_hpp<Comm>
class sharded_optimizer;
template <class C, class... Rest>
  requires(!detail::core::own_header::includes_kolo_train_hpp<C>)
sharded_optimizer(C&, Rest&&...)
->sharded_optimizer<typename detail::core::own_header::train_is_needed<C>::here, C, C, C, C>;

namespace simulate {
void run(detail::core::own_header::simulate, ...);
}  // namespace simulate

void explain(detail::core::own_header::explain, ...);
void fit(detail::core::own_header::fit, ...);
void use_tuning(detail::core::own_header::fit, ...);
void dump(detail::core::own_header::dump, ...);

template <Transport Base>
  requires detail::core::own_header::includes_kolo_checked_hpp<Base>
class checked;
template <Transport A, Transport B, class Rule>
  requires detail::core::own_header::includes_kolo_composite_hpp<A>
class composite;

}  // namespace kolo::inline KOLO_ABI
