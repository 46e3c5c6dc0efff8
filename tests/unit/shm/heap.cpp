// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The heap that peers address: requirements of containers on its allocator, memory use, lifetime.
#include <kolo/impl/engine.hpp>
#include <kolo/kolo.hpp>

#include <latch>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "processes/children.hpp"
#include "support/catch.hpp"

namespace {

using kolo::shm::allocator;
template <class T>
using shared_vector = std::vector<T, allocator<T>>;
constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// A communicator of one rank, and the mapping that contains its heap.
struct one_rank {
  kolo::detail::shm::shared_mapping memory;
  kolo::detail::shm::region_shape shape{1, {}};
  std::uint64_t region;
  kolo::shm::communicator comm;

  explicit one_rank(kolo::detail::shm::backing where = kolo::detail::shm::backing::automatic)
      : memory{where}, region{kolo::shm::transport::initialise(memory, shape)}, comm{memory, region, shape, 0} {}

  long long bytes() const {
    struct stat status;
    return ::fstat(memory.fd(), &status) == 0 ? static_cast<long long>(status.st_blocks) * 512 : -1;
  }
  kolo::remote_ref make_remote_ref(const void* p, std::size_t n) const {
    return memory.make_remote_ref(static_cast<const std::byte*>(p), n);
  }
};

template <class T>
bool all_are(const T& values, typename T::value_type x) {
  return std::all_of(values.begin(), values.end(), [x](auto v) { return v == x; });
}

bool is_aligned(const void* p, std::size_t alignment) { return reinterpret_cast<std::uintptr_t>(p) % alignment == 0; }

using traits = std::allocator_traits<allocator<float>>;
static_assert(std::is_same_v<traits::rebind_alloc<double>, allocator<double>>);
static_assert(!traits::propagate_on_container_copy_assignment::value &&
              traits::propagate_on_container_move_assignment::value);
static_assert(traits::propagate_on_container_swap::value && !traits::is_always_equal::value);
static_assert(std::is_nothrow_copy_constructible_v<allocator<int>> &&
              std::is_nothrow_copy_assignable_v<allocator<int>>);
static_assert(std::is_nothrow_move_constructible_v<shared_vector<int>> &&
              std::is_nothrow_move_assignable_v<shared_vector<int>>);
static_assert(!std::is_convertible_v<kolo::shm::communicator, allocator<int>>);

}  // namespace

TEST_CASE("allocators of one rank are equal, for all types and after a move") {
  one_rank one, other;
  allocator<float> a{one.comm};
  const allocator<double> b{a};
  const allocator<float> back{b}, none, nothing;
  CHECK(a == b);
  CHECK(back == a);
  CHECK(a == allocator<float>{one.comm.split(0, 0)});
  CHECK(a != allocator<float>{other.comm});
  CHECK(a != none);
  CHECK(none == nothing);
  const allocator<float> moved{std::move(a)};
  CHECK(moved == a);  // NOLINT(bugprone-use-after-move): the standard requires it
  CHECK(traits::select_on_container_copy_construction(moved) == a);
}

TEST_CASE("a container keeps its memory in copy assignment, and takes the other's in move assignment and swap") {
  one_rank one;
  const auto is_shared = [&](const shared_vector<int>& v) {
    return one.make_remote_ref(v.data(), v.size() * sizeof(int)).length != 0;
  };
  shared_vector<int> here(50'000, 1, allocator<int>{one.comm}), ordinary(50'000, 2);
  CHECK(is_shared(here));
  CHECK_FALSE(is_shared(ordinary));
  shared_vector<int> copy = here;
  CHECK(is_shared(copy));
  copy = ordinary;
  CHECK((is_shared(copy) && all_are(copy, 2)));
  swap(here, ordinary);
  CHECK((is_shared(ordinary) && all_are(ordinary, 1) && !is_shared(here) && all_are(here, 2)));
  here = std::move(ordinary);
  CHECK((is_shared(here) && all_are(here, 1)));
}

TEST_CASE("containers of all kinds allocate from the heap") {
  one_rank one;
  const allocator<int> a{one.comm};
  std::list<int, allocator<int>> list{a};
  std::map<int, int, std::less<>, allocator<std::pair<const int, int>>> map{a};
  std::basic_string<char, std::char_traits<char>, allocator<char>> text{a};
  std::pmr::vector<float> with_pointer(10'000, 1.0f, kolo::shm::heap(one.comm).get());
  shared_vector<int> growing{a};
  for (int i = 0; i < 20'000; ++i) list.push_back(i), map[i] = -i, text += 'x', growing.push_back(i);
  CHECK(std::equal(list.begin(), list.end(), growing.begin(), growing.end()));
  CHECK((map.size() == 20'000 && map[777] == -777 && all_are(text, 'x') && all_are(with_pointer, 1.0f)));
  CHECK(one.make_remote_ref(with_pointer.data(), 40'000).length != 0);
  CHECK(one.make_remote_ref(&list.back(), sizeof(int)).length != 0);
}

TEST_CASE("blocks are aligned and disjoint, and keep their contents while others are allocated and freed") {
  one_rank one;
  const auto heap = kolo::shm::heap(one.comm);
  struct block {
    unsigned char* data;
    std::size_t bytes, alignment;
    unsigned char mark;
    bool whole() const {
      return std::all_of(data, data + bytes, [this](unsigned char x) { return x == mark; });
    }
  };
  std::vector<block> all;
  std::mt19937 random{1};
  bool good = true;
  for (int i = 0; i < 4000; ++i) {
    const std::size_t bytes = (random() % 200'000) >> random() % 18,
                      alignment = std::size_t{1} << random() % (i % 50 == 0 ? 18 : 10);
    auto* const p = static_cast<unsigned char*>(heap->allocate(bytes, alignment));
    good = good && is_aligned(p, std::max<std::size_t>(alignment, 64));
    all.push_back({p, bytes, alignment, static_cast<unsigned char>(i)});
    std::fill(p, p + bytes, all.back().mark);
    if (i % 3 == 0) continue;
    std::swap(all[random() % all.size()], all.back());
    good = good && all.back().whole();
    heap->deallocate(all.back().data, all.back().bytes, all.back().alignment);
    all.pop_back();
  }
  for (const block& b : all) good = good && b.whole(), heap->deallocate(b.data, b.bytes, b.alignment);
  CHECK(good);
}

TEST_CASE("thousands of tensors use few regions, and small ones share pages") {
  one_rank one;
  std::vector<shared_vector<float>> model;
  std::set<std::uint64_t> regions;
  std::size_t sum = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::size_t n = i % 20 == 0 ? 200'000 : 16 + static_cast<std::size_t>(i) % 500;
    model.emplace_back(n, 1.0f, allocator<float>{one.comm});
    const auto where = one.make_remote_ref(model.back().data(), n * sizeof(float));
    REQUIRE(where.length != 0);
    regions.insert(where.region);
    sum += n * sizeof(float);
  }
  CHECK(regions.size() <= 3);
  CHECK(one.bytes() < static_cast<long long>(sum + sum / 8));
  const auto heap = kolo::shm::heap(one.comm);
  for (int i = 0; i < 10'000; ++i) regions.insert(one.make_remote_ref(heap->allocate(mebibyte), mebibyte).region);
  CHECK(regions.size() <= 10);
}

TEST_CASE("heap: untouched memory uses no pages, and freed memory is returned") {
  one_rank one;
  const auto heap = kolo::shm::heap(one.comm);
  const shared_vector<float> keeps_the_region(mebibyte / 4, 1.0f, allocator<float>{one.comm});
  const auto before = one.bytes();
  auto* const big = static_cast<std::byte*>(heap->allocate(1024 * mebibyte, 64));
  CHECK(one.bytes() == before);
  std::fill(big, big + mebibyte, std::byte{1});
  CHECK(one.bytes() - before == static_cast<long long>(mebibyte));
  heap->deallocate(big, 1024 * mebibyte, 64);
  CHECK(one.bytes() == before);
  for (int i = 0; i < 100; ++i)
    shared_vector<float> temporary(mebibyte / 4 + static_cast<std::size_t>(i), 1.0f, keeps_the_region.get_allocator());
  CHECK(one.bytes() == before);
  for (int i = 0; i < 100; ++i) shared_vector<float> small(100, 1.0f, keeps_the_region.get_allocator());
  CHECK(one.bytes() - before < 64 * 1024);
  CHECK(all_are(keeps_the_region, 1.0f));
}

TEST_CASE("the heap exists as long as a container uses it, then returns all its memory") {
  std::optional<one_rank> one{std::in_place};
  const kolo::detail::shm::shared_mapping memory = one->memory;
  const auto bytes = [&] {
    struct stat status;
    return ::fstat(memory.fd(), &status) == 0 ? static_cast<long long>(status.st_blocks) * 512 : -1;
  };
  std::optional<shared_vector<float>> vector{std::in_place, 300'000u, 1.0f, allocator<float>{one->comm}};
  std::optional<shared_vector<int>> small{std::in_place, 10u, 1, allocator<int>{one->comm}};
  one.reset();
  CHECK(all_are(*vector, 1.0f));
  vector->resize(600'000, 1.0f);
  CHECK(all_are(*vector, 1.0f));
  small.reset();
  CHECK(bytes() >= 600'000 * 4);
  vector.reset();
  CHECK(bytes() <= 4096);
}

TEST_CASE("a peer that still maps a freed block neither sees nor overwrites later blocks") {
  one_rank one;
  const allocator<float> a{one.comm};
  const shared_vector<float> first(100'000, 1.0f, a);
  auto gone = std::make_unique<shared_vector<float>>(100'000u, 2.0f, a);
  const auto where = one.make_remote_ref(gone->data(), 400'000);
  const auto peer = one.memory.map(where.region, where.length);
  auto* const seen = reinterpret_cast<float*>(peer.get() + where.offset);
  CHECK(seen[99'999] == 2.0f);
  gone.reset();
  CHECK(seen[99'999] == 0.0f);
  const shared_vector<float> next(100'000, 3.0f, a);
  std::fill(seen, seen + 100'000, -1.0f);
  CHECK((all_are(first, 1.0f) && all_are(next, 3.0f)));
}

TEST_CASE("a forked process frees nothing of its parent's heap, and allocates ordinary memory") {
  std::optional<one_rank> one{std::in_place};
  std::optional<allocator<float>> a{one->comm};
  std::optional<shared_vector<float>> big{std::in_place, 300'000u, 1.0f, *a}, small{std::in_place, 100u, 2.0f, *a};
  const auto child = [&] {
    big.reset(), small.reset();
    {
      shared_vector<float> own(300'000, 5.0f, *a), small_own(100, 6.0f, *a);
      if (one->make_remote_ref(own.data(), 4).length != 0 || !is_aligned(small_own.data(), 64))
        return "the parent's heap";
    }
    one.reset(), a.reset();
    return "fine";
  };
  CHECK(testing::child{child}.result() == "fine");
  const shared_vector<float> more(100, 4.0f, *a);
  CHECK((all_are(*big, 1.0f) && all_are(*small, 2.0f) && all_are(more, 4.0f)));
  const float* const at = small->data();
  small.reset();
  const shared_vector<float> again(100, 3.0f, *a);
  CHECK(again.data() == at);  // the parent's free blocks are unchanged
}

TEST_CASE("threads of a rank allocate and free at the same time") {
  one_rank one;
  const allocator<int> a{one.comm};
  std::vector<int> good(4, 1);
  {
    std::latch start{4};
    std::vector<std::jthread> all;  // destroyed first
    for (int t = 0; t < 4; ++t)
      all.emplace_back([&, t] {
        std::list<shared_vector<int>> kept;
        start.arrive_and_wait();
        for (int i = 0; i < 20'000; ++i) {
          kept.emplace_back(static_cast<std::size_t>(1 + i % 40 * (i % 100 == 0 ? 500 : 1)), 100'000 * t + i, a);
          if (kept.size() < 50) continue;
          good[static_cast<std::size_t>(t)] &= all_are(kept.front(), kept.front()[0]) && kept.front()[0] / 100'000 == t;
          kept.pop_front();
        }
      });
  }
  CHECK(good == std::vector<int>(4, 1));
}

TEST_CASE("among threads, and in a communicator of one, the allocator takes ordinary memory") {
  kolo::self::communicator self;
  shared_vector<float> x(1000, 1.0f, allocator<float>{self});
  kolo::allreduce(self, x, kolo::sum);
  CHECK((is_aligned(x.data(), 64) && x.get_allocator() == allocator<float>{} && all_are(x, 1.0f)));
  std::vector<int> good(3);
  kolo::threads::run(3, [&](auto& comm) {
    shared_vector<float> y(100'000, 1.0f, allocator<float>{comm});
    kolo::allreduce(comm, y, kolo::sum);
    good[static_cast<std::size_t>(comm.rank())] = all_are(y, 3.0f);
  });
  CHECK(good == std::vector<int>(3, 1));
}

TEST_CASE("if the heap is exhausted, the allocator takes ordinary memory") {
  CHECK(testing::child{[] {
          one_rank limited;
          const rlimit limit{8 * mebibyte, 8 * mebibyte};
          ::setrlimit(RLIMIT_FSIZE, &limit);
          const auto is_shared = [&](const shared_vector<char>& v) {
            return limited.make_remote_ref(v.data(), v.size()).length != 0;
          };
          shared_vector<char> fits(mebibyte, 'x', allocator<char>{limited.comm}), small(10, 'y', fits.get_allocator());
          shared_vector<char> too_long(8 * mebibyte, 'z', fits.get_allocator());
          if (!is_shared(fits) || !is_shared(small) || is_shared(too_long)) return "in the wrong memory";
          too_long.resize(9 * mebibyte, 'z');
          return all_are(fits, 'x') && all_are(too_long, 'z') && is_aligned(too_long.data(), 64) ? "fine"
                                                                                                 : "overwritten";
        }}.result() == "fine");
  CHECK_THROWS_AS(allocator<double>{}.allocate(~std::size_t{0} / 2), std::bad_array_new_length);
}

TEST_CASE("in /dev/shm, where reserving takes memory, the heap reserves at most 2 MiB for a small block") {
  one_rank one{kolo::detail::shm::backing::dev_shm};
  const auto before = one.bytes();
  const shared_vector<float> x(1000, 1.0f, allocator<float>{one.comm});
  CHECK(one.bytes() - before <= static_cast<long long>(2 * mebibyte));
  const shared_vector<float> y(mebibyte, 1.0f, allocator<float>{one.comm});
  CHECK((all_are(x, 1.0f) && all_are(y, 1.0f)));
}
