// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A collective gives the same bits wherever a tensor lies: in memory that peers address, in ordinary memory, in pieces of either.
#include <array>
#include <bit>

#include "collectives/elements.hpp"
#include "collectives/ranks.hpp"
#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

using namespace testing;

namespace {

#ifdef KOLO_SANITIZED
// Each access takes many times as long. A block still has several pieces.
constexpr std::size_t shrink = 6, shrink_most = 32;
constexpr int fewer = 3;
constexpr std::array are_whole{true};  // other values would lie in the same memory
#else
constexpr std::size_t shrink = 1, shrink_most = 1;
constexpr int fewer = 1;
constexpr std::array are_whole{true, false};
#endif

enum kind { ordinary, symmetric, heap, pieces, kinds };
constexpr const char* kind_names[] = {"ordinary", "symmetric", "heap", "pieces"};

/// Buffers for one tensor in memory of each kind. The memory around the tensor must not change.
class room {
 public:
  template <class C>
  room(C& comm, std::size_t most)
      : ordinary_(most + 2 * margin),
        symmetric_{kolo::symmetric<float>(comm, most + 2 * margin)},
        heap_(most + 2 * margin, 0.0f, kolo::shm::allocator<float>{comm}) {
    for (auto& piece : pieces_) piece = shared(most / 2 + 2 * margin, 0.0f, heap_.get_allocator());
  }

  /// Makes n elements of that kind, as one run or several; they and the memory around them are `background`.
  std::vector<std::span<float>>& lay_out(kind k, std::size_t n) {
    runs_.clear(), guarded_.clear();
    if (k == ordinary) add(ordinary_.data(), n);
    if (k == symmetric) add(symmetric_.data(), n);
    if (k == heap) add(heap_.data(), n);
    if (k == pieces) {
      const std::size_t counts[] = {n / 3, n / 2, 0, n - n / 3 - n / 2};
      for (std::size_t i = 0; i < 4; ++i) add(pieces_[i].data(), counts[i]);
    }
    return runs_;
  }
  void write(const std::vector<float>& values) {
    auto from = values.begin();
    for (const auto run : runs_)
      std::copy_n(from, run.size(), run.begin()), from += static_cast<std::ptrdiff_t>(run.size());
  }
  std::vector<float> read() const {
    std::vector<float> values;
    for (const auto run : runs_) values.insert(values.end(), run.begin(), run.end());
    return values;
  }
  bool is_intact_around() const {
    return std::all_of(guarded_.begin(), guarded_.end(),
                       [](auto g) { return std::count(g.begin(), g.end(), background) == margin; });
  }

 private:
  using shared = std::vector<float, kolo::shm::allocator<float>>;
  static constexpr std::size_t margin = 8;
  static constexpr float background = -77.25f;

  void add(float* at, std::size_t n) {
    std::fill(at, at + n + 2 * margin, background);
    guarded_.insert(guarded_.end(), {std::span{at, margin}, std::span{at + margin + n, margin}});
    runs_.emplace_back(at + margin, n);
  }

  std::vector<float> ordinary_;
  kolo::symmetric_array<float> symmetric_;
  shared heap_;
  std::array<shared, 4> pieces_;
  std::vector<std::span<float>> runs_, guarded_;
};

/// Calls f with the tensor as a view: a span, or a bucket if it is in pieces.
template <class F>
void with_view(std::vector<std::span<float>>& runs, F f) {
  if (runs.size() == 1) return f(runs[0]);
  f(kolo::bucket{std::span{runs}});
}

/// A transport of threads that counts the calls of make_remote_ref.
struct counts_references : kolo::threads::transport {
  using Base = kolo::threads::transport;
  using Base::Base;
  explicit counts_references(Base&& made) : Base{std::move(made)} {}
  counts_references split(int color, int key) { return counts_references{Base::split(color, key)}; }
  kolo::remote_ref make_remote_ref(const std::byte* data, std::size_t bytes) {
    ++references;
    return Base::make_remote_ref(data, bytes);
  }
  int references = 0;
};

/// What a rank holds at i: an integer, whose sums are exact, or any float.
float value(bool whole, int rank, std::size_t i) {
  if (whole) return static_cast<float>(number(rank, i));
  std::uint64_t x = (i + 1) * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(rank) * 0xd1b54a32d192ed03;
  x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9;
  return std::bit_cast<float>(static_cast<std::uint32_t>(x >> 41 | ((x >> 20 & 31) + 110) << 23 | x >> 63 << 31));
}
std::vector<float> values_of(bool whole, int rank, std::size_t n) {
  return filled<float>(n, [&](std::size_t i) { return value(whole, rank, i); });
}

/// One collective: its name, input and output lengths, and expected result for integers.
struct subject {
  const char* name;
  bool in_place;
  std::size_t in, out;
  std::vector<float> wanted;
};

/// Makes the same call with input and output in memory of several kinds, most of which differ between ranks.
template <class C>
class bench_of_kinds {
 public:
  bench_of_kinds(C& comm, complaints& wrong, std::size_t most)
      : comm_{comm}, wrong_{wrong}, in_{comm, most}, out_{comm, most} {}

  /// Tries every stride-th of 64 combinations of kinds; fewer under a sanitizer.
  template <class Call>
  void run(const subject& s, int stride, Call call) {
    run_on_runs(s, stride, [&](runs& operand, runs& result) {
      with_view(operand, [&](auto from) { with_view(result, [&](auto to) { call(from, to); }); });
    });
  }

 private:
  using runs = std::vector<std::span<float>>;
  using call_on_runs = callable_ref<runs&, runs&>;

  void run_on_runs(const subject& s, int stride, call_on_runs call) {
    for (const bool whole : are_whole) {
      const auto mine = values_of(whole, comm_.rank(), s.in);
      const auto wanted = once(s, call, mine, ordinary, ordinary);
      if (whole) expect_same(wrong_, std::string{s.name} + " in ordinary memory", comm_.rank(), wanted, s.wanted);
      for (int pattern = 0; pattern < 64; pattern += fewer * stride) {
        const auto in = (pattern + pattern / 16 % 2 * comm_.rank()) % kinds,
                   out = (pattern / 4 + pattern / 32 * 3 * comm_.rank()) % kinds;
        const auto got = once(s, call, mine, static_cast<kind>(in), static_cast<kind>(out));
        expect_same(wrong_, said(s, in, out), comm_.rank(), got, wanted);
      }
    }
  }

  static std::string said(const subject& s, int in, int out) {
    return std::string{s.name} + " of " + std::to_string(s.in) +
           (s.in_place ? "" : std::string{" from "} + kind_names[in] + " to") + (s.in_place ? " in " : " ") +
           kind_names[out];
  }

  std::vector<float> once(const subject& s, call_on_runs call, const std::vector<float>& mine, kind in, kind out) {
    auto& result = out_.lay_out(out, s.out);
    auto& operand = s.in_place ? result : in_.lay_out(in, s.in);
    (s.in_place ? out_ : in_).write(mine);
    call(operand, result);
    wrong_.expect(out_.is_intact_around(), said(s, in, out) + ": the memory around the result changed");
    if (!s.in_place)
      wrong_.expect(in_.is_intact_around() && in_.read() == mine, said(s, in, out) + ": the input changed");
    return out_.read();
  }

  C& comm_;
  complaints& wrong_;
  room in_, out_;
};

template <class C, class Algorithm>
void try_allreduce(C& comm, bench_of_kinds<C>& bench, std::size_t n, int stride, const char* name,
                   Algorithm algorithm) {
  const auto sums =
      combined<float>(0, comm.size(), n, std::plus<>{}, [](int r, std::size_t i) { return value(true, r, i); });
  const auto from_to = [&](auto in, auto out) { kolo::allreduce(comm, in, out, kolo::sum, algorithm); };
  const auto inside = [&](auto, auto x) { kolo::allreduce(comm, x, kolo::sum, algorithm); };
  bench.run({name, false, n, n, sums}, stride, from_to);
  bench.run({name, true, n, n, sums}, stride, inside);
}

template <class C>
void try_reduce_scatter(C& comm, bench_of_kinds<C>& bench, std::size_t n, int stride) {
  const auto mine = kolo::block(n, comm.size(), comm.rank());
  const auto call = [&](auto in, auto out) { kolo::reduce_scatter(comm, in, out, kolo::sum); };
  const auto sums = combined<float>(0, comm.size(), mine.count, std::plus<>{},
                                    [&](int r, std::size_t i) { return value(true, r, mine.first + i); });
  bench.run({"reduce_scatter", false, n, mine.count, sums}, stride, call);
}

template <class C, class Algorithm>
void try_broadcast(C& comm, bench_of_kinds<C>& bench, std::size_t n, int stride, const char* name,
                   Algorithm algorithm) {
  const int root = comm.size() - 1;
  const auto call = [&, root](auto, auto x) { kolo::broadcast(comm, x, root, algorithm); };
  bench.run({name, true, n, n, values_of(true, root, n)}, stride, call);
}

template <class C>
void try_allgather(C& comm, bench_of_kinds<C>& bench, std::size_t n, int stride) {
  const auto p = static_cast<std::size_t>(comm.size());
  const auto call = [&](auto in, auto out) { kolo::allgather(comm, in, out); };
  const auto parts = filled<float>(n * p, [n](std::size_t i) { return value(true, static_cast<int>(i / n), i % n); });
  bench.run({"allgather", false, n, n * p, parts}, stride, call);
}

/// Calls whose blocks have n elements.
template <class C>
void try_all(C& comm, bench_of_kinds<C>& bench, std::size_t n, int stride) {
  const auto p = static_cast<std::size_t>(comm.size());
  try_allreduce(comm, bench, n * p, stride, "allreduce", kolo::automatic{});
  try_allreduce(comm, bench, n * p + 1, stride, "allreduce two_shot", kolo::two_shot{});
  try_allreduce(comm, bench, n, stride, "allreduce one_shot", kolo::one_shot{});
  try_allreduce(comm, bench, n, stride, "allreduce ring", kolo::ring{});
  try_reduce_scatter(comm, bench, n * p + 1, stride);
  try_broadcast(comm, bench, n, stride, "broadcast", kolo::automatic{});
  try_broadcast(comm, bench, n * p, stride, "broadcast two_shot", kolo::two_shot{});
  try_allgather(comm, bench, n, stride);
}

/// Runs f(comm, wrong) on p threads and on p processes. Returns what they found wrong. ThreadSanitizer does not see accesses of other processes.
template <class F>
std::string on_both(int p, F f) {
  const auto rank = [&](auto& comm) {
    complaints wrong;
    f(comm, wrong);
    return wrong.text();
  };
  std::string all;
  for (const auto& said : on_threads(p, rank)) all += said.empty() ? "" : "threads: " + said + '\n';
  if (is_thread_sanitized) return all;
  const auto processes = on_processes(p, rank);
  for (const auto& said : processes.said) all += said.empty() ? "" : "processes: " + said + '\n';
  return all + processes.errors;
}

}  // namespace

TEST_CASE("blocks just too short for a reference, just long enough, and longer than a piece") {
  const int p = GENERATE(2, 3, 4);
  CHECK(on_both(p, [](auto& comm, complaints& wrong) {
          bench_of_kinds bench{comm, wrong, 16'385 * static_cast<std::size_t>(comm.size()) + 1};
          for (const std::size_t n : {4095u, 4096u, 16'385u}) try_all(comm, bench, n, n == 4096u ? 3 : 11);
        }) == "");
}

TEST_CASE("broadcast and allgather through a board's line, through its blocks, and by reference") {
  const int p = GENERATE(2, 4, 5, 7);
  CHECK(on_both(p, [](auto& comm, complaints& wrong) {
          bench_of_kinds bench{comm, wrong, 70'001 * static_cast<std::size_t>(comm.size())};
          for (const std::size_t n : {1u, 24u, 25u, 16'384u, 16'385u, 65'536u, 70'001u})
            try_broadcast(comm, bench, n, n > 100u ? 11 : 3, "broadcast one_shot", kolo::one_shot{});
          for (const std::size_t n : {25u, 16'385u, 70'001u}) try_allgather(comm, bench, n, n > 20'000u ? 9 : 17);
        }) == "");
}

TEST_CASE("tensors of a few mebibytes") {
  const int p = GENERATE(2, 3, 4);
  CHECK(on_both(p, [](auto& comm, complaints& wrong) {
          const std::size_t n = 250'007 / shrink;
          bench_of_kinds bench{comm, wrong, n * static_cast<std::size_t>(comm.size()) + 1};
          try_all(comm, bench, n, 21);
        }) == "");
}

TEST_CASE("allgather: a rank with an empty part takes part on the board, however short the slots are") {
  const std::size_t slot_bytes = GENERATE(4u, 15u, 16u);
  CHECK(kolo::shm::launch(5,
                          [](auto& comm) {
                            const std::vector<int, kolo::shm::allocator<int>> heap(4, 0,
                                                                                   kolo::shm::allocator<int>{comm});
                            const std::vector<int> part(40, comm.rank());
                            const std::vector<std::size_t> counts{0, 40, 40, 40, 40};
                            std::vector<int> all(160);
                            const auto in = comm.rank() == 0 ? std::span{heap.data(), 0} : std::span{part.data(), 40};
                            kolo::allgather(comm, in, all, counts, kolo::one_shot{});
                            return all[0] == 1 && all[159] == 4 ? 0 : 1;
                          },
                          {.timeout = std::chrono::seconds{10}, .slot_bytes = slot_bytes}) == 0);
}

TEST_CASE("tensors larger than the caches") {
  CHECK(on_both(2, [](auto& comm, complaints& wrong) {
          const std::size_t n = 2'500'003 / shrink_most;
          bench_of_kinds bench{comm, wrong, n};
          try_allreduce(comm, bench, n, 21, "allreduce", kolo::automatic{});
          try_broadcast(comm, bench, n, 21, "broadcast", kolo::automatic{});
        }) == "");
}

TEST_CASE("slots no longer than a line hold no reference, and results by reference are right") {
  for (const std::size_t slot_bytes : {4u, 16u, 64u, 96u, 97u}) {
    const auto said = on_threads(3,
                                 [](auto& comm) {
                                   std::vector<int> x(3000 / shrink), all(3 * x.size());
                                   for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int>(i) + comm.rank();
                                   kolo::allreduce(comm, x, kolo::sum, kolo::two_shot{});
                                   kolo::allgather(comm, x, all);
                                   int wrong = 0;
                                   for (std::size_t i = 0; i < all.size(); ++i)
                                     wrong += all[i] != 3 * static_cast<int>(i % x.size()) + 3;
                                   return std::to_string(wrong);
                                 },
                                 {.slot_bytes = slot_bytes});
    INFO(slot_bytes << " bytes");
    CHECK(said == all_say(3, "0"));
  }
}

TEST_CASE("tensors that are allocated and freed in a different order on each rank are found at their current address") {
  CHECK(on_both(3, [](auto& comm, complaints& wrong) {
          const int p = comm.size(), r = comm.rank();
          std::vector<std::vector<int, kolo::shm::allocator<int>>> others;
          for (std::size_t step = 0; step < 200; ++step) {
            if ((step / 70 + static_cast<std::size_t>(r)) % 3 == 0)
              others.emplace_back(1000 * (step % 50), -1, kolo::shm::allocator<int>{comm});
            else others.clear();  // and the region of the last of them is freed
            const std::size_t n = 20'000 + 997 * (step % 20);
            std::vector<int, kolo::shm::allocator<int>> x(n, kolo::shm::allocator<int>{comm});
            for (std::size_t i = 0; i < n; ++i) x[i] = int_of(r, i + step);
            kolo::allreduce(comm, x, kolo::sum, kolo::two_shot{});
            const auto sum_at = [&](std::size_t i) { return 1000 * p * (p - 1) / 2 + p * static_cast<int>(i + step); };
            for (std::size_t i = 0; i < n; ++i)
              if (x[i] != sum_at(i))
                return wrong.say("step " + std::to_string(step) + ": element " + std::to_string(i));
          }
        }) == "");
}

TEST_CASE("make_remote_ref is called once for each peer and run") {
  const auto most = on_threads(3, [](auto& host) {
    kolo::communicator<counts_references> comm{counts_references{host.transport().split(0, host.rank())}};
    std::vector<int> x(300'000, comm.rank()), first(100'000, 1), second(200'000, 1);
    const auto asked = [&](auto call) {
      const int before = comm.transport().references;
      call();
      return std::to_string(comm.transport().references - before) + ' ';
    };
    std::vector<std::span<int>> parts{first, second};
    std::string said = asked([&] { kolo::allreduce(comm, x, kolo::sum, kolo::two_shot{}); });
    said += asked([&] { kolo::allgather(comm, second, x = std::vector<int>(600'000)); });
    said += asked([&] { kolo::broadcast(comm, kolo::bucket{std::span{parts}}, 0, kolo::one_shot{}); });
    const auto is = [](int value) { return [value](int i) { return i == value; }; };
    const bool good = std::all_of(x.begin(), x.end(), is(1)) && std::all_of(first.begin(), first.end(), is(1));
    return (good ? "" : "wrong ") + said;
  });
  // for each of two peers: a block and its result; a part; and, on the root, the bucket's two runs
  CHECK(most == std::vector<std::string>{"4 2 4 ", "4 2 0 ", "4 2 0 "});
}
