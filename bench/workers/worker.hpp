// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank of a group: waits for the driver's commands in read(), runs bursts, replies. The same for every implementation.
#pragma once

#include "../meeting_page.hpp"
#include "../protocol.hpp"
#include "buffers.hpp"

#include <cstdlib>
#include <functional>
#include <optional>

namespace kolo_bench {

/// The collective itself; a rank without an input or output gets a pointer that it must not use.
using call = std::function<void(const std::byte* in, std::byte* out)>;

/// An implementation on one rank.
struct backend {
  virtual ~backend() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string version() const = 0;
  virtual std::string offers() const = 0;             ///< a line `collective/algorithm` for each call that it offers
  virtual bool wants_a_core() const { return true; }  ///< rank r is bound to core r modulo cores
  /// Null if it cannot make that call; every rank must decide the same without communication.
  virtual call prepare(const command& c, std::size_t n) = 0;
  /// Memory of another kind, not necessarily zeroed; null if there is none. Collective.
  virtual std::byte* special_memory(const std::string& /*kind*/, std::size_t /*bytes*/) { return nullptr; }
};

struct unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class worker {
 public:
  explicit worker(backend& b)
      : backend_{b},
        cores_{cores()},
        page_{*meeting_page::map(from_environment(page_variable))},
        meeting_{page_, b.size(),
                 !b.wants_a_core()                            ? waiting::sleep
                 : b.size() > static_cast<int>(cores_.size()) ? waiting::yield
                                                              : waiting::spin} {
    if (b.wants_a_core()) pin(cores_[static_cast<std::size_t>(b.rank()) % cores_.size()]);
    const auto [address, length] = abstract_address(from_environment(socket_variable));
    socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0 || ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), length) != 0)
      throw std::runtime_error{"the driver cannot be reached; start workers through it"};
    introduce();
  }
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;
  ~worker() { ::close(socket_); }

  /// Returns when the driver has closed the socket.
  void serve() {
    command c;
    while (read_all(socket_, &c, sizeof(c))) {
      try {
        reply(outcome::done, run(c), {});
      } catch (const unsupported& e) {
        reply(outcome::unsupported, {}, e.what());
      } catch (const wrong_result& e) {
        reply(outcome::wrong, {}, e.what());
      } catch (const std::exception& e) {
        reply(outcome::failed, {}, e.what());
      }
    }
  }

 private:
  static std::string from_environment(const char* name) {
    const char* value = std::getenv(name);
    if (!value) throw std::runtime_error{std::string{name} + " is not set; start workers through the driver"};
    return value;
  }

  void introduce() {
    const auto offers = backend_.offers();
    hello h{};
    h.rank = backend_.rank();
    h.size = backend_.size();
    h.pid = ::getpid();
    h.offers_bytes = static_cast<std::uint32_t>(offers.size());
    h.version = backend_.version();
    if (!write_all(socket_, &h, sizeof(h)) || !write_all(socket_, offers.data(), offers.size()))
      throw std::runtime_error{"the driver has closed the socket"};
  }

  void reply(outcome what, const std::vector<double>& times, std::string_view sentence) {
    answer a{};
    a.what = what;
    a.count = static_cast<std::uint32_t>(times.size());
    a.sentence = sentence;
    if (!write_all(socket_, &a, sizeof(a)) || !write_all(socket_, times.data(), times.size() * sizeof(double)))
      std::exit(0);
  }

  /// The burst: one call to warm up, whose result is checked, then the timed windows.
  std::vector<double> run(const command& c) {
    if (c.collective == "nothing") return windows(c, nullptr, [](const std::byte*, std::byte*) {});
    const auto n = c.bytes / element_bytes(c.element.str());
    const auto once = backend_.prepare(c, n);
    if (!once)
      throw unsupported{"not offered: " + c.collective.str() + " of " + c.element.str() + ", " + c.algorithm.str()};
    auto& b = buffers_for(c, n);
    b.clear();  // clears what an earlier burst has left
    b.fill();
    meeting_.next();
    once(b.in(0), b.out(0));
    const bool right = b.result_is_right();
    if (c.mode == "cold" && b.is_first_use_by_peers()) let_peers_use(b, c, once);
    if (!(c.mode == "touched")) b.clear();
    const auto times = windows(c, &b, once);
    if (!right) throw wrong_result{"rank " + std::to_string(backend_.rank()) + " got a wrong result"};
    return times;
  }

  /// Maps the pages in the peers' address spaces, which happens at their first use; then makes the memory cold again.
  void let_peers_use(buffers& b, const command& c, const call& once) {
    for (int i = 0; i < c.iterations; ++i) once(b.in(i), b.out(i));
    meeting_.next();
    b.clear_all();
  }

  std::vector<double> windows(const command& c, buffers* b, const call& once) {
    const bool touches = b && c.mode == "touched";
    std::vector<double> times;
    times.reserve(static_cast<std::size_t>(c.iterations));
    for (int i = 0; i < c.iterations; ++i) {
      const auto* in = b ? b->in(i) : nullptr;
      auto* out = b ? b->out(i) : nullptr;
      if (touches) b->fill();
      const auto start = meeting_.next();
      for (int k = 0; k < c.batch; ++k) once(in, out);
      const auto end = ticks();
      if (touches) b->read_result();
      times.push_back(static_cast<double>(end - start) / ticks_per_nanosecond());
    }
    return times;
  }

  /// Buffers are kept from burst to burst while their parameters are the same.
  buffers& buffers_for(const command& c, std::size_t n) {
    const buffers::wish wish{c.collective.str(), c.element.str(), c.place.str(), c.buffers.str(), c.mode == "cold", n};
    if (buffers_ && buffers_->made_for() == wish) return *buffers_;
    buffers_.reset();
    buffers_.emplace(wish, backend_.rank(), backend_.size(),
                     [&](const std::string& kind, std::size_t bytes) { return backend_.special_memory(kind, bytes); });
    return *buffers_;
  }

  backend& backend_;
  std::vector<int> cores_;
  meeting_page& page_;
  meeting meeting_;
  int socket_ = -1;
  std::optional<buffers> buffers_{};
};

}  // namespace kolo_bench
