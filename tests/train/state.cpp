// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// State that is broadcast, saved and loaded, also on another number of ranks; and the small helper functions of a training loop.
#include <kolo/compose/composite.hpp>
#include <kolo/launch/threads.hpp>
#include <kolo/train/data.hpp>
#include <kolo/train/learning_rate.hpp>
#include <kolo/train/metrics.hpp>
#include <kolo/train/sharded_checkpoint.hpp>
#include <kolo/train/state.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>

#include "support/catch.hpp"
#include "support/ends.hpp"
#include "support/scratch.hpp"
#include "train/model.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace testing;
namespace fs = std::filesystem;

namespace {

struct progress {
  long step = 0;
  std::string name{};
  std::vector<std::vector<float>> rows{};
  std::map<std::string, std::vector<int>> notes{};
  int own = 0;  // not sent

  template <class Archive>
  void serialise(Archive& archive) {
    archive(step, name, rows, notes);
  }
};

const std::vector<std::size_t> sizes{100, 0, 31, 57};
const kolo::update::adamw rule{.rate = 0.1};
struct rule_of_halves {
  static constexpr std::size_t states = 0;
  void operator()(auto, auto, const auto&, long) const {}
};

/// Makes steps first ... last - 1 on `ranks` ranks. The mean gradient does not depend on their number. Loads and saves if a file is named.
std::vector<std::vector<float>> train(int ranks, int first, int last, const std::string& load = "",
                                      const std::string& save = "") {
  std::vector<std::vector<float>> result;
  kolo::threads::run(ranks, [&](auto& comm) {
    model mine{sizes};
    kolo::sharded_optimizer optimizer{comm, rule, mine.parameters(), {.bucket_bytes = 300}};
    if (!load.empty()) {
      for (auto& v : mine.values) std::fill(v.begin(), v.end(), 99.0f);
      kolo::load_sharded_checkpoint(load, optimizer);
    }
    for (int step = first; step < last; ++step) mine.set_gradients(5, step), optimizer.step();
    if (!save.empty()) kolo::save_sharded_checkpoint(save, optimizer);
    if (comm.rank() == ranks - 1) result = mine.values;
  });
  return result;
}

/// Where a thread stops during its save to `state`, until the test lets it continue.
enum class stop { nowhere, before_the_index_has_its_name, after_that };
thread_local stop stops = stop::nowhere;
thread_local bool has_named = false;
enum : int { runs, stands, goes_on };
std::atomic<int> stopped = runs;

void stop_here(bool now) {
  if (!now) return;
  stops = stop::nowhere;
  stopped = stands, stopped.notify_all();
  stopped.wait(stands);
}

}  // namespace

extern "C" int rename(const char* from, const char* to) noexcept {  // takes the place of the C library's
  const bool names = std::string_view{to}.ends_with("/state");
  stop_here(names && stops == stop::before_the_index_has_its_name);
  const int failed = ::renameat(AT_FDCWD, from, AT_FDCWD, to);
  has_named = names && failed == 0;
  return failed;
}

extern "C" DIR* opendir(const char* path) {  // also
  stop_here(has_named && stops == stop::after_that);
  const int folder = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return folder < 0 ? nullptr : ::fdopendir(folder);
}

TEST_CASE("broadcast_object copies the root's members that `serialise` names") {
  for (const int root : {0, 2}) {
    tally t;
    kolo::threads::run(3, [&](auto& comm) {
      progress p{.own = comm.rank()};
      if (comm.rank() == root)
        p = {7, "a long name, not a short string", {{1, 2}, {}, {3}}, {{"x", {4, 5}}, {"", {}}}, root};
      else p.notes["old"] = {1};
      kolo::broadcast_object(comm, p, root);
      t.expect(p.step == 7 && p.name.size() == 31 && p.rows == std::vector<std::vector<float>>{{1, 2}, {}, {3}});
      t.expect(p.notes == std::map<std::string, std::vector<int>>{{"x", {4, 5}}, {"", {}}} && p.own == comm.rank());
    });
    CHECK(t.wrong == 0);
  }
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    std::string text = "four";
    std::vector<std::uint32_t> numbers{1};
    const auto why = words_of(
        [&] { comm.rank() == 0 ? kolo::broadcast_object(comm, text) : kolo::broadcast_object(comm, numbers); });
    t.expect(comm.rank() == 0 ? why.empty() : contains(why, "ranks serialise different things"));
    std::uint64_t number = 0;
    const auto rest =
        words_of([&] { comm.rank() == 0 ? kolo::broadcast_object(comm, text) : kolo::broadcast_object(comm, number); });
    t.expect(comm.rank() == 0 ? rest.empty() : contains(rest, "more bytes than it was read from"));
  });
  CHECK(t.wrong == 0);
}

namespace {
struct unsendable {
  template <class A>
  void serialise(A&) {
    throw std::runtime_error{"no such layer"};
  }
};
/// The words of what a broadcast of it throws, whatever its type.
std::string words_of_broadcast(auto& comm, int root) {
  unsendable x;
  try {
    kolo::broadcast_object(comm, x, root);
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}
}  // namespace

TEST_CASE("broadcast_object: if the root's `serialise` throws, the others learn of it at once") {
  tally t;
  std::barrier all{3};
  kolo::threads::run(3, [&](auto& comm) {
    const auto why = words_of_broadcast(comm, 1);
    t.expect(comm.rank() == 1 ? why == "no such layer"
                              : contains(why, "rank 1: an exception ended broadcast_object: no such layer"));
    all.arrive_and_wait();  // before that rank's next call, or its end
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("broadcast_object within another call is refused before it serialises anything, and that call succeeds") {
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    std::vector<int> v{comm.rank() + 1};
    const auto within = [&](int a, int b) {
      t.expect(contains(words_of_broadcast(comm, comm.rank()), "broadcast_object, rank"));
      return a + b;
    };
    kolo::allreduce(comm, v, within);
    t.expect(v[0] == 3);
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("broadcast_object on a composite: if the root's `serialise` throws, both of its communicators have failed") {
  tally t;
  std::barrier all{2};
  kolo::threads::run(2, [&](auto& comm) {
    using transport = typename std::remove_cvref_t<decltype(comm)>::transport_type;
    kolo::composite<transport, transport> both{std::move(comm.split(0, 0).transport()),
                                               std::move(comm.split(0, 0).transport())};
    const auto why = words_of_broadcast(both, 1);
    t.expect(contains(why, "no such layer") && both.first().failed() && both.second().failed());
    all.arrive_and_wait();
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("broadcast_state copies the root's optimizer state, and does not change parameters") {
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    model mine{{20}}, of_root{{20}};
    kolo::replicated<kolo::update::adamw> optimizer{rule}, wanted{rule};
    for (int step = 0; step < 3; ++step) {
      of_root.set_gradients(0, step), step_alone(wanted, of_root);
      if (comm.rank() == 0) mine.set_gradients(0, step), step_alone(optimizer, mine);
    }
    const auto before = mine.values;
    kolo::broadcast_state(comm, optimizer);
    t.expect(mine.values == before);
    kolo::broadcast_parameters(comm, mine.parameters());
    mine.set_gradients(0, 3), step_alone(optimizer, mine);
    of_root.set_gradients(0, 3), step_alone(wanted, of_root);
    t.expect(mine.values == of_root.values);
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("the state of another rule or of other parameters is refused, and no step is made") {
  const scratch_directory here;
  model of_20{{20}}, of_30{{30}};
  of_20.set_gradients(0, 0), of_30.set_gradients(0, 0);
  kolo::replicated saved{kolo::update::momentum{}};
  step_alone(saved, of_20);
  kolo::save_state(here / "state", saved);
  const auto load = [&](auto&& optimizer) { return words_of([&] { kolo::load_state(here / "state", optimizer); }); };
  CHECK(load(kolo::replicated{kolo::update::momentum{}}).empty());
  CHECK(contains(load(kolo::replicated{kolo::update::adamw{}}), "the state of another update rule"));
  CHECK(contains(load(kolo::replicated<kolo::update::momentum, double>{kolo::update::momentum{}}),
                 "the state of another update rule"));
  kolo::replicated other{kolo::update::momentum{}};
  kolo::load_state(here / "state", other);
  const auto before = of_30.values;
  CHECK(contains(words_of([&] { step_alone(other, of_30); }),
                 "the state of parameter 0 is of 20 elements, and not of 30"));
  CHECK(of_30.values == before);
  kolo::save_state(here / "state", saved, saved);
  CHECK(contains(load(kolo::replicated{kolo::update::momentum{}}), "a state of other optimizers"));
}

TEST_CASE("restore_checkpoint gives each rank the checkpoint that the root reads; its error is thrown on all ranks") {
  const scratch_directory here;
  model saved{sizes};
  kolo::save_checkpoint(here / "state", saved.parameters());
  tally t;
  kolo::threads::run(3, [&](auto& comm) {
    model mine{sizes};
    for (auto& v : mine.values) std::fill(v.begin(), v.end(), 99.0f);
    const auto before = mine.values;
    t.expect(
        contains(words_of([&] { kolo::restore_checkpoint(comm, here / "none", mine.parameters()); }), "No such file"));
    t.expect(mine.values == before);
    kolo::restore_checkpoint(comm, here / "state", mine.parameters(), 1);
    t.expect(mine.values == saved.values);
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("checkpoints are loaded over slots that hold a few elements of the parameters, and no more") {
  const scratch_directory here;
  tally t;
  kolo::threads::run(2,
                     [&](auto& comm) {
                       model saved{sizes}, mine{sizes};
                       for (auto& v : mine.values) std::fill(v.begin(), v.end(), 99.0f);
                       kolo::sharded_optimizer from{comm, kolo::update::sgd{}, saved.parameters()};
                       kolo::save_sharded_checkpoint(here / "state", from);
                       kolo::sharded_optimizer to{comm, kolo::update::sgd{}, mine.parameters()};
                       kolo::load_sharded_checkpoint(here / "state", to);
                       t.expect(mine.values == saved.values);
                       if (comm.rank() == 0) kolo::save_checkpoint(here / "whole", saved.parameters());
                       for (auto& v : mine.values) std::fill(v.begin(), v.end(), 99.0f);
                       kolo::restore_checkpoint(comm, here / "whole", mine.parameters());
                       t.expect(mine.values == saved.values);
                     },
                     {.slot_bytes = 16});
  CHECK(t.wrong == 0);
}

TEST_CASE("a sharded checkpoint resumes with the same bits on any number of ranks, and replaces the previous one") {
  const auto wanted = train(1, 0, 6);
  for (const int from : {1, 2, 4})
    for (const int to : {1, 3, 4}) {
      const scratch_directory here;
      CHECK(train(4, 0, 2, "", here / "state") != wanted);
      train(from, 2, 3, here / "state", here / "state");
      CHECK(here.entries() == from + 1);
      INFO(from << " ranks, then " << to);
      CHECK(train(to, 3, 6, here / "state") == wanted);
    }
}

TEST_CASE("a link to a sharded checkpoint is loaded, and a save to the link replaces that checkpoint, or makes it") {
  const scratch_directory here;
  const std::string link = here / "latest";
  fs::create_directory(here / "run");
  fs::create_symlink("run/state", link);
  const std::string file = here / "run/state";
  const auto wanted = train(1, 0, 6);
  train(2, 0, 2, "", file);
  train(3, 2, 3, link, link);
  CHECK(train(2, 3, 6, link) == wanted);
  CHECK(train(2, 3, 6, file) == wanted);
  CHECK((fs::is_symlink(link) && here.entries() == 2));
  fs::create_symlink("run/new", here / "next");
  train(2, 0, 3, "", here / "next");
  CHECK(train(2, 3, 6, here / "run/new") == wanted);
}

TEST_CASE("a failed sharded save leaves the previous checkpoint, and parts of different saves are refused") {
  const scratch_directory here;
  const auto save = [&](float filled, const std::string& by_second) {
    std::string why[2];
    kolo::threads::run(2, [&](auto& comm) {
      model mine{sizes};
      for (auto& v : mine.values) std::fill(v.begin(), v.end(), filled);
      kolo::sharded_optimizer optimizer{comm, rule, mine.parameters()};
      why[comm.rank()] =
          words_of([&] { kolo::save_sharded_checkpoint(comm.rank() == 0 ? here / "state" : by_second, optimizer); });
    });
    return why[0] + why[1];
  };
  const auto loaded = [&](float filled) {
    model all{sizes};
    for (auto& v : all.values) std::fill(v.begin(), v.end(), filled);
    return train(3, 0, 0, here / "state") == all.values;
  };
  CHECK(save(1, here / "state").empty());
  CHECK(contains(save(2, here / "none/state"), "rank 1 could not write its part"));
  CHECK(here.entries() == 3);
  CHECK(loaded(1));
  fs::copy(here / "state" + ".save1.1of2", here / "state" + ".kept");
  CHECK(save(2, here / "state").empty());
  CHECK(here.entries() == 4);
  CHECK(loaded(2));
  fs::copy(here / "state" + ".kept", here / "state" + ".save2.1of2", fs::copy_options::overwrite_existing);
  CHECK(contains(words_of([&] { train(1, 0, 0, here / "state"); }), "parts are of different saves"));
}

TEST_CASE("a sharded save over another format keeps the old checkpoint until the new one is complete") {
  const scratch_directory here;
  train(2, 0, 1, "", here / "state");
  const auto contents = [&] {
    std::map<std::string, std::string> all;
    for (const auto& file : fs::directory_iterator{here.path()}) {
      std::ifstream in{file.path(), std::ios::binary};
      all[file.path().filename()] = {std::istreambuf_iterator<char>{in}, {}};
    }
    return all;
  };
  for (const auto& [name, text] : contents()) {
    std::fstream file{here / name, std::ios::binary | std::ios::in | std::ios::out};
    file.seekp(7), file.put('3');  // a byte of the format mark
  }
  const auto before = contents();
  struct rlimit usual {};
  ::getrlimit(RLIMIT_FSIZE, &usual);
  struct rlimit little {
    64, usual.rlim_max
  };
  ::setrlimit(RLIMIT_FSIZE, &little);
  const std::string why = words_of([&] { train(2, 0, 2, "", here / "state"); });
  ::setrlimit(RLIMIT_FSIZE, &usual);
  CHECK_FALSE(why.empty());
  CHECK(contents() == before);
  const auto wanted = train(2, 0, 2, "", here / "state");
  CHECK(here.entries() == 3);
  for (const auto& [name, text] : before) CHECK(fs::exists(here / name) == (name == "state"));
  CHECK(train(3, 2, 2, here / "state") == wanted);
}

TEST_CASE("ranks that save to different folders or names get an error, and existing checkpoints do not change") {
  const scratch_directory here, there;
  std::string why[2];
  const auto save = [&](const std::string& by_first, const std::string& by_second) {
    kolo::threads::run(2,
                       [&](auto& comm) {
                         model mine{sizes};
                         kolo::sharded_optimizer optimizer{comm, rule, mine.parameters()};
                         why[comm.rank()] = words_of([&] {
                           kolo::save_sharded_checkpoint(comm.rank() == 0 ? by_first : by_second, optimizer);
                         });
                       },
                       {.timeout = std::chrono::seconds{8}});
  };
  const auto a = here / "state", b = here / "b";
  train(2, 0, 1, "", a), train(2, 0, 2, "", b), train(2, 0, 3, "", b);
  save(a, b);
  for (const auto& text : why) CHECK(contains(text, "checkpoints of different names"));
  CHECK(here.entries() == 6);
  CHECK(train(1, 3, 3, b) == train(1, 0, 3));
  save(a, there / "state");
  CHECK(contains(why[0], "rank 1 could not see rank 0's part"));
  CHECK(contains(why[1], "a folder that this rank does not see: there is no " + there / "state" + ".save2.0of2"));
  CHECK((here.entries() == 6 && there.entries() == 0));
  CHECK(train(1, 1, 1, a) == train(1, 0, 1));
}

TEST_CASE("a sharded save whose index cannot be written leaves no part") {
  const scratch_directory here;
  fs::create_directory(here / "state");  // the path of the index
  std::string why[2], ends[2];
  kolo::threads::run(2, [&](auto& comm) {
    model mine{sizes};
    kolo::sharded_optimizer optimizer{comm, rule, mine.parameters()};
    const auto save = [&] { kolo::save_sharded_checkpoint(here / "state", optimizer); };
    why[comm.rank()] = words_of(save);
    ends[comm.rank()] = end_of(save);
  });
  CHECK(contains(why[0], "not a file, and so not replaced"));
  CHECK(contains(why[1], "rank 0 could not write its part of a checkpoint"));
  CHECK(ends[1] == "peer failed 0");
  CHECK(here.entries() == 1);
}

TEST_CASE(
    "a rank 0 that is stopped during a save, while others save, does not destroy their checkpoint when it continues") {
  for (const stop at : {stop::before_the_index_has_its_name, stop::after_that})
    for (const int ranks : {1, 2, 3}) {
      const scratch_directory here;
      train(2, 0, 1, "", here / "state");
      std::string why[2];
      stopped = runs;
      std::thread older{[&] {
        kolo::threads::run(2, [&](auto& comm) {
          model mine{sizes};
          kolo::sharded_optimizer optimizer{comm, rule, mine.parameters()};
          if (comm.rank() == 0) stops = at;
          why[comm.rank()] = words_of([&] { kolo::save_sharded_checkpoint(here / "state", optimizer); });
        });
        int none = runs;
        if (stopped.compare_exchange_strong(none, stands)) stopped.notify_all();  // it has not stopped
      }};
      stopped.wait(runs);
      const auto wanted = train(ranks, 0, 3, "", here / "state");
      stopped = goes_on, stopped.notify_all();
      older.join();
      INFO(ranks << " ranks; " << why[0]);
      const bool was_late = at == stop::before_the_index_has_its_name;
      CHECK(contains(why[0], "No such file or directory: cannot write " + here / "state") == was_late);
      CHECK(contains(why[1], "rank 0 could not write the checkpoint's index") == was_late);
      CHECK(here.entries() == ranks + 1);
      std::vector<std::vector<float>> loaded;
      CHECK(words_of([&] { loaded = train(2, 3, 3, here / "state"); }) == "");
      CHECK((loaded == wanted));
    }
}

TEST_CASE("a load during which a save replaces the files reads the new checkpoint") {
  const scratch_directory here;
  train(2, 0, 1, "", here / "state");
  const std::string part = here / "state" + ".save1.1of2";
  fs::remove(part);
  REQUIRE(::mkfifo(part.c_str(), 0600) == 0);  // a reader of the part blocks until the other end is closed
  std::vector<std::vector<float>> loaded;
  std::string why;
  std::thread reader{[&] { why = words_of([&] { loaded = train(1, 2, 2, here / "state"); }); }};
  const int end = ::open(part.c_str(), O_WRONLY | O_CLOEXEC);
  const auto wanted = train(3, 0, 2, "", here / "state");
  CHECK(here.entries() == 4);
  ::close(end);
  reader.join();
  CHECK(why.empty());
  CHECK(loaded == wanted);
}

TEST_CASE("a load abandons the current step, after its exchange or in the middle of its passes or leaves") {
  const scratch_directory here;
  const auto check = [&](const kolo::optimizer_options& o, float divisor, auto begin) {
    tally t;
    kolo::threads::run(2, [&](auto& comm) {
      model mine{sizes}, reference{sizes};
      kolo::sharded_optimizer optimizer{comm, kolo::update::sgd{.rate = 0.5}, mine.parameters(), o};
      const auto ends_step = [&] {
        for (std::size_t i = 0; i < sizes.size(); ++i) optimizer.ready(i);
        return optimizer.step();
      };
      kolo::save_sharded_checkpoint(here / "state", optimizer);
      mine.set_gradients(comm.rank(), 7);
      begin(optimizer, ends_step);
      kolo::load_sharded_checkpoint(here / "state", optimizer);
      mine.set_gradients(comm.rank(), 1);
      if (o.passes > 1 || o.leaves > 0) t.expect(!ends_step());
      t.expect(ends_step());
      descent alone;
      reference.set_sums(0, 2, 1, divisor), step_alone(alone, reference);
      t.expect(mine.values == reference.values);
    });
    CHECK(t.wrong == 0);
  };
  const auto ends_pass = [](auto&, auto& ends_step) { ends_step(); };
  check({}, 2, [](auto& o, auto&) { o.synchronize(); });
  check({.passes = 2}, 4, ends_pass);
  check({.passes = 2}, 4, [](auto& o, auto&) { o.ready(0); });
  check({.leaves = 4}, 4, ends_pass);
}

TEST_CASE("a load while buckets are in flight is refused, because the next step would update nothing") {
  const scratch_directory here;
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    model mine{sizes};
    kolo::sharded_optimizer optimizer{comm, kolo::update::sgd{.rate = 0.5}, mine.parameters()};
    kolo::save_sharded_checkpoint(here / "state", optimizer);
    mine.set_gradients(comm.rank(), 1);
    optimizer.ready(0);
    bool is_refused = false;
    try {
      kolo::load_sharded_checkpoint(here / "state", optimizer);
    } catch (const kolo::error& e) {
      is_refused = e.code() == kolo::errc::invalid_argument || e.code() == kolo::errc::peer_failed;
    }
    t.expect(is_refused);
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("a save removes the files of killed saves, and no others") {
  const scratch_directory here;
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& file : fs::directory_iterator{here.path()}) all.insert(file.path().filename());
    return all;
  };
  const std::set<std::string> kept{"state.save",        "state.saved",          "state.save2.0of",
                                   "state.save2.0of3x", "state.save.0of3",      "state.save2.0of3.partial-abcdefg",
                                   "other.save2.0of3",  "other.partial-abcdef", "state.partial-locked"};
  for (const auto& name : kept) std::ofstream{here / name};
  for (const auto& name : {"state.save1.2of3", "state.save1.0of2.partial-abcdef", "state.save2.0of3",
                           "state.save2.1of3.partial-ABC123", "state.partial-abcdef"})
    std::ofstream{here / name};
  const int written = ::open((here / "state.partial-locked").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(::flock(written, LOCK_EX) == 0);
  train(2, 0, 1, "", here / "state");
  ::close(written);
  std::set<std::string> wanted = kept;
  wanted.merge(std::set<std::string>{"state", "state.save3.0of2", "state.save3.1of2"});
  CHECK(names() == wanted);
}

TEST_CASE("a sharded checkpoint's files have the permissions that the umask leaves") {
  for (const ::mode_t mask : {0077u, 0027u, 0u}) {
    const scratch_directory here;
    const auto before = ::umask(mask);
    train(2, 0, 1, "", here / "state");
    ::umask(before);
    for (const auto& file : fs::directory_iterator{here.path()})
      CHECK(file.status().permissions() == static_cast<fs::perms>(0666 & ~mask));
  }
}

TEST_CASE("a sharded checkpoint that is damaged, of another model or missing is an error on each rank") {
  const scratch_directory here;
  train(2, 0, 1, "", here / "state");
  const auto load = [&](const std::vector<std::size_t>& of, const std::string& path) {
    std::string why[2];
    kolo::threads::run(2, [&](auto& comm) {
      model mine{of};
      kolo::sharded_optimizer optimizer{comm, rule, mine.parameters()};
      why[comm.rank()] = words_of([&] { kolo::load_sharded_checkpoint(path, optimizer); });
    });
    return why[0].empty() || why[1].empty() ? "loaded" : why[0] + why[1];
  };
  CHECK(contains(load({100, 0, 31, 58}, here / "state"), "of another model"));
  CHECK(contains(load({100, 0, 57, 31}, here / "state"), "of another model"));
  CHECK(contains(load({100, 0, 31, 56}, here / "state"), "of another model"));
  kolo::threads::run(1, [&](auto& comm) {
    model mine{sizes};
    kolo::sharded_optimizer optimizer{comm, kolo::update::sgd{}, mine.parameters()};
    CHECK(contains(words_of([&] { kolo::load_sharded_checkpoint(here / "state", optimizer); }),
                   "of another update rule"));
  });
  CHECK(contains(load(sizes, here / "none"), "No such file"));
  fs::resize_file(here / "state" + ".save1.1of2", 300);
  CHECK(contains(load(sizes, here / "state"), "damaged"));
  train(2, 0, 2, "", here / "later");
  fs::copy_file(here / "later.save1.1of2", here / "state" + ".save1.1of2", fs::copy_options::overwrite_existing);
  CHECK(contains(load(sizes, here / "state"), "parts are of different saves"));
}

TEST_CASE("a sharded checkpoint of bfloat16 is refused for float16, whose elements have the same size") {
  const scratch_directory here;
  kolo::threads::run(1, [&](auto& comm) {
    const auto of = [&]<class T>(T) {
      struct tensors {
        std::vector<T> value, gradient;
      };
      return kolo::sharded_optimizer{comm, rule_of_halves{},
                                     std::vector{tensors{std::vector<T>(9), std::vector<T>(9)}}};
    };
    auto saved = of(kolo::bfloat16{}), again = of(kolo::bfloat16{});
    auto other = of(kolo::float16{});
    kolo::save_sharded_checkpoint(here / "state", saved);
    CHECK(words_of([&] { kolo::load_sharded_checkpoint(here / "state", again); }) == "");
    CHECK(contains(words_of([&] { kolo::load_sharded_checkpoint(here / "state", other); }), "of another model"));
  });
}

TEST_CASE("a load that fails on one rank does not change the steps of any rank") {
  const scratch_directory here;
  train(2, 0, 5, "", here / "state");
  fs::resize_file(here / "state" + ".save1.1of2", 300);
  tally t;
  kolo::threads::run(2, [&](auto& comm) {
    model mine{sizes};
    kolo::sharded_optimizer optimizer{comm, rule, mine.parameters()};
    mine.set_gradients(5, 0), optimizer.step();
    t.expect(!words_of([&] { kolo::load_sharded_checkpoint(here / "state", optimizer); }).empty());
    t.expect(optimizer.steps() == 1);
  });
  CHECK(t.wrong == 0);
}

TEST_CASE("shards that are padded, dropped or exact") {
  struct place {
    int rank_, size_;
    int rank() const { return rank_; }
    int size() const { return size_; }
  };
  const int data[] = {0, 1, 2, 3, 4, 5, 6};
  const auto items = [&](int rank, kolo::remainder rest) {
    const auto mine = kolo::shard(data, place{rank, 3}, rest);
    return std::vector<int>(mine.begin(), mine.end());
  };
  CHECK(items(0, kolo::remainder::drop) == std::vector{0, 3});
  CHECK(items(0, kolo::remainder::exact) == std::vector{0, 3, 6});
  CHECK(items(1, kolo::remainder::exact) == std::vector{1, 4});
  CHECK(items(1, kolo::remainder::pad) == std::vector{1, 4, 0});
  CHECK(items(2, kolo::remainder::pad) == std::vector{2, 5, 1});
  const auto even = kolo::shard(std::vector<int>(6), place{0, 3}, kolo::remainder::pad);
  CHECK(even.size() == 2);
}

TEST_CASE("seeds differ by rank and purpose, and by_size scales the rate with the ranks") {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t seed : {0u, 1u})
    for (int rank = 0; rank < 8; ++rank)
      for (std::uint64_t epoch = 0; epoch < 8; ++epoch) seeds.insert(kolo::seed_for(seed, rank, epoch));
  CHECK(seeds.size() == 128);
  STATIC_REQUIRE(kolo::seed_for(1, 2, 3) == kolo::seed_for(1, 2, 3));
  STATIC_REQUIRE(kolo::by_size(0.5f, 4) == 2.0f);
  STATIC_REQUIRE(kolo::by_size(0.5f, 4, 1.5f) == 1.5f);
}

TEST_CASE("weighted metrics, moments of unequal counts, and agreed_steps") {
  for (const int p : {1, 2, 3, 4}) {
    tally t;
    kolo::threads::run(p, [&](auto& comm) {
      const auto r = static_cast<std::size_t>(comm.rank());
      double metric[] = {static_cast<double>(r)};
      kolo::average_metrics(comm, metric, r);  // rank 0 has none
      double sum = 0, count = 0, mean = 0, squares = 0;
      kolo::moments own[1], all;
      if (r == 0) own[0].mean = std::nan("");  // 0 / 0: rank 0 has seen none
      for (std::size_t s = 0; s < static_cast<std::size_t>(p); ++s) {
        sum += static_cast<double>(s * s), count += static_cast<double>(s);
        for (std::size_t i = 0; i < s; ++i) {
          const double x = 1e9 + static_cast<double>(i * s);
          all = kolo::merge_moments{}(all, {1, x, 0});
          if (s == r) own[0] = kolo::merge_moments{}(own[0], {1, x, 0});
          mean += static_cast<double>(i * s), squares += static_cast<double>(i * s * i * s);
        }
      }
      t.expect(p == 1 ? std::isnan(metric[0]) : std::abs(metric[0] - sum / count) < 1e-12);
      kolo::sync_moments(comm, own);
      t.expect(own[0].count == count);
      const double variance = p == 1 ? 0 : squares / count - mean / count * (mean / count);
      t.expect(std::abs(own[0].variance() - variance) < 1e-6 && std::abs(all.variance() - variance) < 1e-6);
      t.expect(kolo::agreed_steps(comm, 10 - r) == 11 - static_cast<std::size_t>(p));
    });
    INFO("ranks " << p);
    CHECK(t.wrong == 0);
  }
}

TEST_CASE("checked: functions that call collectives name the line of the program that calls them") {
  std::array<std::string, 2> words;
  const auto names_both_lines = [&](auto of_rank_0, auto of_rank_1) {
    kolo::threads::run(2,
                       [&](auto& comm) {
                         model mine{{8}};
                         auto parameters = mine.parameters();
                         words[std::size_t(comm.rank())] = words_of([&] {
                           if (comm.rank() == 0) of_rank_0(comm, parameters);
                           else of_rank_1(comm, parameters);
                         });
                       },
                       {.timeout = std::chrono::seconds{60}, .checked = true});
    const auto first = words[0].find(", at state.cpp:");
    return first != std::string::npos && words[0].find(", at state.cpp:", first + 1) != std::string::npos;
  };
  const auto broadcasts = [](auto& comm, auto& parameters) { kolo::broadcast_parameters(comm, parameters); };
  const auto restores = [](auto& comm, auto& parameters) { kolo::restore_checkpoint(comm, "none", parameters); };
  const auto sends_state = [](auto& comm, auto&) {
    int state = 0;
    kolo::broadcast_state(comm, state);
  };
  const auto averages = [](auto& comm, auto&) {
    double metrics[2] = {};
    kolo::average_metrics(comm, metrics);
  };
  const auto averages_samples = [](auto& comm, auto&) {
    double metrics[2] = {};
    kolo::average_metrics(comm, metrics, 3);
  };
  const auto averages_leaves = [](auto& comm, auto&) {
    const double metrics[1] = {};
    kolo::average_metrics(comm, metrics, kolo::leaves{2});
  };
  const auto synchronises = [](auto& comm, auto&) {
    kolo::moments channels[1];
    kolo::sync_moments(comm, channels);
  };
  const auto agrees = [](auto& comm, auto&) { kolo::agreed_steps(comm, 1); };
  CHECK(names_both_lines(broadcasts, averages));
  CHECK(names_both_lines(restores, agrees));
  CHECK(names_both_lines(sends_state, averages_samples));
  CHECK(names_both_lines(averages_leaves, synchronises));
}
