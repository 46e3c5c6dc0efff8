// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// automatic over MPI: it selects MPI's own collectives where they are faster and give the bits that the caller asks for; all ranks make the same choice.
#include <kolo/explain.hpp>
#include <kolo/fit.hpp>

#include <cstdint>

#include "mpi/world.hpp"

namespace {
int begun = 0;  ///< calls of MPI's own collectives by this rank
}

// Wrappers through the PMPI profiling interface.
extern "C" {
int MPI_Iallreduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* r) {
  return ++begun, PMPI_Iallreduce(in, out, n, type, op, comm, r);
}
int MPI_Ibcast(void* x, int n, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* r) {
  return ++begun, PMPI_Ibcast(x, n, type, root, comm, r);
}
int MPI_Ialltoallv(const void* in, const int* counts, const int* firsts, MPI_Datatype type, void* out, const int* back,
                   const int* to, MPI_Datatype other, MPI_Comm comm, MPI_Request* r) {
  return ++begun, PMPI_Ialltoallv(in, counts, firsts, type, out, back, to, other, comm, r);
}
int MPI_Iallgatherv(const void* in, int n, MPI_Datatype type, void* out, const int* counts, const int* firsts,
                    MPI_Datatype other, MPI_Comm comm, MPI_Request* r) {
  return ++begun, PMPI_Iallgatherv(in, n, type, out, counts, firsts, other, comm, r);
}
}

namespace {

using namespace testing;
using kolo::kind;

constexpr auto any_order = kolo::ordered<kolo::order::any>(kolo::automatic{});
constexpr kind kinds[] = {kind::allreduce, kind::reduce_scatter, kind::allgather, kind::broadcast,
                          kind::reduce,    kind::gather,         kind::scatter,   kind::alltoall,
                          kind::scan,      kind::exclusive_scan, kind::barrier};

/// A round takes 1 us, and each of MPI's own collectives takes `seconds`.
kolo::tuning table_with_native(double seconds) {
  kolo::tuning t;
  t.rows[0] = {.ranks = 2, .runs_as = kolo::pattern::rounds, .round = 1e-6};
  t.native[0].ranks = 2;
  for (auto& times : t.native[0].seconds) times.fill(seconds);
  return t;
}

kolo::mpi::communicator with_native(double seconds) {
  kolo::mpi::communicator comm{MPI_COMM_WORLD, kolo::mpi::options{.timeout = std::chrono::seconds{60}}};
  kolo::use_tuning(comm, table_with_native(seconds));
  return comm;
}

/// Checks whether `call` uses MPI's own collective.
template <class F>
void expect_native(complaints& wrong, const char* what, bool wanted, F call) {
  const int before = begun;
  call();
  wrong.expect((begun > before) == wanted,
               std::string{what} + (wanted ? ": MPI's own was not used" : ": MPI's own was used"));
}

void what_bits_allow(mpi_world& world) {
  world.run(
      "automatic selects MPI's own collective where it is faster and no bit depends on it", [&](complaints& wrong) {
        auto cheap = with_native(1e-9), dear = with_native(1);
        const int p = cheap.size(), r = cheap.rank();
        std::vector<float> f(5, static_cast<float>(r));
        std::vector<std::int16_t> i(5, static_cast<std::int16_t>(r));
        std::vector<double> part(3, r), all(3 * static_cast<std::size_t>(p));
        const bool several = p > 1;
        expect_native(wrong, "a sum of floats", false, [&] { kolo::allreduce(cheap, f, kolo::sum); });
        expect_native(wrong, "the maximum of floats", false,
                      [&] { kolo::allreduce(cheap, f, kolo::max); });  // MPI has no rule for NaN
        expect_native(wrong, "a sum of floats in any order", several,
                      [&] { kolo::allreduce(cheap, f, kolo::sum, any_order); });
        expect_native(wrong, "a sum of integers", several, [&] { kolo::allreduce(cheap, i, kolo::sum); });
        wrong.expect(i[4] == p * (p - 1) / 2, "the sum of integers");
        expect_native(wrong, "MPI's own, where it is slower", false,
                      [&] { kolo::allreduce(dear, i, kolo::max, any_order); });
        expect_native(wrong, "the caller's operator", false, [&] {
          kolo::allreduce(
              cheap, i, [](int a, int b) { return a | b; }, any_order);
        });
        expect_native(wrong, "a narrow wire", false,
                      [&] { kolo::allreduce(cheap, f, kolo::wire<kolo::bfloat16>(kolo::sum), any_order); });
        expect_native(wrong, "an allgather", several, [&] { kolo::allgather(cheap, part, all); });
        for (int q = 0; q < p; ++q) wrong.expect(all[3 * static_cast<std::size_t>(q) + 2] == q, "what was gathered");
        expect_native(wrong, "an allgather, where it is slower", false, [&] { kolo::allgather(dear, part, all); });
      });
}

void layouts_and_counts(mpi_world& world) {
  world.run("ranks with other layouts and counts make the same choice", [&](complaints& wrong) {
    auto cheap = with_native(1e-9);
    const int p = cheap.size(), r = cheap.rank();
    const bool several = p > 1;
    std::vector<int> x(12, r == 0 ? 7 : 0), one(6, 1), sum(6);
    const kolo::strided<int, 2> rows{x.data(), {3, 2}, {4, 1}};
    expect_native(wrong, "a broadcast", several, [&] {
      r % 2 == 0 ? kolo::broadcast(cheap, rows, 0) : kolo::broadcast(cheap, std::span{x}.first(6), 0);
    });
    wrong.expect(x[r % 2 == 0 ? 8 : 5] == 7, "what was broadcast");
    kolo::bucket halves{std::span{one}.first(2), std::span{one}.subspan(2)};
    expect_native(wrong, "a sum of two tensors on some ranks and of one on others", several, [&] {
      r % 2 == 0 ? kolo::allreduce(cheap, halves, kolo::sum) : kolo::allreduce(cheap, one, kolo::sum);
    });
    wrong.expect(one == std::vector<int>(6, p), "the sum of two tensors");
    const std::vector<int> counts(static_cast<std::size_t>(p), 2);
    std::vector<int> in(2 * counts.size(), r), out(in.size());
    expect_native(wrong, "an alltoall with counts", false, [&] { kolo::alltoall(cheap, in, out, counts, counts); });
    wrong.expect(out.back() == p - 1, "the result with counts");
    expect_native(wrong, "an alltoall", several, [&] { kolo::alltoall(cheap, in, out); });
    wrong.expect(out.back() == p - 1, "the result without counts");
    std::vector<int> lengths, mine_only(static_cast<std::size_t>(r) + 1, r), everything;
    for (int q = 0; q < p; ++q) lengths.push_back(q + 1);
    everything.resize(static_cast<std::size_t>(p * (p + 1) / 2));
    expect_native(wrong, "an allgather with counts", several,
                  [&] { kolo::allgather(cheap, mine_only, everything, lengths); });
    wrong.expect(everything.back() == p - 1 && everything.front() == 0, "what was gathered with counts");
    const auto mine = kolo::block(12, p, r);
    std::vector<int> y(12, 1);
    kolo::reduce_scatter(cheap, y, std::span{y}.subspan(mine.first, mine.count), kolo::sum);
    wrong.expect(mine.count == 0 || y[mine.first] == p, "reduce_scatter in place");
  });
}

/// Checks that explain names the same choice on all ranks, for all collectives and lengths.
void expect_agreement(complaints& wrong, const kolo::mpi::communicator& comm, bool natives_wanted) {
  std::uint64_t digest = 14695981039346656037u;
  bool any_native = false;
  for (const kind k : kinds)
    for (std::size_t bytes = 1; bytes <= std::size_t{1} << 32; bytes *= 16)
      for (const auto allowed : {kolo::order::fixed_for_size, kolo::order::any}) {
        const auto e = kolo::explain(comm, k, bytes, {.allowed = allowed});
        for (const char c : e.choice) digest = (digest ^ static_cast<unsigned char>(c)) * 1099511628211u;
        const bool is_native = e.choice == "native";
        any_native = any_native || is_native;
        wrong.expect(!is_native || (e.candidates.front().algorithm == "native" && bytes < std::size_t{1} << 31),
                     kolo::name(k));
      }
  std::uint64_t least = 0, most = 0;
  MPI_Allreduce(&digest, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&digest, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  wrong.expect(least == most, "ranks choose differently");
  wrong.expect(any_native == natives_wanted, natives_wanted ? "MPI's own is never chosen" : "MPI's own is chosen");
}

void tables(mpi_world& world) {
  world.run("one host has a default table, several hosts have none until fit", [&](complaints& wrong) {
    if (world.size() == 1) return;
    kolo::mpi::communicator here{MPI_COMM_WORLD}, there{MPI_COMM_WORLD, kolo::mpi::options{.ranks_per_node = 1}};
    const auto told = [](const auto& comm) { return kolo::explain(comm, kind::broadcast, 4096).message(); };
    wrong.expect(told(here).find("by the default table") != std::string::npos, told(here));
    wrong.expect(told(there).find("nobody measured") != std::string::npos &&
                     told(there).find("kolo::fit(comm) measures it") != std::string::npos,
                 told(there));
    expect_agreement(wrong, here, true);
    expect_agreement(wrong, there, false);
    if (world.size() > 4) return;  // fit takes long when oversubscribed
    const auto fitted = kolo::fit(there);
    for (const auto& times : fitted.native[0].seconds)
      wrong.expect(*std::min_element(times.begin(), times.end()) > 0, "fit measured no time for a collective");
    wrong.expect(
        told(there).find("fitted in this run") != std::string::npos && told(there).find("no time") == std::string::npos,
        told(there));
    std::vector<int> x(1000, world.rank());
    kolo::allreduce(there, x, kolo::sum);
    wrong.expect(x[999] == world.size() * (world.size() - 1) / 2, "a sum by a fitted table");
  });
  world.run("use_tuning with other times of MPI's own on one rank is an error on all ranks", [&](complaints& wrong) {
    if (world.size() == 1) return;
    kolo::mpi::communicator comm{MPI_COMM_WORLD};
    try {
      kolo::use_tuning(comm, table_with_native(world.rank() == 0 ? 1e-6 : 2e-6));
      wrong.say("use_tuning accepted different tables");
    } catch (const kolo::error& e) {
      wrong.expect(std::string{e.what()}.find("different tables") != std::string::npos, e.what());
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv};
  mpi_world world;
  what_bits_allow(world);
  layouts_and_counts(world);
  tables(world);
  return world.status();
}
