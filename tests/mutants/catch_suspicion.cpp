// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Catches mistakes in the checks of what others have written: a reference, a variable, a forked copy of a rank.
// built with others: ranks
#include <kolo/collective/barrier.hpp>
#include <kolo/execute/self.hpp>
#include <kolo/launch/environment.hpp>
#include <kolo/launch/processes.hpp>

#include <string_view>

#include "processes/children.hpp"

using namespace kolo;

template <class F>
static bool is_refused(F f) {
  try {
    f();
    return false;
  } catch (const error&) {
    return true;
  }
}

static bool references_stay_in_their_region() {
  kolo::detail::shm::shared_mapping m;
  const auto region = m.reserve(1);
  const std::uint64_t page = detail::shm::page_size();
  const auto refuses = [&](std::uint64_t offset, std::size_t bytes) {
    return is_refused([&] { detail::shm::lent_region{}.resolve(m, {region, page, offset}, bytes); });
  };
  return !refuses(page - 1, 1) && refuses(page, 1) && refuses(page - 1, 2);
}

static bool nodes_are_counted() {
  return is_refused([] {
    from_environment([](const char* name) -> const char* {
      const std::string_view n{name};
      return n == "KOLO_RANK"         ? "0"
             : n == "KOLO_SIZE"       ? "2147483647"
             : n == "KOLO_NODE_RANK"  ? "2147483647"
             : n == "KOLO_LOCAL_RANK" ? "0"
             : n == "KOLO_LOCAL_SIZE" ? "1"
                                      : nullptr;
    });
  });
}

static bool copies_do_not_leave() {
  kolo::detail::shm::shared_mapping memory;
  const detail::shm::region_shape shape{2, {}};
  const auto region = shm::transport::initialise(memory, shape);
  shm::transport zero{memory, region, shape, 0}, one{memory, region, shape, 1};
  testing::child{[&] {
    const auto copy = std::move(one);
    return std::string{};
  }}.result();
  return !zero.is_gone(1, 1);
}

static bool copies_do_not_call() {
  self::communicator own;
  return testing::child{[&] {
           try {
             barrier(own);
           } catch (const error& e) {
             return std::string{e.what()};
           }
           return std::string{};
         }}.result()
             .find("forked") != std::string::npos;
}

static bool the_first_failure_stays() {
  kolo::detail::shm::shared_mapping memory;
  const detail::shm::region_shape shape{2, {}};
  const auto region = shm::transport::initialise(memory, shape);
  shm::transport zero{memory, region, shape, 0}, one{memory, region, shape, 1};
  const auto said = [](int peer) { return failure_from({.peer = peer}, errc::peer_failed, 0, {}, "said"); };
  return zero.fail(said(7)).peer == 7 && zero.fail(said(8)).peer == 7 && one.fail(said(9)).peer == 7;
}

int main() {
  return the_first_failure_stays() && references_stay_in_their_region() && nodes_are_counted() &&
                 copies_do_not_leave() && copies_do_not_call()
             ? 0
             : 1;
}
