// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo::native{}: the results and refusals of MPI's own collectives behind the same calls.
#include <cstdint>
#include <memory>
#include <utility>

#include "collectives/movements.hpp"
#include "mpi/layouts.hpp"
#include "mpi/world.hpp"

using namespace testing;

namespace {
bool is_left_out = false;  ///< MPI's next reduce_scatter does nothing
}

// A wrapper through the PMPI profiling interface.
extern "C" int MPI_Ireduce_scatter(const void* in, void* out, const int* counts, MPI_Datatype type, MPI_Op op,
                                   MPI_Comm comm, MPI_Request* r) {
  if (!std::exchange(is_left_out, false)) return PMPI_Ireduce_scatter(in, out, counts, type, op, comm, r);
  return *r = MPI_REQUEST_NULL, MPI_SUCCESS;
}

namespace {

constexpr kolo::native native{};

template <class T>
constexpr bool has_sum = kolo::native_of<kolo::mpi::transport>::has<kolo::kind::allreduce, T, kolo::sum_t>();
static_assert(has_sum<float> && has_sum<double> && has_sum<long double> && has_sum<std::uint64_t>);
#ifdef __SIZEOF_FLOAT128__
__extension__ typedef __float128 quad;  // a floating-point type if GNU extensions are on
static_assert(!has_sum<quad>);
#endif

/// Compares values, not bytes: a long double has padding.
template <class T>
void expect_values(complaints& wrong, const char* name, const std::vector<T>& got, const std::vector<T>& wanted) {
  wrong.expect(got == wanted, std::string{name} + " is wrong");
}

template <class T, class Op, class F>
void try_native(complaints& wrong, kolo::mpi::communicator& comm, const char* name, Op op, F plain) {
  const int p = comm.size(), r = comm.rank();
  const auto at = [](int rank, std::size_t i) {
    return static_cast<T>(static_cast<std::size_t>(rank + 1) * (i % 3 + 1));
  };
  const auto wanted = combined<T>(0, p, 100, plain, at);
  const auto in = filled<T>(100, [&](std::size_t i) { return at(r, i); });
  std::vector<T> out(100), x = in, started = in;
  kolo::allreduce(comm, in, out, op, native);
  expect_values(wrong, name, out, wanted);
  kolo::allreduce(comm, x, op, native);
  expect_values(wrong, name, x, wanted);
  auto request = kolo::start_allreduce(comm, started, op, native);
  while (!request.test()) continue;
  expect_values(wrong, name, started, wanted);
}

/// Every type and operator, with numbers so small that floats are exact.
template <class T>
void every_operator(mpi_world& world, const char* type) {
  world.run(type, [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD};
    try_native<T>(wrong, comm, "sum", kolo::sum, [](T a, T b) { return static_cast<T>(a + b); });
    if (sizeof(T) >= 4)
      try_native<T>(wrong, comm, "product", kolo::product, [](T a, T b) { return static_cast<T>(a * b); });
    try_native<T>(wrong, comm, "min", kolo::min, [](T a, T b) { return std::min(a, b); });
    try_native<T>(wrong, comm, "max", kolo::max, [](T a, T b) { return std::max(a, b); });
    if constexpr (std::integral<T>) {
      try_native<T>(wrong, comm, "bit_and", kolo::bit_and, [](T a, T b) { return static_cast<T>(a & b); });
      try_native<T>(wrong, comm, "bit_or", kolo::bit_or, [](T a, T b) { return static_cast<T>(a | b); });
      try_native<T>(wrong, comm, "bit_xor", kolo::bit_xor, [](T a, T b) { return static_cast<T>(a ^ b); });
    } else {
      std::vector<T> x(10, static_cast<T>(comm.rank())), y(10), mine(kolo::block(10, comm.size(), comm.rank()).count);
      kolo::reduce(comm, x, y, kolo::average, comm.size() - 1, native);
      kolo::reduce_scatter(comm, x, mine, kolo::average, native);
      kolo::allreduce(comm, x, kolo::average, native);
      const auto wanted = static_cast<T>(comm.size() - 1) / 2;
      expect_values(wrong, "average", x, std::vector<T>(10, wanted));
      expect_values(wrong, "average at the root", y,
                    std::vector<T>(10, comm.rank() == comm.size() - 1 ? wanted : T{0}));
      expect_values(wrong, "average of a block", mine, std::vector<T>(mine.size(), wanted));
    }
  });
}

/// An epilogue also follows MPI's own reduction: for all of this rank's block at once.
void epilogues(mpi_world& world) {
  world.run("an epilogue", [](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD};
    std::vector<int> in(10, 1), out(kolo::block(10, comm.size(), comm.rank()).count), seen;
    const auto see = [&](std::size_t first, std::size_t count) {
      seen.insert(seen.end(), out.begin() + static_cast<long>(first), out.begin() + static_cast<long>(first + count));
    };
    const kolo::detail::execute::epilogue then{
        [](void* self, std::size_t first, std::size_t count) { (*static_cast<decltype(see)*>(self))(first, count); },
        const_cast<void*>(static_cast<const void*>(&see))};
    const kolo::bucket whole{out};
    kolo::start_reduce_scatter(comm, in, kolo::detail::collective::followed{whole, &then}, kolo::sum, native).wait();
    expect_values(wrong, "what the epilogue has seen", seen, std::vector<int>(out.size(), comm.size()));
  });
}

void every_collective(mpi_world& world) {
  world.run("every collective of MPI's own", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD};
    const int p = comm.size(), r = comm.rank();
    for (const auto n : counts_for(p)) {
      try_broadcast(comm, wrong, "broadcast", n, native);
      try_allgather(comm, wrong, "allgather", n, native);
      try_gather_and_scatter(comm, wrong, "gather and scatter", n, native);
      try_alltoall(comm, wrong, "alltoall", n, native);
      for (const int root : roots_of(p))
        try_reduce_of<int>(comm, wrong, say(comm, "reduce", n, root), n, root, kolo::sum, int_of, native);
      const auto in = filled<int>(n, [&](std::size_t i) { return int_of(r, i); });
      const auto mine = kolo::block(n, p, r);
      const auto all = combined<int>(0, p, n, plus, int_of);
      std::vector<int> part(mine.count), up_to_here(n, -1), before(n, -1), x = in;
      kolo::reduce_scatter(comm, in, part, kolo::sum, native);
      expect_bytes(wrong, "reduce_scatter", r, part.data(), all.data() + mine.first, mine.count, sizeof(int));
      kolo::scan(comm, in, up_to_here, kolo::sum, native);
      kolo::scan(comm, x, x, kolo::sum, native);
      kolo::exclusive_scan(comm, in, before, kolo::sum, native);
      expect_same(wrong, "scan", r, up_to_here, combined<int>(0, r + 1, n, plus, int_of));
      expect_same(wrong, "scan in place", r, x, up_to_here);
      if (r > 0) expect_same(wrong, "exclusive_scan", r, before, combined<int>(0, r, n, plus, int_of));
      kolo::barrier(comm, native);
    }
    std::vector<int> x(1000, 1);
    auto plan = kolo::plan_allreduce(comm, x, kolo::sum, native);
    auto other = kolo::plan_allreduce(comm, x, kolo::sum, kolo::ring{});
    plan.run(), other.run(), plan.run();
    expect_same(wrong, "a plan", r, x, std::vector<int>(1000, p * p * p));
  });
}

struct natively {
  kolo::native allreduce, reduce, reduce_scatter, broadcast, allgather, gather, scatter, alltoall, scan;
};

void layouts(mpi_world& world) {
  world.run("a view that MPI's own collectives cannot take is copied", [&](complaints& wrong) {
    kolo::mpi::communicator comm{MPI_COMM_WORLD};
    layouts_of_a_rank rank{wrong, comm};
    rank.reduce_all(natively{}), rank.move_all(natively{});
    std::vector<float> x(12, static_cast<float>(comm.rank()));
    const auto mine = kolo::block(12, comm.size(), comm.rank());
    kolo::reduce_scatter(comm, x, std::span{x}.subspan(mine.first, mine.count), kolo::average, native);
    for (std::size_t i = 0; i < 12; ++i)
      wrong.expect(x[i] == (i - mine.first < mine.count ? static_cast<float>(comm.size() - 1) / 2
                                                        : static_cast<float>(comm.rank())),
                   "reduce_scatter in place");
    kolo::strided<float, 2> rows{x.data(), {3, 2}, {4, 1}};
    x.assign(12, 1);
    auto plan = kolo::plan_allreduce(comm, rows, kolo::average, native);
    plan.run(), x[0] = 2, plan.run();
    wrong.expect(x[0] == 2 && x[1] == 1 && x[2] == 1, "a plan of a native call on rows");
  });
}

template <class F>
void expect_refusal(complaints& wrong, const char* sentence, F call) {
  try {
    call();
    wrong.say(std::string{"was not refused: "} + sentence);
  } catch (const kolo::error& e) {
    wrong.expect(e.code() == kolo::errc::invalid_argument && std::string{e.what()}.find(sentence) != std::string::npos,
                 e.what());
  }
}

void refusals(mpi_world& world) {
  world.run("MPI's own collectives refuse more than 2^31 - 1 bytes", [&](complaints& wrong) {
    std::vector<float> x(12);
    kolo::mpi::communicator comm{MPI_COMM_WORLD};
    const std::span<float> huge{x.data(), std::size_t{1} << 30};  // never touched
    expect_refusal(wrong, "at most 2^31 - 1 bytes", [&] { kolo::allreduce(comm, huge, kolo::sum, native); });
    kolo::mpi::communicator other{MPI_COMM_WORLD};
    const auto mine = kolo::block(huge.size() / 2, other.size(), other.rank());
    expect_refusal(wrong, "at most 2^31 - 1 bytes", [&] {
      kolo::reduce_scatter(other, huge.first(huge.size() / 2), huge.first(mine.count), kolo::sum, native);
    });
  });
  world.run("MPI's own reduce_scatter takes 2^30 bytes, on any number of ranks", [&](complaints& wrong) {
    if (world.size() == 1) return;  // one rank does not call MPI
    kolo::mpi::communicator comm{MPI_COMM_WORLD};
    const std::size_t n = std::size_t{1} << 28;
    const auto mine = kolo::block(n, comm.size(), comm.rank());
    const std::unique_ptr<float[]> in{new float[n]}, out{new float[mine.count]};  // never touched
    is_left_out = true;
    kolo::reduce_scatter(comm, std::span{in.get(), n}, std::span{out.get(), mine.count}, kolo::sum, native);
    wrong.expect(!std::exchange(is_left_out, false), "MPI's own was not called");
  });
  world.run("a late rank makes MPI's own collective time out", [&](complaints& wrong) {
    if (world.size() == 1) return;
    static int x = 1;  // in use by MPI until it ends
    kolo::mpi::communicator comm{MPI_COMM_WORLD};
    const bool is_late = world.rank() == 0;
    if (is_late) MPI_Barrier(MPI_COMM_WORLD);  // until the others have thrown
    try {
      kolo::allreduce(comm, std::span{&x, 1}, kolo::sum, native,
                      {.timeout = is_late ? std::chrono::seconds{20} : std::chrono::milliseconds{100}});
      kolo::barrier(comm);  // the late rank's allreduce may complete; then barrier reports the timeout
      wrong.say("the deadline did not hold");
    } catch (const kolo::error& e) {
      wrong.expect(e.code() == kolo::errc::timeout, e.what());
    }
    if (!is_late) MPI_Barrier(MPI_COMM_WORLD);
  });
}

}  // namespace

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv};
  mpi_world world;
  every_operator<std::int8_t>(world, "int8_t");
  every_operator<unsigned char>(world, "unsigned char");
  every_operator<std::uint16_t>(world, "uint16_t");
  every_operator<int>(world, "int");
  every_operator<long long>(world, "long long");
  every_operator<std::uint64_t>(world, "uint64_t");
  every_operator<float>(world, "float");
  every_operator<double>(world, "double");
  every_operator<long double>(world, "long double");
  if (world.size() <= 4) every_collective(world);
  if (world.size() <= 4) layouts(world);
  epilogues(world);
  refusals(world);
  return world.status();
}
