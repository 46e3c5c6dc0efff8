// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank that forks: the child destroys its own copies, and the rank continues.
#include <kolo/composite.hpp>
#include <kolo/point_to_point.hpp>
#include <kolo/train.hpp>

#include <atomic>
#include <optional>
#include <thread>

#include "processes/what_ranks_say.hpp"
#include "support/catch.hpp"

using namespace testing;

namespace {

std::string refusal(const std::string& call, int rank) {
  return "kolo: " + call + ", rank " + std::to_string(rank) +
         ": this process was forked from the rank after the communicator was made, and is not the rank: call in the "
         "rank, or make a communicator of its own here";
}

/// In a forked child of each rank, every call is refused; in the rank, the same calls then end well.
const auto refused_in_a_child = [](auto& comm) -> std::string {
  const int rank = comm.rank(), size = comm.size(), next = (rank + 1) % size;
  int x = 1, y = 1, z = 1;
  std::string object = "object";
  const std::span one{&x, 1}, early{&y, 1}, planned{&z, 1};
  auto request = kolo::start_allreduce(comm, early, kolo::sum);
  auto plan = kolo::plan_allreduce(comm, planned, kolo::sum);
  const auto said = child{[&] {
                      std::string wrong;
                      const auto expect = [&](const char* call, auto f) {
                        if (const auto words = words_of(f); words != refusal(call, rank))
                          wrong += std::string{call} + ": " + words + '\n';
                      };
                      for (int k = 0; k < 2; ++k) {
                        expect("barrier", [&] { kolo::barrier(comm); });
                        expect("allreduce", [&] { kolo::allreduce(comm, one, kolo::sum); });
                        expect("allreduce", [&] { (void)kolo::start_allreduce(comm, one, kolo::sum); });
                        expect("allreduce", [&] { (void)kolo::plan_allreduce(comm, one, kolo::sum); });
                        expect("allreduce", [&] { request.wait(); });
                        expect("allreduce", [&] { request.test(); });
                        expect("allreduce", [&] { plan.run(); });
                        expect("send", [&] { kolo::send(comm, one, next); });
                        expect("broadcast_object", [&] { kolo::broadcast_object(comm, object); });
                        expect("split", [&] { comm.split(0, 0); });
                        expect("shrink", [&] { comm.shrink(); });
                      }
                      kolo::detail::execute::pass_on(*comm.engine(), "what went wrong in the child");
                      const auto gone = std::move(request);
                      return wrong;
                    }}.result();
  request.wait(), plan.run(), kolo::allreduce(comm, one, kolo::sum);
  return said + end_of([&] { kolo::barrier(comm); }) + ' ' + std::to_string(x + y + z - 3 * size);
};

}  // namespace

TEST_CASE("a call on a communicator in a forked child is refused, and the rank goes on") {
  const auto end = on_processes(2, refused_in_a_child);
  CHECK(end.said == all_say(2, "fine 0"));
  CHECK(end.errors.empty());
  CHECK(end.no_process_left);
  CHECK(on_processes(1, refused_in_a_child).said == all_say(1, "fine 0"));
}

TEST_CASE("a call on a composite in a forked child is refused, shrink too, and fails neither of its transports") {
  const auto end = on_processes(2, [](auto& comm) {
    const auto part = [&] { return comm.transport().split(0, comm.rank()); };
    kolo::composite<kolo::shm::transport, kolo::shm::transport> both{part(), part()};
    const auto said = child{[&] {
                        std::string wrong;
                        if (words_of([&] { kolo::barrier(both); }) != refusal("barrier", comm.rank()))
                          wrong += "barrier ";
                        if (words_of([&] { both.shrink(); }) != refusal("shrink", comm.rank())) wrong += "shrink ";
                        return wrong;
                      }}.result();
    return said + end_of([&] { kolo::barrier(both.first()), kolo::barrier(both.second()); });
  });
  CHECK(end.said == all_say(2, "fine"));
}

TEST_CASE("a call in a forked child is refused also while another thread of the rank is within one") {
  const common<std::atomic<bool>> refused;
  const auto end = on_processes(2, [&](auto& comm) -> std::string {
    if (comm.rank() == 1) {
      while (!*refused) ::sched_yield();
      return end_of([&] { kolo::barrier(comm); });
    }
    std::string said;
    std::thread caller{[&] { said = end_of([&] { kolo::barrier(comm); }); }};
    while (!comm.engine()->caller.load(std::memory_order_acquire)) ::sched_yield();
    const auto in_child = child{[&] { return words_of([&] { kolo::barrier(comm); }); }}.result();
    *refused = true;
    caller.join();
    return in_child == refusal("barrier", 0) ? said : in_child;
  });
  CHECK(end.said == all_say(2, "fine"));
}

TEST_CASE("a forked child may use communicators that it has made itself") {
  const auto end = on_processes(2, [](auto& comm) {
    int x = 1;
    auto request = kolo::start_allreduce(comm, std::span{&x, 1}, kolo::sum);
    const auto said = child{[&] {
                        const auto sums = on_threads(3, [](auto& own) {
                          int sum = 1;
                          auto its = kolo::start_allreduce(own, std::span{&sum, 1}, kolo::sum);
                          kolo::barrier(own);
                          its.wait();
                          return std::to_string(sum);
                        });
                        kolo::self::communicator own;
                        const auto in_its_child = child{[&] { return end_of([&] { kolo::barrier(own); }); }}.result();
                        return (sums == all_say(3, "3") ? "" : "other sums, ") + end_of([&] { kolo::barrier(own); }) +
                               ", " + in_its_child;
                      }}.result();
    request.wait();
    return said + ", " + std::to_string(x);
  });
  CHECK(end.said == all_say(2, "fine, invalid argument -1, 2"));
}

TEST_CASE("a forked child may destroy its copy of the communicator") {
  const auto end = on_processes(2, [](auto& comm) {
    kolo::barrier(comm);
    if (comm.rank() == 1) {
      child{[&] {
        try {
          const auto copy = std::move(comm.transport());
          throw 1;
        } catch (int) {  // the copy is destroyed
        }
        return std::string{};
      }}.result();
    }
    return end_of([&] { kolo::barrier(comm); });
  });
  CHECK(end.said == all_say(2, "fine"));
  CHECK(end.no_process_left);
}

TEST_CASE("a forked child may destroy its copy of a request, and the rank's operation continues") {
  const auto end = on_processes(2, [](auto& comm) {
    std::vector<int> x(1 << 20, comm.rank() + 1);
    auto request = kolo::start_allreduce(comm, x, kolo::sum, kolo::ring{});
    if (comm.rank() == 1)
      child{[&] {
        { const auto copy = std::move(request); }
        return std::string{};
      }}.result();
    const auto said = end_of([&] { request.wait(); });
    return said + (x == std::vector<int>(x.size(), 3) ? "" : ", but other numbers");
  });
  CHECK(end.said == all_say(2, "fine"));
  CHECK(end.no_process_left);
}

TEST_CASE("a forked child may destroy its copy of an optimizer that a helper serves") {
  const auto end = on_processes(2, [](auto& comm) -> std::string {
    struct parameter {
      std::vector<float> value = std::vector<float>(10, 1), gradient = std::vector<float>(10, 1);
    };
    std::vector<parameter> model(2);
    kolo::background exchange;
    std::jthread helper{[&](std::stop_token stop) { exchange.run(stop); }};
    kolo::distributed_optimizer optimizer{
        comm, kolo::replicated{kolo::update::sgd{.rate = 1}}, model, {.helper = &exchange}};
    optimizer.ready(1);  // the helper waits for the other gradient
    const auto said = child{[&] {
                        ::alarm(60);
                        const auto refused = end_of([&] { optimizer.ready(2); });  // there is none
                        std::destroy_at(&optimizer);
                        return refused + ", ";
                      }}.result();
    optimizer.ready(0), optimizer.step();
    return said + end_of([&] { kolo::barrier(comm); }) + ' ' + std::to_string(int(model[0].value[9]));
  });
  CHECK(end.said == std::vector<std::string>{"invalid argument 0, fine 0", "invalid argument 1, fine 0"});
}

TEST_CASE("restore_checkpoint in a forked child is refused before it reads the file") {
  const auto end = on_processes(1, [](auto& comm) -> std::string {
    struct parameter {
      std::vector<float> value = std::vector<float>(10, 1), gradient{};
    };
    std::vector<parameter> model(1);
    const std::string path = "/tmp/kolo-forked-" + std::to_string(::getpid());
    kolo::save_checkpoint(path, model);
    model[0].value[0] = 2;
    const auto said = child{[&] {
                        const auto words = words_of([&] { kolo::restore_checkpoint(comm, path, model); });
                        return words + (model[0].value[0] == 2 ? "" : ", but it has read the file");
                      }}.result();
    kolo::restore_checkpoint(comm, path, model);
    ::unlink(path.c_str());
    return said + ", then " + std::to_string(int(model[0].value[0]));
  });
  CHECK(end.said[0] == refusal("restore_checkpoint", 0) + ", then 1");
}

TEST_CASE("a forked child may destroy its copy of symmetric memory, and the ranks' memory remains") {
  const auto end = on_processes(2, [](auto& comm) {
    std::optional x{kolo::symmetric<int>(comm, 1)};
    (*x)[0] = 7;
    if (comm.rank() == 1) {
      child{[&] {
        x.reset();
        return std::string{};
      }}.result();
      x.reset();
    }
    kolo::barrier(comm);
    return comm.rank() == 0 ? std::to_string((*x)[0]) : "7";
  });
  CHECK(end.said == all_say(2, "7"));
  CHECK(end.clean);
}

TEST_CASE("the death of a forked child is not the rank's") {
  const auto end = on_processes(2, [](auto& comm) {
    if (comm.rank() == 1) child{[] { return ::raise(SIGKILL), std::string{}; }}.result();
    return end_of([&] { kolo::barrier(comm); });
  });
  CHECK(end.said == all_say(2, "fine"));
  CHECK(end.no_process_left);
}
