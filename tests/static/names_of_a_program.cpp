// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls and training compile with a program that has functions of the names that the headers use, and whose types bring them in.
#include <kolo/point_to_point.hpp>
#include <kolo/train.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace program {

struct parameter {
  std::vector<float> value, gradient;
  kolo::row_list* rows = nullptr;
};

/// A view of two runs.
struct halves {
  using element_type = float;
  std::span<float> first{}, second{};
  std::size_t size() const { return first.size() + second.size(); }
  std::span<float> run(std::size_t i) const {
    return i < first.size() ? first.subspan(i) : second.subspan(i - first.size());
  }
};
struct halved_parameter {
  halves value{}, gradient{};
};

struct plus {
  template <class T>
  constexpr T operator()(const T& a, const T& b) const {
    return a + b;
  }
};
struct descent {
  static constexpr std::size_t states = 0;
  template <class T, class S>
  void operator()(std::span<T> value, std::span<const T> gradient, S&, long) const {
    for (std::size_t i = 0; i < value.size(); ++i) value[i] -= gradient[i];
  }
};

template <class X>
int as_view(X&) = delete;
template <class P>
std::string name_of(P&, std::size_t) = delete;
template <class P>
bool is_local(P&) = delete;
template <class P>
int rows_of(P&) = delete;
template <class Op>
float divisor_before(const Op&) = delete;
template <class V>
void scale(const V&, double) = delete;
template <class V>
int largest_magnitude(const V&) = delete;
template <class V, class F>
void for_runs(const V&, F) = delete;
template <class R, class F>
void each_range(R&, F) = delete;
template <class R, class F>
void each_parameter(R&, F) = delete;
template <class R, class F>
void with_parameter(R&, std::size_t, F) = delete;
template <class R>
int values_of(R&) = delete;
template <class Rule, class... Rest>
void apply(const Rule&, const Rest&...) = delete;
template <class R>
void load_checkpoint(const std::string&, R&) = delete;
template <class Comm, class R>
void broadcast_parameters(Comm&, R&, int) = delete;
template <class O, class... Rest>
std::size_t read_shard(O&, Rest&...) = delete;

}  // namespace program

namespace {

void calls(auto& comm, auto& x, auto& y) {
  kolo::allreduce(comm, x, program::plus{}), kolo::reduce_scatter(comm, x, y, kolo::sum);
  kolo::reduce(comm, x, y, kolo::sum, 0), kolo::scan(comm, x, y, kolo::sum), kolo::broadcast(comm, x, 0);
  kolo::allgather(comm, x, y), kolo::gather(comm, x, y, 0), kolo::alltoall(comm, x, y);
  kolo::exchange(comm, x, y, 0), kolo::shift(comm, x, y, 1);
}

void all_of_training(auto& comm, auto& model, auto op) {
  constexpr kolo::update::sgd rule{};
  kolo::clip_by_global_norm(model, 1.0);
  kolo::broadcast_parameters(comm, model);
  kolo::distributed_optimizer replicated{comm, kolo::replicated{rule}, model, op};
  kolo::sharded_optimizer sharded{comm, program::descent{}, model};
  kolo::outer_optimizer outer{comm, program::descent{}, model};
  replicated.step(), sharded.step(), outer.step();
  kolo::save_sharded_checkpoint("checkpoint", sharded), kolo::load_sharded_checkpoint("checkpoint", sharded);
}

}  // namespace

int main() {
  kolo::threads::run(2, [](auto& comm) {
    program::halves x, y;
    calls(comm, x, y);
    std::vector<program::parameter> model(2);
    std::vector<program::halved_parameter> halved(2);
    all_of_training(comm, model, kolo::average), all_of_training(comm, halved, program::plus{});
    kolo::save_checkpoint("checkpoint", model), kolo::load_checkpoint("checkpoint", model);
    kolo::restore_checkpoint(comm, "checkpoint", model);
  });
}
