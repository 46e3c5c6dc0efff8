// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Faults are found: good schedules are changed in one place, and the verdict names the fault and the place.
#include "support/catch.hpp"
#include "unit/schedule/list.hpp"

#include <kolo/schedule/verify.hpp>

#include <optional>
#include <sstream>
#include <system_error>

using namespace kolo;

namespace {

/// S with its transfers changed by `edit`: everywhere, or by one rank in one round.
template <Schedule S, bool Relative = false>
struct edited {
  static constexpr auto collective = S::collective;
  static constexpr bool ordered = is_ordered<S>();
  static constexpr bool relative = Relative;
  S good{};
  void (*edit)(transfer&, int rank, int size, int round) = nullptr;
  int rank = -1, round = -1;
  int more_rounds = 0, reduce_round = 1 << 30;

  constexpr bool supports(int p) const { return kolo::supports(good, p); }
  constexpr int blocks(int p) const { return good.blocks(p); }
  constexpr int rounds(int p) const { return good.rounds(p) + more_rounds; }
  constexpr int reduce_rounds(int p) const { return reduce_round < rounds(p) ? reduce_round : rounds(p); }
  constexpr step at(int r, int p, int k) const {
    step bad;
    for (transfer t : step{good.at(r, p, k)}) {
      if ((rank < 0 || rank == r) && (round < 0 || round == k)) edit(t, r, p, k);
      bad += t;
    }
    return bad;
  }
};

template <class Out, class X>
concept PrintedByKolo = requires(Out& out, const X& x) {
  kolo::operator<<(out, x);
};
static_assert(PrintedByKolo<std::ostringstream, verdict> && !PrintedByKolo<std::wostringstream, verdict>);
static_assert(!PrintedByKolo<std::ostringstream, std::error_code>);  // it has a message(), and is not kolo's

/// A schedule that is given by `script`.
template <kind K, bool Ordered = false, bool Relative = false>
struct scripted {
  static constexpr auto collective = K;
  static constexpr bool ordered = Ordered;
  static constexpr bool relative = Relative;
  int number_of_blocks, number_of_rounds;
  step (*script)(int rank, int size, int round);
  int number_in_scratch = 0;
  constexpr int blocks(int) const { return number_of_blocks; }
  constexpr int rounds(int) const { return number_of_rounds; }
  constexpr int scratch(int) const { return number_in_scratch; }
  constexpr step at(int r, int p, int k) const { return script(r, p, k); }
};

using edit_type = void (*)(transfer&, int rank, int size, int round);

template <class S>
edited<S> everywhere(edit_type edit) {
  return {.edit = edit};
}
template <class S>
edited<S> at(int rank, int round, edit_type edit) {
  return {.edit = edit, .rank = rank, .round = round};
}
template <class S>
edited<S> with_more_rounds(int number) {
  return {.edit = [](transfer&, int, int, int) {}, .more_rounds = number};
}
// none: not applicable in a verdict; any: not restricted in an edit.
constexpr int none = -1, any = -1;

template <class S>
void check(const S& schedule, int size, fault what, int rank, int round, int block) {
  const auto verdict = verify(schedule, size);
  INFO(verdict);
  CHECK(verdict.what == what);
  CHECK(verdict.size == size);
  CHECK(verdict.rank == rank);
  CHECK(verdict.round == round);
  CHECK(verdict.block == block);
}

}  // namespace

TEST_CASE("an unsupported number of ranks, and a shape that does not fit") {
  check(recursive_doubling::allgather{}, 6, fault::unsupported, none, none, none);
  check(chain::broadcast{{.segments = 0}}, 4, fault::unsupported, none, none, none);
  check(forwarded<binomial::reduce>{4}, 4, fault::unsupported, none, none, none);
  check(ring::allreduce{}, 0, fault::unsupported, none, none, none);
  check(ring::allreduce{}, -3, fault::unsupported, none, none, none);
  const auto idle = [](int, int, int) { return step{}; };
  check(scripted<kind::allgather>{5, 0, idle}, 4, fault::bad_shape, none, none, none);
  check(scripted<kind::alltoall>{8, 0, idle}, 4, fault::bad_shape, none, none, none);
  check(scripted<kind::broadcast>{0, 0, idle}, 4, fault::bad_shape, none, none, none);
  check(scripted<kind::broadcast>{1, -1, idle}, 4, fault::bad_shape, none, none, none);
  check(scripted<kind::broadcast>{1, 0, idle, -1}, 4, fault::bad_shape, none, none, none);
  CHECK(verify(scripted<kind::allgather>{5, 0, idle}, 4).message() ==
        "allgather of 4 ranks: blocks, rounds or root do not fit the collective and the number of ranks: blocks is a "
        "multiple of the number of ranks");
  CHECK(verify(scripted<kind::alltoall>{8, 0, idle}, 4).message().ends_with(": blocks is the number of ranks"));
  CHECK(verify(scripted<kind::barrier>{0, 0, idle}, 4).message().ends_with(": blocks is 1 at least"));
  CHECK(verify(scripted<kind::broadcast>{1, -1, idle}, 4).message().ends_with(": rounds is 0 at least"));
  CHECK(verify(scripted<kind::broadcast>{1, 0, idle, -1}, 4).message().ends_with(": scratch is 0 at least"));
}

TEST_CASE("peers that do not exist, and a rank itself among its peers") {
  check(everywhere<ring::allreduce>([](transfer& t, int r, int, int) { t.to = r + 1; }), 5, fault::bad_peer, 4, 0,
        none);
  check(everywhere<one_shot::allreduce>([](transfer& t, int r, int p, int) {
          t.to = t.from = {r, p};
        }),
        5, fault::bad_peer, 0, 0, none);
  check(at<one_shot::allreduce>(3, any,
                                [](transfer& t, int r, int p, int) {
                                  t.from = {r, p + 1};
                                }),
        5, fault::bad_peer, 3, 0, none);
  check(everywhere<one_shot::alltoall>([](transfer& t, int r, int, int) {
          if (t.to.first == r) t.from = nobody;
        }),
        3, fault::bad_peer, 0, 0, none);
}

TEST_CASE("blocks that do not exist") {
  check(at<binomial::broadcast>(2, any, [](transfer& t, int, int, int) { t.receive.first = 7; }), 4, fault::bad_block,
        2, 0, 7);
  check(at<binomial::broadcast>(2, any, [](transfer& t, int, int, int) { t.send.first = -1; }), 4, fault::bad_block, 2,
        1, -1);
  check(at<binomial::broadcast>(2, 1, [](transfer& t, int, int, int) { t.send.run = 0; }), 4, fault::bad_block, 2, 1,
        none);
  check(at<binomial::broadcast>(2, any, [](transfer& t, int, int, int) { t.receive.count = -1; }), 4, fault::bad_block,
        2, 0, none);
}

TEST_CASE("messages that do not match") {
  check(at<ring::allreduce>(2, 1, [](transfer& t, int, int, int) { t.from = nobody; }), 5, fault::unmatched_send, 1, 1,
        4);
  check(at<ring::allreduce>(1, 1, [](transfer& t, int, int, int) { t.to = nobody; }), 5, fault::unmatched_receive, 2, 1,
        4);
  check(at<ring::allreduce>(1, 1, [](transfer& t, int, int, int) { t.send.count = 2; }), 5, fault::different_lengths, 2,
        1, 4);
  check(at<ring::allreduce>(2, 1, [](transfer& t, int, int, int) { t.receive.count = 0; }), 5, fault::different_lengths,
        2, 1, 4);
  check(at<ring::allreduce>(2, 1, [](transfer& t, int, int p, int) { t.receive.first = mod(t.receive.first + 1, p); }),
        5, fault::different_blocks, 2, 1, 0);
  const auto twice = [](int r, int, int) {
    const transfer out{.to = 1, .send = {0, 1}}, in{.from = 0, .receive = {0, 1}};
    step both{r == 0 ? out : in};
    both += r == 0 ? out : in;
    return both;
  };
  check(scripted<kind::broadcast>{1, 1, twice}, 2, fault::two_messages, 0, 0, 0);
  const auto sent_twice = [](int r, int, int) {
    const transfer out{.to = 1, .send = {0, 1}}, in{.from = 0, .receive = {0, 1}};
    step now{r == 0 ? out : in};
    if (r == 0) now += out;
    return now;
  };
  check(scripted<kind::broadcast>{1, 1, sent_twice}, 2, fault::two_messages, 1, 0, 0);
}

TEST_CASE("the blocks of an alltoall go from the row to the column") {
  const auto to_the_wrong_place = [](transfer& t, int r, int p, int) {
    if (t.from.first != r) t.receive.first = p + r;
  };
  check(everywhere<one_shot::alltoall>(to_the_wrong_place), 3, fault::different_blocks, 0, 0, 3);
}

TEST_CASE("a block that a rank does not have yet is neither sent nor combined") {
  const auto last_round_first = [](int r, int p, int k) { return step{ring::allgather{}.at(r, p, p - 2 - k)}; };
  check(scripted<kind::allgather>{4, 3, last_round_first}, 4, fault::sends_nothing, 0, 0, 2);
  check(edited<chain::exclusive_scan>{.good{{.segments = 2}},
                                      .edit =
                                          [](transfer& t, int r, int, int) {
                                            if (t.to.first != r) t.then = arrival::mine_first;
                                          }},
        4, fault::combines_with_nothing, 1, 0, 2);
}

TEST_CASE("no block is written twice, or read while it is written") {
  check(everywhere<one_shot::reduce>([](transfer& t, int, int, int) { t.then = arrival::replace; }), 4,
        fault::written_twice, 0, 0, 0);
  check(at<one_shot::gather>(0, any, [](transfer& t, int, int, int) { t.then = arrival::mine_first; }), 4,
        fault::combines_apart, 0, 0, 1);
  const auto apart = [](int r, int, int k) {
    step now{transfer{.to = r ^ (1 << k), .send = {0, 1}}};
    now += {.from = r ^ (1 << k), .receive = {0, 1}, .then = arrival::in_rank_order};
    return now;
  };
  check(scripted<kind::allreduce>{1, 2, apart}, 4, fault::read_while_written, 0, 0, 0);
  const auto another_block = [](int r, int, int) {
    return step{transfer{.to = 1 - r, .send = {r, 2}, .from = 1 - r, .receive = {1 - r, 2}}};
  };
  check(scripted<kind::allreduce>{2, 1, another_block}, 2, fault::read_while_written, 0, 0, 1);
  const auto into_scratch_twice = [](int r, int p, int) {
    return r == 0 ? step{transfer{.from = {1, p - 1}, .receive = {1, 1}}} : step{transfer{.to = 0, .send = {0, 1}}};
  };
  check(scripted<kind::allreduce>{1, 1, into_scratch_twice, 1}, 3, fault::written_twice, 0, 0, 1);
}

TEST_CASE("each contribution is present, and counted once") {
  check(everywhere<ring::allgather>([](transfer& t, int, int, int) { t.then = arrival::theirs_first; }), 4,
        fault::no_operator, 0, 0, 1);
  check(with_more_rounds<ring::reduce_scatter>(1), 4, fault::counted_twice, 0, 3, 3);
  check(with_more_rounds<ring::reduce_scatter>(-1), 4, fault::missing, 0, none, 0);
  check(at<ring::reduce_scatter>(3, 1, [](transfer& t, int, int, int) { t.then = arrival::replace; }), 5,
        fault::missing, 0, none, 0);
  check(with_more_rounds<binomial::broadcast>(-1), 4, fault::missing, 1, none, 0);
  check(with_more_rounds<dissemination::barrier>(-1), 5, fault::missing, 0, none, 0);
  check(
      scripted<kind::scan>{1, 2, [](int r, int p, int k) { return step{recursive_doubling::butterfly::at(r, p, k)}; }},
      4, fault::not_promised, 0, none, 0);
  // Through scratch, where an alltoall may mix its blocks: the block of a rank for itself arrives as if from the other rank.
  const auto mixed_up = [](int r, int, int k) {
    if (k == 0) return step{transfer{.to = r, .send = {r, 1}, .from = r, .receive = {4, 1}}};
    if (k == 2) return step{transfer{.to = r, .send = {4, 1}, .from = r, .receive = {3 - r, 1}}};
    step now{transfer{.to = r, .send = {r, 1}, .from = r, .receive = {2 + r, 1}}};
    return now;
  };
  check(scripted<kind::alltoall>{2, 3, mixed_up, 1}, 2, fault::not_promised, 0, none, 3);
}

TEST_CASE("all ranks combine in the same way, and in the declared order") {
  check(scripted<kind::allreduce>{1, 1,
                                  [](int r, int p, int) {
                                    transfer t = *one_shot::allreduce::at(r, p, 0).begin();
                                    t.then = arrival::mine_first;
                                    return step{t};
                                  }},
        3, fault::drift, 2, none, 0);
  check(everywhere<one_shot::allreduce>([](transfer& t, int, int, int) { t.then = arrival::mine_first; }), 3,
        fault::order, 1, 0, 0);
  check(at<binomial::reduce>(2, any, [](transfer& t, int, int, int) { t.then = arrival::theirs_first; }), 4,
        fault::order, 2, 0, 0);
  check(everywhere<chain::scan>([](transfer& t, int, int, int) { t.then = arrival::mine_first; }), 4, fault::order, 1,
        0, 0);
  check(scripted<kind::scan>{1, 1,
                             [](int r, int, int) {  // a scan is in order, whatever is declared
                               return r == 0
                                          ? step{transfer{.to = 1, .send = {0, 1}}}
                                          : step{transfer{.from = 0, .receive = {0, 1}, .then = arrival::mine_first}};
                             }},
        2, fault::order, 1, 0, 0);
  check(edited<ring::allreduce>{.edit = [](transfer&, int, int, int) {}, .reduce_round = 2}, 4, fault::combined_late, 0,
        2, 0);
}

TEST_CASE("a schedule that declares `relative` is checked for it") {
  const auto check_at = [](auto good, int size, edit_type edit) {
    const edited<decltype(good), true> bad{.good = good, .edit = edit, .rank = 2, .round = good.rounds(size) - 1};
    check(bad, size, fault::not_relative, 2, bad.round, none);
  };
  check_at(ring::allreduce{}, 5, [](transfer& t, int, int p, int) { t.to = mod(t.to.first - 1, p); });
  check_at(ring::allreduce{}, 5, [](transfer& t, int, int p, int) { t.from = mod(t.from.first + 1, p); });
  check_at(circulant::allreduce{}, 5, [](transfer& t, int, int p, int) { t.send.first = mod(t.send.first + 1, p); });
  check_at(one_shot::alltoall{}, 5, [](transfer& t, int, int, int) { t.receive.count += 1; });
  check_at(one_shot::allreduce{}, 3, [](transfer& t, int, int, int) { t.then = arrival::mine_first; });
  check_at(dissemination::barrier{}, 6, [](transfer& t, int, int, int) { t.from = nobody; });
  check(edited<recursive_doubling::allreduce, true>{.edit = [](transfer&, int, int, int) {}}, 4, fault::not_relative, 1,
        0, none);
  check(edited<binomial::broadcast, true>{.edit = [](transfer&, int, int, int) {}}, 4, fault::not_relative, 1, 0, none);
  CHECK(verify(edited<one_shot::alltoall, true>{.edit = [](transfer&, int, int, int) {}}, 4));
  const auto idle = [](int, int, int) { return step{}; };
  check(scripted<kind::broadcast, false, true>{2, 0, idle}, 4, fault::bad_shape, none, none, none);
  check(scripted<kind::broadcast, false, true>{1, 0, idle, 1}, 4, fault::bad_shape, none, none, none);
}

TEST_CASE("the text of verdicts") {
  const auto wrong = verify(with_more_rounds<ring::reduce_scatter>(1), 4);
  CHECK_FALSE(wrong);
  CHECK(wrong.message() == "reduce_scatter of 4 ranks: rank 0, round 3, block 3: contribution counted twice");
  CHECK(verify(with_more_rounds<dissemination::barrier>(-1), 2).message() ==
        "barrier of 2 ranks: rank 0, block 0: contribution missing at the end");
  CHECK(verify(recursive_doubling::allgather{}, 3).message() ==
        "allgather of 3 ranks: the schedule does not support this number of ranks");
  std::ostringstream text;
  text << verify(ring::allreduce{}, 5) << '\n' << verify(ring::allreduce{}, 1);
  CHECK(text.str() == "allreduce of 5 ranks: proven\nallreduce of 1 rank: proven");
  for (int f = 0; f <= static_cast<int>(fault::not_relative); ++f) CHECK(sentence(static_cast<fault>(f))[0] != '\0');
}

namespace {

/// If a transfer only sends, or only receives, that half is changed. The last edit is for several blocks.
constexpr edit_type edits[] = {
    [](transfer& t, int, int p, int) {
      auto& peer = t.to.count > 0 ? t.to : t.from;
      peer.first = mod(peer.first + 1, p);
    },
    [](transfer& t, int, int p, int) {
      auto& peer = t.from.count > 0 ? t.from : t.to;
      peer.first = mod(peer.first + 1, p);
    },
    [](transfer& t, int, int, int) { (t.to.count > 0 ? t.to : t.from) = nobody; },
    [](transfer& t, int, int, int) { (t.from.count > 0 ? t.from : t.to) = nobody; },
    [](transfer& t, int, int, int) { (t.to.count > 0 ? t.send : t.receive).count += 1; },
    [](transfer& t, int, int, int) { (t.from.count > 0 ? t.receive : t.send).count -= 1; },
    [](transfer& t, int, int p, int) {
      auto& range = t.from.count > 0 ? t.receive : t.send;
      range.first = mod(range.first + 1, p);
    },
};

/// The verdict on all ranks by the execution of one, for any number of ranks.
template <class S>
std::optional<verdict> by_one_rank(const S& schedule, int p) {
  const kolo::detail::schedule::erased<S> subject{schedule, p};
  return kolo::detail::schedule::representative{subject}.run();
}

}  // namespace

TEST_CASE("executing one rank gives the verdict on all, for right schedules and for faults that all ranks have") {
  int spoilt = 0;
  const auto compare = [&](const char* name, auto good) {
    for (int p = 2; p <= 17; ++p) {
      INFO(name << " of " << p << " ranks");
      const auto told = by_one_rank(good, p);
      CHECK((told && *told && told->way == proof_way::one_rank));
      for (int k = 0; p < 12 && k < good.rounds(p); ++k)
        for (int e = 0; e < (good.blocks(p) == 1 ? 6 : 7); ++e) {
          const edited<decltype(good), true> bad{.good = good, .edit = edits[e], .round = k};
          const auto all = verify(bad, p);
          const auto one = by_one_rank(bad, p);
          spoilt += all ? 0 : 1;
          if (one && bool{*one} != bool{all})
            FAIL_CHECK("edit " << e << " of round " << k << ": " << all << "; " << *one);
        }
    }
  };
  compare("ring::allreduce", ring::allreduce{});
  compare("circulant::allreduce", circulant::allreduce{});
  compare("pairwise::reduce_scatter", pairwise::reduce_scatter{});
  compare("bruck::allgather", bruck::allgather{});
  compare("one_shot::allgather", one_shot::allgather{});
  compare("dissemination::barrier", dissemination::barrier{});
  compare("dissemination of radix 3", dissemination::barrier{{.radix = 3}});
  CHECK(spoilt > 1000);
  CHECK_FALSE(by_one_rank(one_shot::allreduce{}, 4));  // it combines in the order of the ranks, which is not relative
  CHECK_FALSE(by_one_rank(one_shot::alltoall{}, 4));
  CHECK_FALSE(by_one_rank(recursive_doubling::allreduce{}, 4));
}

TEST_CASE("for very many ranks only one is executed, and the verdict says so") {
  const auto whole = verify(circulant::allreduce{}, 100'003);
  CHECK(whole.message() ==
        "allreduce of 100003 ranks: proven, by rank 0, which all others were seen to follow around the circle");
  const auto sampled = verify(ring::allreduce{}, 20'000);
  CHECK((sampled && sampled.way == proof_way::one_rank_and_samples));
  CHECK(verify(two_shot::reduce_scatter{}, 401).way == proof_way::every_rank);
  CHECK(verify(ring::allreduce{}, 5).way == proof_way::every_rank);
  const edited<circulant::allreduce, true> bad{.edit = edits[0], .rank = 200, .round = 3};
  CHECK(verify(bad, 401).what == fault::not_relative);
  CHECK(verify(bad, 401).rank == 200);
  const edited<circulant::allreduce, true> all_alike{.edit = edits[0], .round = 3};
  CHECK(verify(all_alike, 401).what == fault::unmatched_send);
}

TEST_CASE("in schedules without redundancy every single change is noticed") {
  int changes = 0;
  const auto spoil = [&](const char* name, auto good) {
    using S = decltype(good);
    for (int p = 3; p <= 9; ++p) {
      if (!supports(good, p)) continue;
      for (int k = 0; k < good.rounds(p); ++k)
        for (int r = 0; r < p; ++r)
          for (int e = 0; e < (good.blocks(p) == 1 ? 6 : 7); ++e) {
            const step now{good.at(r, p, k)};
            if (now.size() == 0 || (now.begin()->to.count == 0 && now.begin()->from.count == 0)) continue;
            ++changes;
            const edited<S> bad{.good = good, .edit = edits[e], .rank = r, .round = k};
            if (verify(bad, p))
              FAIL_CHECK(name << " of " << p << " ranks: edit " << e << " by rank " << r << " in round " << k);
          }
    }
  };
  spoil("ring::allreduce", ring::allreduce{});
  spoil("circulant::allreduce", circulant::allreduce{});
  spoil("recursive_doubling::allreduce", recursive_doubling::allreduce{});
  spoil("binomial::reduce", binomial::reduce{});
  spoil("binomial::scatter", binomial::scatter{});
  spoil("binomial::gather", binomial::gather{});
  spoil("chain::scan", chain::scan{{.segments = 3}});
  spoil("one_shot::allgather", one_shot::allgather{});
  spoil("two_shot::allreduce", two_shot::allreduce{});
  spoil("dissemination::barrier", dissemination::barrier{});
  CHECK(changes > 9'000);
}
