// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same headers with a flight log that records nothing, in a namespace of their own, so that both fit into one program.
#define KOLO_ABI unrecorded
#define flight_log replaced_flight_log
#include <kolo/transport/flight_recorder.hpp>
#undef flight_log

namespace kolo::inline KOLO_ABI::detail::transport {
struct flight_log {
  template <class T>
  explicit flight_log(const T&) {}
  void begin(std::uint64_t, operation_summary, std::uint64_t) {}
  void end(std::uint64_t, operation_summary) {}
  void take_back(std::uint64_t) {}
  std::uint64_t begin_pair(std::uint64_t, operation_summary, int) { return 0; }
  void end_pair(std::uint64_t) {}
  void fail() {}
  void wait(const backoff&, const wait_context&) {}
  void poll(const backoff&, const wait_context&, backoff::clock::time_point) {}
  flight_log* operator->() { return this; }
};
}  // namespace kolo::inline KOLO_ABI::detail::transport

#include "recording/measure.hpp"

std::unique_ptr<kolo_bench::subject> kolo_bench::without_recorder() {
  return std::make_unique<timed<kolo::shm::transport>>(std::move(kolo::shm::world().transport()));
}
