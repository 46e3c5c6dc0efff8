// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the members of a group that shares memory admit newcomers (shm/slot_transport.hpp).
#pragma once

#include <kolo/core/text.hpp>
#include <kolo/launch/join.hpp>
#include <kolo/launch/rendezvous.hpp>
#include <kolo/shm/region.hpp>
#include <kolo/shm/slot_transport.hpp>
#include <kolo/transport/sentences.hpp>
#include <kolo/transport/small_exchange.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {
namespace detail::launch {

/// The arguments that all members must pass alike; exchanging them also shows that all have called it.
struct growth_request {
  fixed_text<112> place;
  std::int64_t timeout = 0;
  std::int32_t newcomers = 0, is_refused = 0;  ///< is_refused: the user's name is empty
};

void agree_to_grow(auto& members, const growth_request& mine) {
  const auto all = transport::small_allgather(members, mine, "grow");
  for (int r = 0; r < members.size(); ++r) {
    const auto& its = all[std::size_t(r)];
    if (its.is_refused != 0 || its.newcomers < 1)
      throw error{errc::invalid_argument,
                  "grow takes a name and at least one newcomer: rank " + std::to_string(r) + " says another thing"};
    shm::checked_ranks(0LL + members.size() + its.newcomers);
    if (its.timeout < 0) throw error{errc::invalid_argument, transport::negative_deadline};
    if (std::string_view{its.place} != std::string_view{all[0].place} || its.timeout != all[0].timeout ||
        its.newcomers != all[0].newcomers)
      throw error{errc::invalid_argument,
                  "all ranks pass the same name, number of newcomers and deadline to grow: rank " + std::to_string(r) +
                      " says other ones than rank 0"};
  }
}

/// Rank 0's side of the meeting.
template <class Memory>
class welcoming {
 public:
  welcoming(const shm::region_shape& members, std::string place, int newcomers, std::chrono::nanoseconds timeout)
      : options_{.rank = 0,
                 .size = members.ranks + newcomers,
                 .name = std::move(place),
                 .timeout = timeout,
                 .terms = terms_of(members.given_slot_bytes(), members.checked),
                 .is_growing = true,
                 .here = members.ranks} {}

  /// Waits until all newcomers have come. `check`, which is called meanwhile, throws if waiting is pointless. Returns
  /// the fault, or nothing.
  std::optional<reply> collect(auto check) {
    const auto started = rendezvous_clock::now();
    server_.emplace(rendezvous_at(
        options_, started,
        [&](os::descriptor listener) {
          return rendezvous_server{options_, std::move(listener), started};
        },
        [&](const admission&) -> rendezvous_server<> {
          throw error{errc::mismatch, "another group of ranks grows under that name"};
        },
        check));
    server_->collect(check);
    return server_->fault();
  }
  void admit(const Memory& memory, std::uint64_t region) {
    offer_.emplace(memory, region);
    server_->admit(offer_->number(), offer_->file());
  }

  /// Waits until all ranks, including `members`, have come to that region, and records how the growth has ended.
  void await_all(auto& members, const shm::region_shape& shape, std::byte* next, const wait_context& s) {
    const auto until = rendezvous_clock::now() + options_.timeout;
    for (backoff p; !members.growth();) {
      if (const int lost = mark_lost(next); lost >= 0) return members.end_growth({errc::peer_died, lost});
      int missing = shape.ranks - 1;
      while (missing >= 0 && shm::has_come(next, missing)) --missing;
      if (missing < 0) return members.end_growth({});
      if (missing >= members.size() && rendezvous_clock::now() > until)
        return members.end_growth({errc::timeout, missing});
      members.check(p, s);
      if (transport::progress_others(nullptr) != transport::progress::moved) server_->await_arrivals();
    }
  }
  /// Marks the newcomers that ended before they came there; returns the first, or -1.
  int mark_lost(std::byte* next) {
    int first = -1;
    for (int lost; (lost = server_->first_lost([next](int r) { return shm::has_come(next, r); })) >= 0;)
      if (shm::does_not_come(next, lost) && first < 0) first = lost;
    return first;
  }

 private:
  rendezvous_options options_;
  std::optional<rendezvous_server<>> server_{};
  std::optional<offered_region<Memory>> offer_{};
};

/// Why newcomers were not admitted.
inline std::string sentence_about_growth(const shm::growth_end& end, int members, std::chrono::nanoseconds timeout) {
  const auto who = core::text_of({"rank ", end.rank, end.rank >= members ? ", which was to join, " : ", a member, "});
  if (end.code == errc::peer_died) return who + "was lost before it had come";
  if (end.code == errc::timeout) return who + "has not come within " + transport::in_seconds(timeout);
  return core::text_of({who, "could not go there: ", name(end.code)});
}

}  // namespace detail::launch

namespace detail::shm {

template <class Memory>
slot_transport<Memory> slot_transport<Memory>::grow(std::string_view meeting, int newcomers,
                                                    std::chrono::nanoseconds timeout) {
  ++grows_;
  auto place = launch::meeting_place<Memory>(meeting);
  launch::agree_to_grow(*this, {place, timeout.count(), newcomers, meeting.empty()});

  auto s = detail::transport::setup_of(*this, "grow").with_peer(rank_);
  s.timeout += timeout;  // rank 0 may wait this long for newcomers
  const auto fails = [&](errc code, int peer, std::string_view text) {
    return error{failure_from(s.with_peer(peer), code, rank_, {}, text)};
  };
  const auto shape = shape_.with_ranks(size() + newcomers);
  launch::welcoming<Memory> newcomers_at{shape_, std::move(place), newcomers, timeout};
  std::optional<group_region<Memory>> made;
  std::optional<slot_transport> next;
  std::vector<launch::reply> told(static_cast<std::size_t>(size()));
  auto& offer = told.front();
  if (rank_ == 0) try {
      backoff p;
      const auto goes_on = [&] {
        check(p, s);
        return transport::pause_between(transport::progress_others(nullptr), std::chrono::milliseconds{20});
      };
      if (const auto fault = newcomers_at.collect(goes_on)) offer = *fault;
      else next.emplace(memory_, offer.region = made.emplace(memory_, shape).number(), shape, 0);
    } catch (const error& e) {
      if (failed()) throw;
      offer = {.code = e.code(), .peer = e.peer(), .text = e.cause().text};
    } catch (const std::exception& e) {
      offer = {.code = errc::system, .text = std::string_view{e.what()}};
    }
  detail::transport::small_allgather(*this, told.data(), sizeof offer, s);
  if (offer.code != errc{}) throw fails(offer.code, offer.peer, offer.text);

  fixed_text<256> reason;
  try {
    if (rank_ > 0) next.emplace(memory_, offer.region, shape, rank_);
    else {
      made->may_be_late(size());
      newcomers_at.admit(memory_, offer.region), newcomers_at.await_all(*this, shape, next->base_.get(), s);
    }
    for (backoff p; !growth();) transport::relax(*this, p, s);
  } catch (const error& e) {
    reason = e.cause().text;
    end_growth({failed() ? errc::peer_failed : e.code(), rank_});
  } catch (const std::exception& e) {
    reason = std::string_view{e.what()};
    end_growth({errc::system, rank_});
  }
  const auto end = *growth();
  if (end.code == errc{}) {
    next->confirm();
    next->heap_ = heap();
    next->lent_before_ = lent_before_;
    return *std::move(next);
  }
  if (rank_ == 0) newcomers_at.mark_lost(next->base_.get());
  if (end.rank != rank_) reason = launch::sentence_about_growth(end, size(), timeout);
  const auto why =
      end.code == errc::peer_failed ? error{*failed()} : fails(end.code, end.rank, std::string_view{reason});
  if (next) next->fail(why.cause());  // for ranks that have come
  throw why;
}

}  // namespace detail::shm
}  // namespace kolo::inline KOLO_ABI
