// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Averages over another number than the ranks', or without the named wire type; an update rule in place of an optimizer.
// expect: kolo: order::tree<L> averages over L, an optimizer over its ranks
// expect: kolo: order::tree<L> averages over L, an outer optimizer over its ranks
// expect: kolo: an optimizer has step\(index, value, gradient\); write kolo::replicated\{rule\} for an update rule
// expect: kolo: the wire goes outside
// expect: kolo: predivide divides each operand and multiplies the result once
#include <kolo/kolo.hpp>
#include <kolo/train.hpp>

#include <span>
#include <vector>

struct parameter {
  std::span<float> value, gradient;
};

int main() {
  kolo::threads::run(2, [](auto& comm) {
    std::vector<float> value(4), gradient(4);
    const std::vector<parameter> parameters{{value, gradient}};
    const kolo::replicated inner{kolo::update::sgd{}};
#ifdef KOLO_WRONG
    constexpr auto by_tree = kolo::ordered<kolo::order::tree<4>>(kolo::automatic{});
    kolo::distributed_optimizer{comm, inner, parameters, by_tree};
    kolo::outer_optimizer{comm, kolo::update::nesterov{}, parameters, by_tree};
    kolo::distributed_optimizer{comm, kolo::update::sgd{}, parameters};
    kolo::distributed_optimizer{comm, inner, parameters, kolo::predivide(kolo::wire<kolo::bfloat16>(kolo::average), 8)};
    kolo::distributed_optimizer{comm, inner, parameters, kolo::predivide(kolo::product, 8)};
#else
    kolo::distributed_optimizer{comm, inner, parameters, kolo::optimizer_options{.leaves = 4}};
    kolo::outer_optimizer{comm, kolo::update::nesterov{}, parameters};
    kolo::distributed_optimizer{comm, inner, parameters, kolo::wire<kolo::bfloat16>(kolo::predivide(kolo::average, 8))};
#endif
  });
}
