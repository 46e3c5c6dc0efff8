// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls and optimizers compile after macros that a program may have: the debug mode of libstdc++, whose checks run at
// compile time as well; the I of <complex.h> in the dialects of GNU; the None of X11.
#define _GLIBCXX_DEBUG 1
#define I (__extension__ 1.0iF)
#define None 0L
#include <kolo/point_to_point.hpp>
#include <kolo/train.hpp>

#include <cstddef>
#include <vector>

namespace {

struct parameter {
  std::vector<float> value, gradient;
};

template <class Comm>
void every_collective(Comm& comm) {
  std::vector<float> x(2), all(4), parts(4);
  const std::vector<std::size_t> counts{1, 3};
  kolo::allreduce(comm, x, kolo::sum);
  kolo::reduce_scatter(comm, all, x, counts, kolo::sum);
  kolo::reduce(comm, all, parts, kolo::average, 0);
  kolo::broadcast(comm, x, 0);
  kolo::allgather(comm, x, all, counts);
  kolo::gather(comm, x, all, 0);
  kolo::scatter(comm, all, x, counts, 0);
  kolo::alltoall(comm, all, parts, counts, counts);
  kolo::scan(comm, all, parts, kolo::sum, kolo::recursive_doubling{});
  kolo::barrier(comm);
  kolo::exchange(comm, all, parts, 1 - comm.rank());
}

template <class Comm>
void optimizers(Comm& comm) {
  std::vector<parameter> model(2);
  kolo::distributed_optimizer replicated{comm, kolo::replicated{kolo::update::sgd{}}, model};
  kolo::sharded_optimizer sharded{comm, kolo::update::adamw{}, model};
  replicated.step(), sharded.step();
}

}  // namespace

int main() {
  kolo::threads::run(2, [](auto& comm) { every_collective(comm), optimizers(comm); });
}
