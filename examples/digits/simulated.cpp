// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the training loop on the simulated ranks of kolo::virtual_time.
#include "simulated.hpp"

#include "algorithms.hpp"
#include "training.hpp"

#include <cstdio>
#include <stdexcept>

#if __has_include(<nlohmann/json.hpp>)
#include <kolo/adapt/json.hpp>
#include <kolo/simulate/simulated.hpp>

namespace digits {

run train_simulated(int ranks, const settings& s, const split& data, std::size_t steps) {
  const auto network = kolo::simulate::read_network(s.simulate);
  std::printf("\n%d simulated rank%s on the network described in %s; computation: %g us per image, everything else 0\n",
              ranks, ranks == 1 ? "" : "s", s.simulate.c_str(), s.image_us);
  run r{ranks, steps * std::size_t(s.batch), {}, std::vector<double>(steps)};
  const auto times = kolo::virtual_time::run(ranks, network, [&](auto& comm) {
    with_algorithm(s.algorithm, [&](auto algorithm) { train(comm, algorithm, s, data, r.result, r.curve); });
  });
  std::printf("Virtual time: %.6f s, %.6f s per epoch\n", times.seconds, r.result.seconds.total() / s.epochs);
  return r;
}

}  // namespace digits
#else

namespace digits {

run train_simulated(int, const settings&, const split&, std::size_t) {
  throw std::runtime_error("--simulate needs nlohmann-json3-dev, which was missing when this program was built");
}

}  // namespace digits
#endif
