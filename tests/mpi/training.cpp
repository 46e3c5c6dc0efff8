// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same training over MPI and over shared memory gives the same parameters, bit for bit.
#include <kolo/train.hpp>

#include <cmath>
#include <cstdint>

#include "mpi/world.hpp"

using namespace testing;

namespace {

/// Pseudorandom numbers, the same everywhere.
float noise(std::uint64_t i) {
  i = (i + 1) * 0x9e3779b97f4a7c15u;
  i = (i ^ (i >> 31)) * 0xbf58476d1ce4e5b9u;
  return static_cast<float>(static_cast<double>(i >> 40) / static_cast<double>(1 << 24) - 0.5);
}

struct tensor {
  std::vector<float> value, gradient;
};

struct momentum {
  float rate;
  std::vector<std::vector<float>> speed{};
  void step(std::size_t index, std::span<float> value, std::span<float> gradient) {
    if (speed.size() <= index) speed.resize(index + 1);
    speed[index].resize(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) {
      speed[index][i] = 0.9f * speed[index][i] + gradient[i];
      value[i] -= rate * speed[index][i];
    }
  }
};

constexpr std::size_t inputs = 23, hidden = 31, batch_size = 5;

/// Two layers with a tanh between them; the target is a function of the inputs.
class network {
 public:
  explicit network(int rank)
      : parameters{tensor_of(inputs * hidden, rank), tensor_of(hidden, rank), tensor_of(hidden, rank)} {}

  void backward(std::uint64_t step, int rank) {
    for (auto& p : parameters) std::fill(p.gradient.begin(), p.gradient.end(), 0.0f);
    for (std::size_t sample = 0; sample < batch_size; ++sample) {
      float x[inputs], h[hidden], wanted = 0, got = 0;
      for (std::size_t i = 0; i < inputs; ++i)
        x[i] = noise(((step * 64 + static_cast<std::uint64_t>(rank)) * batch_size + sample) * inputs + i);
      for (std::size_t i = 0; i < inputs; ++i) wanted += x[i] * x[(i + 1) % inputs];
      for (std::size_t j = 0; j < hidden; ++j) {
        float sum = parameters[1].value[j];
        for (std::size_t i = 0; i < inputs; ++i) sum += parameters[0].value[j * inputs + i] * x[i];
        h[j] = std::tanh(sum);
        got += parameters[2].value[j] * h[j];
      }
      for (std::size_t j = 0; j < hidden; ++j) {
        const float error = got - wanted, below = error * parameters[2].value[j] * (1 - h[j] * h[j]);
        parameters[2].gradient[j] += error * h[j];
        parameters[1].gradient[j] += below;
        for (std::size_t i = 0; i < inputs; ++i) parameters[0].gradient[j * inputs + i] += below * x[i];
      }
    }
  }

  std::vector<tensor> parameters;

 private:
  static tensor tensor_of(std::size_t n, int rank) {
    tensor t{std::vector<float>(n), std::vector<float>(n)};
    for (std::size_t i = 0; i < n; ++i) t.value[i] = noise(n * 1000 + i + 7777 * static_cast<std::size_t>(rank));
    return t;
  }
};

template <class C, class A>
std::vector<float> trained(C& comm, const A& algorithm) {
  network model{comm.rank()};  // every rank has other initial values
  kolo::broadcast_parameters(comm, model.parameters);
  kolo::distributed_optimizer optimizer{comm, momentum{0.01f * static_cast<float>(comm.size())}, model.parameters,
                                        algorithm};
  for (std::uint64_t step = 0; step < 30; ++step) {
    model.backward(step, comm.rank());
    optimizer.step();
  }
  std::vector<float> all;
  for (const auto& p : model.parameters) all.insert(all.end(), p.value.begin(), p.value.end());
  return all;
}

template <class A>
void compare(mpi_world& world, const char* name, const A& algorithm) {
  world.run(name, [&](complaints& wrong) {
    auto shared = kolo::shm::world();  // the ranks that mpiexec started
    wrong.expect(shared.size() == world.size() && shared.rank() == world.rank(),
                 "the shared memory has other ranks than MPI");
    if (shared.size() != world.size()) return;
    const auto wanted = trained(shared, algorithm);
    wrong.expect(std::isfinite(wanted[0]) && wanted[0] != noise(inputs * hidden * 1000),
                 "the training diverged or changed nothing");
    for (const std::size_t piece : {std::size_t{256}, kolo::mpi::options{}.piece_bytes}) {
      if (world.size() > 4 && piece == 256) continue;  // every message costs a context switch
      kolo::mpi::communicator comm{MPI_COMM_WORLD, kolo::mpi::options{.piece_bytes = piece}};
      const auto got = trained(comm, algorithm);
      expect_same(wrong, std::string{"in pieces of "} + std::to_string(piece) + " bytes", world.rank(), got, wanted);
      std::vector<float> of_first = got;
      MPI_Bcast(of_first.data(), static_cast<int>(of_first.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);
      expect_same(wrong, "on every rank", world.rank(), got, of_first);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv};
  mpi_world world;
  compare(world, "ring", kolo::ring{});
  compare(world, "recursive_doubling", kolo::recursive_doubling{});
  compare(world, "circulant", kolo::circulant{});
  compare(world, "rabenseifner", kolo::rabenseifner{});
  compare(world, "two_shot", kolo::two_shot{});
  return world.status();
}
