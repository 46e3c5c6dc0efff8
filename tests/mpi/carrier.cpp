// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several communicators on one MPI communicator: each satisfies the transport laws, they do not disturb one another, and their numbers are reused.
#include "laws/message_laws.hpp"
#include "laws/transport_laws.hpp"
#include "mpi/world.hpp"

#include <algorithm>
#include <memory>
#include <thread>

using namespace testing;

namespace {

/// A communicator made by MPI_Comm_split.
class part {
 public:
  part(int color, int key) { MPI_Comm_split(MPI_COMM_WORLD, color, key, &comm_); }
  part(const part&) = delete;
  part& operator=(const part&) = delete;
  ~part() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

using carried = std::shared_ptr<kolo::mpi::carrier>;

kolo::mpi::communicator on(const carried& c, MPI_Comm comm) {
  return kolo::mpi::communicator{c, comm, c->ranks_of(comm), kolo::mpi::options{.timeout = std::chrono::seconds{60}}};
}

/// Runs the laws one after another on one carrier: a communicator that a law has broken does not affect the next one.
void all_laws(mpi_world& world, const carried& c) {
  const auto law = [&](const char* name, auto law_of) {
    world.run(name, [&](complaints& wrong) {
      const part turned{0, -world.rank()};
      auto comm = on(c, turned.get());
      if (const std::string broken = law_of(comm.transport()); !broken.empty()) wrong.say(broken);
    });
  };
  law("what is constant", laws::is_constant);
  law("a failure wakes everybody", laws::failure_wakes_everybody);
  law("messages arrive in order", laws::messages_arrive_in_order);
  if (world.size() > 1) law("another tag is a mismatch", laws::another_tag_is_a_mismatch);
  law("messages arrive in order, afterwards", laws::messages_arrive_in_order);
}

void beside_each_other(mpi_world& world, const carried& c) {
  world.run("two communicators with opposite rank orders and one of half the ranks, in turns", [&](complaints& wrong) {
    const part turned{0, -world.rank()}, half{world.rank() % 2, 0};
    auto all = on(c, MPI_COMM_WORLD), back = on(c, turned.get()), some = on(c, half.get());
    wrong.expect(back.rank() == world.size() - 1 - world.rank(), "MPI's order of ranks");
    wrong.expect(back.transport().place().local_rank == back.rank(), "the place on this host");
    for (int i = 0; i < 20; ++i) {
      const int last = world.size() - 1;
      int root = world.rank() + i, first = root, number = root;
      kolo::broadcast(all, std::span{&root, 1}, last);
      kolo::broadcast(back, std::span{&first, 1}, last);
      kolo::allreduce(some, std::span{&number, 1}, kolo::max);
      wrong.expect(root == last + i && first == i, "broadcasts from both ends");
      wrong.expect(number == i + (last % 2 == world.rank() % 2 ? last : last - 1), "a maximum among a half");
      std::vector<int> ranks(static_cast<std::size_t>(world.size()));
      kolo::allgather(back, std::span{&number, 1}, ranks, kolo::native{});  // by MPI, on its own communicator
      wrong.expect(ranks.back() == i + (last % 2 == 0 ? last : last - 1), "MPI's own allgather");
    }
    try {
      all.split(0, 0);
      wrong.say("a communicator on a carrier was split");
    } catch (const kolo::error& e) {
      wrong.expect(e.code() == kolo::errc::invalid_argument, e.what());
    }
  });
}

void outside(mpi_world& world) {
  world.run("ranks that the carrier does not have, and no deadline, are refused", [&](complaints& wrong) {
    const part half{world.rank() % 2, 0};
    const auto c = std::make_shared<kolo::mpi::carrier>(half.get());
    wrong.expect(c->ranks_of(MPI_COMM_WORLD).empty() == (world.size() > 1), "ranks_of the world");
    wrong.expect(c->ranks_of(MPI_COMM_SELF) == std::vector<int>{world.rank() / 2}, "ranks_of MPI_COMM_SELF");
    try {
      kolo::mpi::communicator{c, half.get(), c->ranks_of(half.get()), kolo::mpi::options{.timeout = {}}};
      wrong.say("a communicator without a deadline was accepted");
    } catch (const kolo::error& e) {
      wrong.expect(e.code() == kolo::errc::invalid_argument, e.what());
    }
    if (world.size() == 1) return;
    try {
      on(c, MPI_COMM_WORLD);
      wrong.say("ranks that the carrier does not have were accepted");
    } catch (const kolo::error& e) {
      wrong.expect(e.code() == kolo::errc::invalid_argument, e.what());
    }
  });
}

void numbers(mpi_world& world) {
  if (world.size() != 2) return;  // one rank needs no number; for more ranks this takes long
  world.run("numbers are reused, and none is used twice at once", [&](complaints& wrong) {
    const auto c = std::make_shared<kolo::mpi::carrier>(MPI_COMM_WORLD);
    using kolo::detail::mpi::carried_communicator;
    std::vector<std::unique_ptr<carried_communicator>> all;
    std::vector<int> given;
    const auto take = [&]() -> bool {
      try {
        all.push_back(std::make_unique<carried_communicator>(c, MPI_COMM_WORLD, c->ranks_of(MPI_COMM_WORLD)));
        return true;
      } catch (const kolo::error& e) {
        wrong.expect(e.code() == kolo::errc::out_of_resources, e.what());
        return false;
      }
    };
    while (take()) given.push_back(all.back()->of_tags().number);
    std::sort(given.begin(), given.end());
    wrong.expect(given.size() == (std::size_t{1} << c->bits()) - 1, std::to_string(given.size()) + " numbers");
    wrong.expect(std::adjacent_find(given.begin(), given.end()) == given.end() && given.front() == 1,
                 "a number was given twice");
    const int free = all[5]->of_tags().number;
    all.erase(all.begin() + 5);
    wrong.expect(take() && all.back()->of_tags().number == free, "the freed number");
    all.front()->keep();
    all.erase(all.begin());
    wrong.expect(!take(), "a kept number was reused");
  });
}

/// A failure of a destroyed communicator that a rank has not received yet does not reach its next communicator of the same number.
void old_failure(mpi_world& world) {
  if (world.size() < 3) return;
  world.run("a failure of an earlier communicator is not received", [&](complaints& wrong) {
    const auto c = std::make_shared<kolo::mpi::carrier>(MPI_COMM_WORLD);
    {
      auto all = on(c, MPI_COMM_WORLD);
      if (world.rank() == 0) all.transport().fail(laws::failure_of(0));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const part others{world.rank() > 0 ? 1 : 0, 0};
    auto rest = on(c, others.get());
    for (int i = 0; i < 100; ++i) kolo::barrier(rest);  // which polls for failures at every 32nd operation
    wrong.expect(!rest.transport().failed(), "the earlier communicator's failure was received");
  });
}

void made_by_threads(mpi_world& world) {
  int threads = MPI_THREAD_SINGLE;
  MPI_Query_thread(&threads);
  if (threads != MPI_THREAD_MULTIPLE || world.size() > 3) return;
  world.run("two threads make communicators at once", [&](complaints& wrong) {
    const auto c = std::make_shared<kolo::mpi::carrier>(MPI_COMM_WORLD);
    const part first{0, 0}, second{0, -world.rank()};
    std::string said[2];
    const auto work = [&](MPI_Comm comm, std::string& said_here) {
      for (int i = 0; i < 50; ++i) {
        auto made = on(c, comm);
        int number = i;
        kolo::allreduce(made, std::span{&number, 1}, kolo::sum);
        if (number != i * made.size()) said_here = "a sum is wrong";
      }
    };
    std::thread other{[&] { work(first.get(), said[0]); }};
    work(second.get(), said[1]);
    other.join();
    wrong.expect(said[0].empty() && said[1].empty(), said[0] + said[1]);
  });
}

}  // namespace

int main(int argc, char** argv) {
  kolo::mpi::environment env{argc, argv, MPI_THREAD_MULTIPLE};
  mpi_world world;
  {
    const auto c = std::make_shared<kolo::mpi::carrier>(MPI_COMM_WORLD);
    all_laws(world, c);
    beside_each_other(world, c);
  }
  outside(world);
  numbers(world);
  old_failure(world);
  made_by_threads(world);
  return world.status();
}
