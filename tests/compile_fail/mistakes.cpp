// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Frequent mistakes: each has its sentence, near the first line of the compiler's output (first_lines.sh: the n-th alone).
#include <kolo/kolo.hpp>

#include <kolo/schedule/draw.hpp>
#include <kolo/simulate.hpp>

#include <chrono>
#include <list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#ifndef KOLO_WRONG
#define KOLO_WRONG 0
#endif
#ifndef KOLO_MISTAKE
#define KOLO_MISTAKE 0
#endif
#define IS(n) (KOLO_WRONG == 1 && (KOLO_MISTAKE == 0 || KOLO_MISTAKE == n))
// alone: g++ reports this one only without the other mistakes.

struct point {
  float a, b;
};
struct left {
  static constexpr bool commutative = false;
  float operator()(float a, float) const { return a; }
};

struct almost_ring : kolo::ring::allreduce {
  int rounds(int p) { return 2 * (p - 1); }  // not const
};

int main() {
  using namespace std::chrono_literals;
  return kolo::shm::launch(2, []([[maybe_unused]] auto& comm) {
    std::vector<float> x(10, 1.0f);
    [[maybe_unused]] float one = 1;
    [[maybe_unused]] std::vector<int> whole(10);
#if KOLO_WRONG == 0
    kolo::allreduce(comm, x, kolo::sum);
    kolo::allreduce(comm, x, kolo::sum, kolo::ring{}, {.timeout = 5s});
    kolo::allreduce(comm, std::span{x.data(), x.size()}, kolo::sum);
    kolo::allreduce(comm, std::span{&one, 1}, kolo::sum);
    kolo::allreduce(comm, whole, kolo::bit_and);
    kolo::allgather(comm, std::span{whole}.first(5), whole, std::vector<unsigned char>{5, 5});
    kolo::broadcast(comm, x, 0, kolo::binomial{});
    kolo::draw(kolo::ring::allreduce{}, 4);
    kolo::simulate::run(kolo::ring::allreduce{}, 4, 100, {});
#endif
// expect: kolo: the first argument of a collective is the communicator
#if IS(1)
    kolo::allreduce(x, kolo::sum);
#endif
// expect: kolo: options come last: write the algorithm before them
#if IS(2)
    kolo::allreduce(comm, x, kolo::sum, {.timeout = 5s}, kolo::ring{});
#endif
// expect: kolo: a pointer does not say how many elements there are: write std::span\{pointer, count\}
#if IS(3)
    kolo::allreduce(comm, x.data(), x.size(), kolo::sum);
#endif
// expect: kolo: a number is not a view: write std::span\{&x, 1\}
#if IS(4)
    kolo::allreduce(comm, one, kolo::average);
#endif
// expect: kolo: the operator does not fit the elements: .*bit_and, bit_or and bit_xor take integers
#if IS(5)
    kolo::allreduce(comm, x, kolo::bit_and);
#endif
// expect: kolo: the operator is missing. It comes after the views
#if IS(6)
    kolo::allreduce(comm, x);
#endif
// expect: kolo: the root is missing. Its rank comes after views, counts and operator
#if IS(7)
    kolo::broadcast(comm, x);
#endif
// expect: kolo: there is no view among the arguments
#if IS(8)
    kolo::allreduce(comm, 10, kolo::sum);
#endif
// expect: kolo: a std::vector<bool> packs its elements into bits
#if IS(9)
    std::vector<bool> bits(10);
    kolo::allreduce(comm, bits, kolo::bit_or);
#endif
// expect: kolo: a collective does not take this argument
#if IS(10)
    std::list<float> list(10);
    kolo::allreduce(comm, list, kolo::sum);
#endif
// expect: kolo: in and out must have the same element type
#if IS(11)
    kolo::allreduce(comm, x, whole, kolo::sum);
#endif
// expect: kolo: the operator does not fit the elements: .*elements of a type of your own need its
#if IS(12)
    std::vector<point> points(10);
    kolo::allreduce(comm, points, kolo::sum);
#endif
// expect: kolo: the operator does not commute, and this algorithm does not declare
#if IS(13)
    kolo::allreduce(comm, x, left{}, kolo::ring{});
#endif
// expect: kolo: this algorithm implements another collective than the one that is called
#if IS(14)
    kolo::broadcast(comm, x, 0, kolo::ring{});
#endif
// expect: kolo: a started or planned call refers to its views .* pass named views
#if IS(15)
    kolo::start_allreduce(comm, std::vector<float>(10), kolo::sum).wait();
#endif
// expect: kolo: the output is a view of const elements
#if IS(16)
    const std::vector<float> fixed(10);
    kolo::allreduce(comm, fixed, kolo::sum);
#endif
// expect: kolo: this view is of device memory
#if IS(17)
    kolo::allreduce(comm, kolo::device_span<float>{x.data(), x.size()}, kolo::sum);
#endif
// expect: kolo::average divides and would round integers: use kolo::sum
#if IS(18)
    kolo::allreduce(comm, whole, kolo::average);
#endif
// expect: kolo: include <kolo/train.hpp>
#if IS(19)
    kolo::distributed_optimizer optimizer{comm, left{}, x};
#endif
// expect: kolo: counts must be integers \(not bools or characters\), contiguous in host memory
#if IS(20)
    std::vector<int> all(20);
    kolo::allgather(comm, whole, all, kolo::strided<int, 1>{whole.data(), {2}, {5}});
#endif
// expect: kolo: this type has a member `collective`, as an algorithm has, but is not one
#if IS(21)
    kolo::allreduce(comm, x, kolo::sum, almost_ring{});
#endif
// alone: kolo: this is a family of schedules; pass the schedule of one collective
#if IS(22)
    kolo::simulate::run(kolo::ring{}, 8, 1000, {});
#endif
// alone: kolo: this is a family of schedules; pass the schedule of one collective
#if IS(23)
    kolo::draw(kolo::ring{}, 4);
#endif
// alone: kolo: this is a family of schedules; pass the schedule of one collective
#if IS(24)
    kolo::verify(kolo::ring{}, 4);
#endif
// alone: kolo: the function that launch runs must return an exit status, an int, or nothing
#if IS(25)
    kolo::shm::launch(2, [](auto&) { return true; });
#endif
// alone: kolo: the function that launch runs must return an exit status, an int, or nothing
#if IS(26)
    kolo::shm::launch(2, [](auto&) { return 2.7f; });
#endif
// expect: kolo: the elements of this view are not trivially copyable \(std::pair and std::tuple are not\)
#if IS(27)
    std::vector<std::pair<float, int>> places(10);
    kolo::allreduce(comm, places, [](auto a, auto b) { return a < b ? b : a; });
#endif
// alone: kolo: the function that launch runs must return an exit status, an int, or nothing
#if IS(28)
    kolo::shm::launch(2, [](auto&) { return std::errc::io_error; });
#endif
  });
}
