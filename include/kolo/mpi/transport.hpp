// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport over MPI: messages of one communicator, deadlines by polling, failures reported over a second one.
#pragma once

#include <kolo/impl/engine.hpp>
#include <kolo/mpi/carrier.hpp>
#include <kolo/mpi/failure_channel.hpp>
#include <kolo/mpi/local_liveness.hpp>
#include <kolo/mpi/nodes.hpp>
#include <kolo/mpi/one_host_tuning.hpp>
#include <kolo/mpi/requests.hpp>
#include <kolo/transport/forwarded.hpp>
#include <kolo/transport/small_exchange.hpp>

#include <exception>

namespace kolo::inline KOLO_ABI::mpi {

/// Options of a communicator; equal on all ranks.
struct options {
  std::chrono::nanoseconds timeout{std::chrono::minutes{5}};  ///< of every operation without one of its own
  int ranks_per_node = 0;                                     ///< 0: nodes are hosts; else groups that represent hosts
  std::size_t piece_bytes = 512 * 1024;                       ///< see MessageTransport
  /// See MessageTransport; 0: two among several nodes, one where all share a host, since there the ranks themselves
  /// copy every message.
  std::size_t pieces_at_once = 0;
  std::size_t shortest_run = 4096;  ///< bytes, on average: runs from this length on are described to MPI, not packed
  bool checked = false;             ///< see observe/checked.hpp
};

/// Models MessageTransport. Everything goes through two duplicates of the communicator that it is given, or through a
/// carrier's (see carrier.hpp); MPI is never initialised or finalised. A message's tag encodes its number between its
/// two ranks, its meaning and its length: so an unexpected message is detected, and none is received that is too long.
///
/// MPI cannot be interrupted, so every wait is a poll, and no call of MPI's blocks after the construction. Differences
/// from shared memory:
/// * A rank that dies is noticed at once by the ranks on its host (`errc::peer_died`), by others through them or by the
///   deadline; if the launcher lets them live. Open MPI's does with `--enable-recovery`; MPICH's does with
///   `-disable-auto-cleanup` where each rank runs in a shell that ignores SIGUSR1 and ends well, and else ends them
///   all.
/// * A rank that destroys its communicator notifies nobody: a rank that still waits for it gets `errc::timeout`.
/// * After a failure receives are cancelled. Where MPI keeps one nevertheless, the error reports it, and its memory
///   must not be freed. So it is with a long message that nobody has received: the peer would read what lies there
///   then, and take it for the message.
/// * A broken communicator is not given back to MPI: messages may be under way in it.
/// * A rank learns of another's failure when it waits, and at every 32nd operation: a probe costs Open MPI as much as a
///   small message.
///
/// Every message is a new request: persistent ones gained nothing on one host, 8 bytes to 8 MiB (MPICH 0.97 to 1.04 of
/// the time, Open MPI 0.9 to 1.1, and twice the time at 8 and 64 bytes, which it sends without a request otherwise).
class transport {
 public:
  using abilities =
      kolo::abilities<ability::shrink, ability::checks, ability::oversubscription, ability::tuning, ability::identity,
                      ability::lending, ability::options, ability::runs, ability::pipeline>;
  /// Options of a call: `{.timeout = 10s}`.
  struct options {
    std::chrono::nanoseconds timeout{};  ///< of this call; 0: the communicator's
  };
  using ticket = mpi::ticket;

  /// Collective over `existing`, which stays the caller's.
  /// Errors  on all ranks: mismatch: some are checked, by their options or their environment, and some are not;
  ///         invalid_argument where the deadline is none, then peer_failed on the others.
  explicit transport(MPI_Comm existing, const mpi::options& o = {}) : options_{o} {
    data_ = detail::mpi::duplicate(existing);
    auto second = detail::mpi::duplicate(existing);
    begin_with(std::move(second));
    agree_on_options();
    nodes_ = detail::mpi::hosts_of(data_, rank_, size_);
    liveness_ = detail::mpi::local_liveness{data_, nodes_, rank_};
    if (o.ranks_per_node > 0) nodes_ = detail::transport::node_map::by_size(size_, o.ranks_per_node);
    place_ = nodes_.placement_of(rank_);
  }
  /// Collective over `existing`, which must live longer. `ranks` are its ranks in the carrier's communicator (see
  /// carrier::ranks_of), which carries its messages: MPI makes no further communicator. MPI's own collectives run on
  /// `existing`: whatever else calls MPI's collectives there, such as another transport, must do so in the same order
  /// on all ranks. The transport cannot be split, and does not notice a mismatch after a message of another transport.
  /// A rank whose options are refused leaves the others waiting.
  transport(std::shared_ptr<carrier> on, MPI_Comm existing, std::vector<int> ranks, const mpi::options& o = {})
      : options_{checked(o)}, data_{on->communicator()}, carried_{on, existing, std::move(ranks)} {
    begin_with(data_);
    liveness_ = on->liveness().among(carried_.ranks());
    nodes_ = o.ranks_per_node > 0 ? detail::transport::node_map::by_size(size_, o.ranks_per_node)
                                  : on->nodes().among(carried_.ranks());
    place_ = nodes_.placement_of(rank_);
  }
  transport(transport&&) noexcept = default;
  transport& operator=(transport&&) = delete;
  ~transport() { leave(); }

  int rank() const { return rank_; }
  int size() const { return size_; }
  placement place() const { return place_; }
  std::chrono::nanoseconds timeout() const { return options_.timeout; }
  bool is_checked() const { return options_.checked; }
  /// For queries only, not for messages.
  MPI_Comm native_handle() const { return carried_.on() ? carried_.existing() : data_.get(); }
  bool is_oversubscribed() const { return liveness_.is_oversubscribed(); }  ///< more ranks on this host than cores

  /// Measured over this MPI on one host; null where ranks are on several hosts, or with another MPI: not measured.
  const kolo::tuning* tuning() const {
#if defined(MPICH_VERSION)
    const auto& table = default_tuning::mpich_one_host;
#elif defined(OPEN_MPI)
    const auto& table = default_tuning::openmpi_one_host;
#else
    static constexpr kolo::tuning table{};
#endif
    return place_.node_count == 1 && table.rows[0].ranks > 0 ? &table : nullptr;
  }

  // Failure.

  const failure* failed() const { return failures_.failed(); }
  const failure& fail(const failure& f) {
    const failure named = detail::transport::with_peer_identity(*this, f);
    if (detail::mpi::is_over()) failures_.fail_locally(named);
    else failures_.fail(named);
    cancel_all();
    return *failures_.failed();
  }
  /// Ranks of MPI_COMM_WORLD.
  rank_identity who(int r) const {
    constexpr std::uint64_t no_process = std::uint64_t{1} << 32;
    const int number = detail::mpi::is_running() ? detail::mpi::rank_in_world(native_handle(), r) : MPI_UNDEFINED;
    if (number == MPI_UNDEFINED) return detail::transport::unknown_rank;
    return {.among = no_process, .number = std::uint64_t(number)};
  }
  /// Receives that could not be cancelled, long messages that nobody has received, and MPI's own collectives.
  std::size_t buffers_in_use() {
    if (unfinished_ > 0 && detail::mpi::is_running()) unfinished_ = requests_.in_use();
    return unfinished_;
  }

  /// Notifies the other ranks why this rank leaves; waits for none. Afterwards the transport may only be destroyed.
  void leave(const char* why) noexcept { leave(failure_from({.peer = rank_}, errc::peer_failed, rank_, {}, why)); }

  // Waiting.

  void relax(backoff& p, const wait_context& s) {
    const int polls = p.count_poll();
    if (polls % (is_oversubscribed() ? 4 : 64) == 0) check(p, s);
    if (is_oversubscribed() ? polls > 2 : polls > 5000) std::this_thread::yield();
  }

  void check(backoff& p, const wait_context& s) {
    throw_if_failed();
    const auto now = backoff::clock::now();
    const auto waited = p.waited(now);
    if (s.peer >= 0 && s.peer < size_ && s.peer != rank_ && !s.only_sends) expect_no_other(p, s, now);
    if (const auto dead = liveness_.dead(now))
      give_up(errc::peer_died, s.with_peer(*dead), waited, detail::transport::is_gone_sentence(*dead, true));
    failures_.answer(sign_of(s));
    if (waited > s.timeout) end_late(p, s, waited);
  }

  // Messages.

  void begin(const options&) {
    if (only_thread_ != std::thread::id{} && only_thread_ != std::this_thread::get_id())
      throw error{
          errc::invalid_argument,
          "a thread other than the communicator's calls MPI, which was initialised below MPI_THREAD_SERIALIZED: "
          "kolo::mpi::environment env{argc, argv, MPI_THREAD_SERIALIZED}"};
    if (++begun_ % 32 == 0) throw_if_failed();
    else throw_if_over();
  }

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    const int short_tag = tag_of(sent_[std::size_t(peer)]++, tag, bytes);
    return post(detail::mpi::role::outgoing, "MPI_Isend", peer, data, bytes,
                [&](const void* from, int count, MPI_Datatype type, MPI_Request* r) {
                  return MPI_Isend(from, count, type, comm_rank_of(peer), short_tag, data_.get(), r);
                });
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    const int short_tag = tag_of(received_[std::size_t(peer)]++, tag, bytes);
    return post(detail::mpi::role::incoming, "MPI_Irecv", peer, data, bytes,
                [&](const void* to, int count, MPI_Datatype type, MPI_Request* r) {
                  return MPI_Irecv(const_cast<void*>(to), count, type, comm_rank_of(peer), short_tag, data_.get(), r);
                });
  }
  /// Adds one of the runs of memory that the next message consists of.
  void add_run(const std::byte* data, std::size_t bytes) { runs_.add(data, bytes); }
  /// The caller packs shorter runs faster than MPI does.
  std::size_t shortest_run() const { return options_.shortest_run; }

  /// One of MPI's own collectives: `start(MPI_Comm, MPI_Request*)`. It cannot be cancelled: after a failure its memory
  /// stays MPI's.
  ticket collective(const char* function, auto start) {
    throw_if_over();
    return requests_.post(detail::mpi::role::collective, 0, function, rank_, -1,
                          [&](MPI_Request* r) { return start(native_handle(), r); });
  }
  /// Arguments that such a call refers to until it has ended; one runs at a time.
  std::vector<int>& numbers() { return *numbers_; }
  void submit() {}
  bool done(const ticket& t) {
    throw_if_over();
    return requests_.done(t, rank_);
  }
  std::size_t piece_bytes() const { return options_.piece_bytes; }
  std::size_t pieces_at_once() const {
    return options_.pieces_at_once > 0 ? options_.pieces_at_once : place_.node_count > 1 ? 2 : 1;
  }

  // Groups.

  /// All ranks exchange their colors by our own messages, with a deadline; then the ranks of each group call MPI.
  transport split(int color, int key) {
    if (carried_.on())
      throw error{errc::invalid_argument,
                  "a communicator on a carrier cannot be split: split MPI's, and put each part on the carrier"};
    throw_if_failed();
    const auto group = detail::transport::group_of(*this, color, key);
    auto data = detail::mpi::subset(failures_.communicator(), group, detail::mpi::failure_channel::tag + 1);
    auto second = detail::mpi::subset(failures_.communicator(), group, detail::mpi::failure_channel::tag + 2);
    return transport{*this, group, std::move(data), std::move(second)};
  }

  /// See communicator::shrink; it is refused: MPICH 4.0 and Open MPI 4.1 create no communicator after a rank has died
  /// (that needs ULFM).
  transport shrink(std::chrono::nanoseconds) {
    throw error{errc::invalid_argument, "a communicator over MPI cannot shrink: restart the job from a checkpoint"};
  }

 private:
  static constexpr int countable = 64;  ///< of messages, in a tag; more than are ever awaited from one rank
  static constexpr std::chrono::seconds longest_moment{10};
  static constexpr std::chrono::milliseconds shortest_roll_call{50}, longest_roll_call{1000};

  static mpi::options checked(mpi::options o) { return o.timeout = kolo::checked_deadline(o.timeout), o; }

  transport(const transport& all, const std::vector<int>& group, detail::mpi::handle data, detail::mpi::handle second)
      : options_{all.options_},
        data_{std::move(data)},
        liveness_{all.liveness_.among(group)},
        nodes_{all.nodes_.among(group)} {
    begin_with(std::move(second));
    place_ = nodes_.placement_of(rank_);
  }

  void begin_with(detail::mpi::handle second) {
    detail::mpi::check(MPI_Comm_rank(native_handle(), &rank_), "MPI_Comm_rank");
    detail::mpi::check(MPI_Comm_size(native_handle(), &size_), "MPI_Comm_size", rank_);
    tag_share_ = carried_.of_tags();
    failures_ = detail::mpi::failure_channel{std::move(second), rank_, size_, tag_share_.tag(0), carried_.ranks()};
    sent_.resize(std::size_t(size_));
    received_.resize(sent_.size());
    largest_tag_ = (std::uint64_t{1} << (detail::mpi::tag_bits(data_.get()) - tag_share_.bits)) - 1;
    exceptions_ = std::uncaught_exceptions();
    if (detail::mpi::thread_level() < MPI_THREAD_SERIALIZED && !carried_.on())
      only_thread_ = std::this_thread::get_id();
  }

  void agree_on_options() {
    constexpr int refused = 2;
    const bool has_deadline = options_.timeout.count() > 0;
    const int mine = has_deadline ? options_.checked || detail::execute::is_checked_by_environment() : refused;
    std::vector<int> all(static_cast<std::size_t>(size_));
    detail::mpi::check(MPI_Allgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, data_.get()), "MPI_Allgather", rank_);
    options_ = checked(options_);
    if (const auto r = int(std::find(all.begin(), all.end(), refused) - all.begin()); r < size_)
      throw error{
          failure_from({.peer = r}, errc::peer_failed, rank_, {},
                       detail::core::text_of({"rank ", r, " was given a deadline that is not greater than 0"}))};
    const auto other = std::find(all.begin(), all.end(), 1 - all[0]);
    if (other == all.end()) return;
    const int r = int(other - all.begin());
    throw error{failure_from({.peer = r}, errc::mismatch, rank_, {},
                             detail::core::text_of({"rank ", r, " was given checked ", *other, ", rank 0 ", all[0],
                                                    ": all ranks are checked, or none"}))};
  }

  ticket post(detail::mpi::role what, const char* function, int peer, const std::byte* data, std::size_t bytes,
              auto start) {
    throw_if_over();
    const detail::mpi::message_memory all{data, bytes, runs_};
    return requests_.post(what, bytes, function, rank_, peer,
                          [&](MPI_Request* r) { return start(all.at, all.count, all.type, r); });
  }

  int tag_of(std::uint64_t number, std::uint64_t tag, std::size_t bytes) const {
    const auto meaning = (tag * 0x9e3779b97f4a7c15u ^ bytes * 0xff51afd7ed558ccdu) >> 32;
    const auto mpi_tag = (meaning * countable + number % countable) & largest_tag_;
    return tag_share_.tag(mpi_tag != 0 ? mpi_tag : countable);  // 0: failure notifications, where these share it
  }
  int comm_rank_of(int peer) const { return carried_.on() ? carried_.ranks()[std::size_t(peer)] : peer; }

  /// Messages between two ranks arrive in order. So the first one that has arrived and matches no receive is a wrong
  /// one, or the one after all that this rank awaits. The peer sends the latter after all the awaited ones, so the
  /// waiting ends within a moment; if it does not, the peer is in another call.
  void expect_no_other(backoff& p, const wait_context& s, backoff::clock::time_point now) {
    int there = 0;
    MPI_Status status;
    detail::mpi::check(MPI_Iprobe(comm_rank_of(s.peer), MPI_ANY_TAG, data_.get(), &there, &status), "MPI_Iprobe", rank_,
                       s.peer);
    const bool is_ours = there != 0 && tag_share_.is_in(status.MPI_TAG) && status.MPI_TAG >> tag_share_.bits != 0;
    if (!is_ours) return void(p.suspicious = false);
    if (!std::exchange(p.suspicious, true)) p.checked = now;
    const bool was_awaited =
        (status.MPI_TAG >> tag_share_.bits) % countable != int(received_[std::size_t(s.peer)] % countable);
    if (was_awaited || now - p.checked > std::min<std::chrono::nanoseconds>(longest_moment, s.timeout / 2))
      give_up(errc::mismatch, s, now - p.since, detail::transport::unexpected_message_text(s.peer));
  }

  using sign_of_life = detail::transport::sign_of_life;
  static sign_of_life sign_of(const wait_context& s) { return {sign_of_life::waiting, s.peer, 0, s.is_point_to_point}; }
  /// The deadline has passed. It is extended once, by a moment in which waiting ranks answer the roll call: then none
  /// of them is the late one.
  void end_late(backoff& p, const wait_context& s, std::chrono::nanoseconds waited) {
    if (s.peer < 0)
      give_up(errc::timeout, s, waited,
              "MPI's own collective did not end within " + detail::transport::in_seconds(s.timeout));
    if (!std::exchange(p.excused, true)) {
      p.since += std::clamp<std::chrono::nanoseconds>(s.timeout / 4, shortest_roll_call, longest_roll_call);
      return failures_.call_the_roll();
    }
    auto signs = failures_.signs();
    signs[std::size_t(rank_)] = sign_of(s);
    const auto stopped = liveness_.stopped();
    if (stopped) signs[std::size_t(*stopped)].is = sign_of_life::stopped;
    const int late = detail::transport::who_is_late(signs, s.peer);
    give_up(errc::timeout, s.with_peer(late), waited,
            detail::transport::sentence_about_late(signs, late, s.peer, s.timeout));
  }
  [[noreturn]] void give_up(errc code, const wait_context& s, std::chrono::nanoseconds waited,
                            const std::string& text) {
    throw error{fail(failure_from(s, code, rank_, waited, text))};
  }
  /// What was started before MPI_Finalize and has not ended never will; nor will anything after the cancelling.
  void throw_if_over() {
    if (has_cancelled_) [[unlikely]]
      throw error{*failures_.failed()};
    if (!detail::mpi::is_over()) return;
    throw error{fail(failure_from({}, errc::invalid_argument, rank_, {}, "MPI_Finalize has been called before"))};
  }
  void throw_if_failed() {
    throw_if_over();
    if (!failures_.poll()) return;
    cancel_all();
    throw error{*failures_.failed()};
  }

  /// Cancels MPI's requests, once the failure is known here: the caller's memory is its own again.
  void cancel_all() {
    if (std::exchange(has_cancelled_, true)) return;
    if (!detail::mpi::is_over())
      unfinished_ = requests_.cancel_all(std::chrono::seconds{1}, std::chrono::milliseconds{50});
    abandon();
  }
  void abandon() {
    data_.abandon();
    carried_.keep();
  }

  void leave(const failure& f) noexcept {
    if (failed() || !detail::mpi::is_running()) return;
    failures_.propose(detail::transport::with_peer_identity(*this, f));
    abandon();
  }
  void leave() noexcept {
    if (data_.get() == MPI_COMM_NULL || !detail::mpi::is_running()) return;
    if (unfinished_ > 0) static_cast<void>(numbers_.release());  // MPI still reads them
    if (std::uncaught_exceptions() > exceptions_)
      leave(detail::transport::failure_while_unwinding(*this, detail::transport::destroyed_by_an_exception));
  }

  mpi::options options_{};
  detail::mpi::handle data_;
  detail::mpi::carried_communicator carried_;  ///< on a carrier, where it has one
  detail::mpi::tag_share tag_share_;
  detail::mpi::failure_channel failures_;
  detail::mpi::requests requests_;
  detail::mpi::runs runs_;
  detail::mpi::local_liveness liveness_;
  detail::transport::node_map nodes_;
  std::vector<std::uint64_t> sent_, received_;
  std::unique_ptr<std::vector<int>> numbers_ = std::make_unique<std::vector<int>>();
  placement place_{};
  std::uint64_t largest_tag_ = 32767;
  std::size_t unfinished_ = 0;
  int rank_ = 0, size_ = 1, exceptions_ = 0;
  unsigned begun_ = 0;           ///< operations
  std::thread::id only_thread_;  ///< none: any may call MPI
  bool has_cancelled_ = false;
};

}  // namespace kolo::inline KOLO_ABI::mpi
