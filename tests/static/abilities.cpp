// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each ability of a transport is one concept: an archetype that has all abilities lacks exactly one if its member is missing, or has another type.
#include <kolo/compose/messages.hpp>
#include <kolo/kolo.hpp>
#include <kolo/simulate/simulated.hpp>

namespace {

using namespace kolo;

struct all_but_recording {
  struct options {
    std::chrono::nanoseconds timeout{};
  };
  void flush();
  bool is_checked() const;
  const void* recorder(int) const;
  bool is_gone(int, int) const;
  rank_identity who(int) const;
  std::size_t buffers_in_use();
  const kolo::tuning* tuning() const;
  const std::vector<int>& nodes() const;
  bool is_oversubscribed() const;
  double now() const;
  void begin(const options&);
  std::size_t pieces_at_once() const;
  void add_run(const std::byte*, std::size_t);
  std::size_t shortest_run() const;
  int executor() const;
  int host_transport();
  std::byte* token();
  int heap();
  std::string refusal(const collective_args&);
  int rank_of(const rank_identity&) const;
  int make_current() const;
  void acquire_turn(std::uint64_t&);
  void adopt_first_failure(failure&) const;
  void compare(const char*, const detail::execute::call_signature&, std::chrono::nanoseconds);
};
struct all : all_but_recording {
  struct captured_messages {};
};

/// The abilities of T, one bit each.
template <class T>
constexpr unsigned abilities_of() {
  unsigned bits = 0, bit = 1;
  for (const bool one : {Flushable<T>,
                         ChecksCalls<T>,
                         Observable<T>,
                         SeesExits<T>,
                         Identifiable<T>,
                         LendsBuffers<T>,
                         Tuned<T>,
                         NodeAware<T>,
                         SeesOversubscription<T>,
                         SelfClocked<T>,
                         TakesOptions<T>,
                         Pipelined<T>,
                         TakesRuns<T>,
                         Capturable<T>,
                         HasExecutor<T>,
                         HasHostTransport<T>,
                         HasToken<T>,
                         HasHeap<T>,
                         RefusesCalls<T>,
                         FindsRanks<T>,
                         TakesTurns<T>,
                         AdoptsFailures<T>,
                         ComparesCalls<T>,
                         WorksOnDevice<T>}) {
    if (one) bits |= bit;
    bit <<= 1;
  }
  return bits;
}
constexpr unsigned every = (1u << 24) - 1;
template <class T>
constexpr bool lacks_only(int which) {
  return abilities_of<T>() == (every & ~(1u << which));
}
static_assert(abilities_of<all>() == every);

struct no_flush : all {
  void flush() = delete;
};
struct no_checks : all {
  void is_checked() const;
};
struct no_recorder : all {
  const void* recorder() const;
};
struct no_exits : all {
  bool is_gone(int) const;
};
struct no_identity : all {
  int who(int) const;
};
struct no_lending : all {
  void buffers_in_use();
};
struct no_tuning : all {
  kolo::tuning tuning() const;
};
struct no_nodes : all {
  int nodes() const;
};
struct no_oversubscription : all {
  bool is_oversubscribed(int) const;
};
struct no_clock : all {
  double now(int) const;
};
struct no_options : all {
  void begin(int);
};
struct no_pipeline : all {
  void pieces_at_once() const;
};
struct no_runs : all {
  void shortest_run() const;
};
using no_recording = all_but_recording;
struct no_executor : all {
  int executor();
};
struct no_host_transport : all {
  int host_transport(int);
};
struct no_token : all {
  std::byte token();
};
struct no_heap : all {
  int heap(int);
};
struct no_refusal : all {
  const char* refusal(const collective_args&);
};
struct no_search : all {
  int rank_of(int) const;
};
struct no_turns : all {
  void acquire_turn(int&);
};
struct no_common_failure : all {
  void adopt_first_failure();
};
struct no_comparison : all {
  bool compare(int, int);
};
struct no_device : all {
  int make_current();
};
static_assert(lacks_only<no_flush>(0) && lacks_only<no_checks>(1) && lacks_only<no_recorder>(2) &&
              lacks_only<no_exits>(3) && lacks_only<no_identity>(4));
static_assert(lacks_only<no_lending>(5) && lacks_only<no_tuning>(6) && lacks_only<no_nodes>(7) &&
              lacks_only<no_oversubscription>(8) && lacks_only<no_clock>(9));
static_assert(lacks_only<no_options>(10) && lacks_only<no_pipeline>(11) && lacks_only<no_runs>(12) &&
              lacks_only<no_recording>(13));
static_assert(lacks_only<no_executor>(14) && lacks_only<no_host_transport>(15) && lacks_only<no_token>(16) &&
              lacks_only<no_heap>(17));
static_assert(lacks_only<no_refusal>(18) && lacks_only<no_search>(19) && lacks_only<no_turns>(20) &&
              lacks_only<no_common_failure>(21) && lacks_only<no_comparison>(22) && lacks_only<no_device>(23));

static_assert(Shrinkable<threads::transport> && Shrinkable<messages<threads::transport>> &&
              !Shrinkable<virtual_time::transport>);
struct no_board : threads::transport {
  no_board split(int, int);
  void end_board();
};
static_assert(HasBoard<threads::transport> && !HasBoard<no_board> && SharedMemoryTransport<no_board>);
static_assert(Identifiable<virtual_time::transport> && SelfClocked<virtual_time::transport> &&
              !SelfClocked<threads::transport>);
static_assert(abilities<ability::flush, ability::heap>::are_met_by<all> &&
              !abilities<ability::flush, ability::heap>::are_met_by<no_heap>);

// The same for each member of an executor.
struct no_allocate : detail::execute::host_executor {
  static void allocate(std::size_t) = delete;
};
struct no_copy : detail::execute::host_executor {
  static void copy(std::byte*, const std::byte*, std::size_t) = delete;
};
struct no_combine : detail::execute::host_executor {
  static void combine(const kernel&, std::byte*, const source*, int,
                      std::size_t) = delete;  // without the number of ranks
};
struct no_to_wire : detail::execute::host_executor {
  static void to_wire(const kernel&, std::byte*, const std::byte*, std::size_t) = delete;
};
struct no_from_wire : detail::execute::host_executor {
  static void from_wire() = delete;
};
struct no_round : detail::execute::host_executor {
  static void round() = delete;
};
template <class... X>
constexpr int executors = (0 + ... + int{detail::execute::Executor<X>});
static_assert(executors<detail::execute::host_executor> == 1);
static_assert(executors<no_allocate, no_copy, no_combine, no_to_wire, no_from_wire, no_round> == 0);

}  // namespace
