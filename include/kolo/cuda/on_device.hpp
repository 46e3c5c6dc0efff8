// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A decorator that lets a transport for messages serve device views: through pinned memory of the host, or straight
// where the transport can reach devices.
#pragma once

#include <kolo/cuda/deadline.hpp>
#include <kolo/cuda/runtime.hpp>
#include <kolo/cuda/work_stream.hpp>
#include <kolo/impl/engine.hpp>
#include <kolo/transport/abilities.hpp>

#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::cuda {

class pinned_block {
 public:
  explicit pinned_block(std::size_t bytes) : memory_{kolo::cuda::allocate_pinned(bytes)}, bytes_{bytes} {}
  std::byte* data() const { return memory_.get(); }

 private:
  friend class pinned_pool;
  kolo::cuda::pinned_memory memory_;
  std::size_t bytes_;
  std::uint64_t free_after_ = 0;  ///< the gate that the stream has to pass first
  bool is_taken_ = true;
};

/// Blocks are made when none fits, and then kept: as many as have been under way at once, of sizes that are powers of
/// two.
class pinned_pool {
 public:
  pinned_block* take(std::size_t bytes) {
    pinned_block* best = nullptr;
    for (auto& b : blocks_)
      if (!b.is_taken_ && b.free_after_ <= passed_ && b.bytes_ >= bytes && (!best || b.bytes_ < best->bytes_))
        best = &b;
    if (!best) return &blocks_.emplace_back(std::bit_ceil(bytes < 4096 ? std::size_t{4096} : bytes));
    best->is_taken_ = true;
    return best;
  }
  void put_back(pinned_block* b, std::uint64_t free_after) {
    b->is_taken_ = false;
    b->free_after_ = free_after;
  }
  void passed(std::uint64_t gate) { passed_ = gate; }
  /// Nothing is freed: that would wait for what is on the streams.
  void abandon() {
    for (auto& b : blocks_) static_cast<void>(b.memory_.release());
  }

 private:
  std::deque<pinned_block> blocks_;  // they stay where they are
  std::uint64_t passed_ = 0;
};

}  // namespace kolo::inline KOLO_ABI::detail::cuda

namespace kolo::inline KOLO_ABI::cuda {

/// How messages get from a device onto the wire.
enum class route {
  automatic,  ///< straight where the transport reports that it can, else staged
  straight,   ///< the transport is given addresses on the device
  staged      ///< copied to pinned memory and sent from there; received in the same way
};

/// Specialised for transports that may reach devices: `static bool ask(const Base&)`.
template <class Base>
struct reaches_devices {
  static bool ask(const Base&) { return false; }
};

/// Decorates a transport for host messages; models MessageTransport, for device views. All work on elements happens on
/// the stream that a call names, in the order of the calls; a call returns when its last work is on the stream, so work
/// that is put there afterwards sees the result. A message whose data the host must see first waits for an event; the
/// host never blocks, so deadlines hold.
///
/// Reductions happen on the device: they keep its speed, its operators and the bits of every device communicator, and
/// pinned memory holds only the messages under way. The price: staged, data that a rank passes on crosses the bus twice
/// (2(p-1)/p n bytes each way for a ring allreduce, where staging the whole vector would take n).
///
/// The communicator works on the device that is current at its first call. Later calls need the same device to be
/// current; another one is an error that names both, as is a view in another device's memory.
template <MessageTransport Base>
class on_device : private detail::cuda::pinned_pool,
                  public Base {  // in this order: the transport may still write to pinned memory when it is destroyed
 public:
  using abilities = kolo::abilities<ability::host_transport, ability::executor, ability::options, ability::token,
                                    ability::flush, ability::pipeline, ability::refusal, ability::device>;
  static constexpr memory_space space = memory_space::device;

  using options = call_options;
  /// One message under way: its place in the list of such messages, and its number.
  struct ticket {
    std::uint32_t index = 0;
    std::uint64_t number = 0;
  };

  /// The arguments are the transport's; a `route` may come first.
  template <class... Args>
    requires std::constructible_from<Base, Args...>
  explicit on_device(Args&&... args) : on_device(route::automatic, std::forward<Args>(args)...) {}
  template <class... Args>
    requires std::constructible_from<Base, Args...>
  explicit on_device(route r, Args&&... args)
      : Base(std::forward<Args>(args)...),
        is_straight_{r == route::straight ||
                     (r == route::automatic && reaches_devices<Base>::ask(static_cast<const Base&>(*this)))} {}

  on_device(on_device&&) noexcept = default;
  on_device& operator=(on_device&&) = delete;
  ~on_device() {
    if (work_.is_moved_from() || !Base::failed()) return;
    work_.abandon();
    pinned_pool::abandon();
  }

  bool is_straight() const { return is_straight_; }
  int device() const { return work_.device(); }  ///< -1 before the first call
  auto make_current() const { return work_.make_current(); }
  Base& host_transport() { return *this; }  ///< carries the host's bytes, between calls

  // Calls.

  device_executor executor() const { return work_.executor(); }
  std::string refusal(const kolo::collective_args& args) { return work_.refusal(args); }
  void begin(const options& o) {
    if constexpr (TakesOptions<Base>) Base::begin(typename Base::options{.timeout = o.timeout});
    work_.go_on(o.stream);
  }
  std::byte* token() { return work_.token(); }

  /// Puts all that was asked for so far on the stream.
  void flush() {
    work_.flush();
    if constexpr (Flushable<Base>) Base::flush();
  }

  // Waiting.

  void relax(backoff& p, const wait_context& s) {
    if (gates_.empty()) return Base::relax(p, s);
    detail::cuda::relax_for_stream(*this, p, s);
  }
  void check(backoff& p, const wait_context& s) {
    if (!gates_.empty())
      detail::cuda::give_up_when_late(static_cast<Base&>(*this), p, s, "its own stream", detail::cuda::the_operation);
    Base::check(p, s);
  }

  // Messages.

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    auto* const stream = work_.use();
    const ticket t =
        enter({.peer = peer, .data = const_cast<std::byte*>(data), .bytes = bytes, .tag = tag, .is_gated = true});
    auto& m = at(t);
    if (!is_straight_) {
      m.pinned = take(bytes);
      copy(m.pinned->data(), data, bytes, stream);
    }
    behind_next_gate_.push_back(t.index);
    return t;
  }

  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    const ticket t =
        enter({.peer = peer, .data = data, .bytes = bytes, .tag = tag, .is_incoming = true, .is_gated = is_straight_});
    auto& m = at(t);
    if (is_straight_) {
      behind_next_gate_.push_back(t.index);  // work on the stream may still read or write there
    } else {
      m.pinned = take(bytes);
      m.posted = Base::receive(peer, m.pinned->data(), bytes, tag);
    }
    return t;
  }

  void submit() {
    work_.use();
    if (!behind_next_gate_.empty() || is_gate_awaited_) set_gate();
    Base::submit();
    progress();
  }

  bool done(const ticket& t) {
    auto& m = at(t);
    if (m.number != t.number) return true;
    progress();
    if (m.is_gated || !Base::done(m.posted)) return false;
    auto* const stream = work_.use();
    if (m.pinned && m.is_incoming) copy(m.data, m.pinned->data(), m.bytes, stream);
    if (m.pinned) put_back(m.pinned, m.is_incoming ? gates_set_ + 1 : 0);
    is_gate_awaited_ = is_gate_awaited_ || (m.pinned && m.is_incoming);
    m.number = 0;
    free_.push_back(t.index);
    return true;
  }

  /// While one piece crosses the bus, the other may be on the wire.
  std::size_t pieces_at_once() const { return 2; }

  on_device split(int color, int key) {
    return on_device{is_straight_ ? route::straight : route::staged, Base::split(color, key)};
  }

 private:
  struct message {
    int peer;
    std::byte* data;
    std::size_t bytes;
    std::uint64_t tag;
    bool is_incoming = false, is_gated = false;  ///< gated: not on the wire yet
    detail::cuda::pinned_block* pinned = nullptr;
    typename Base::ticket posted{};
    std::uint64_t number = 0;  ///< 0: free
  };
  /// A point on the stream, and the messages that are posted when the stream has passed it.
  struct gate {
    std::unique_ptr<event> point;
    std::vector<std::uint32_t> messages;
  };

  void add_run();  // hides the transport's: runs of a device's memory are packed on the device

  message& at(const ticket& t) { return messages_[t.index]; }

  ticket enter(message m) {
    if (free_.empty()) {
      free_.push_back(std::uint32_t(messages_.size()));
      messages_.emplace_back();
    }
    const auto index = free_.back();
    free_.pop_back();
    m.number = ++last_number_;
    messages_[index] = m;
    return {index, m.number};
  }

  void set_gate() {
    if (spare_.empty()) spare_.push_back({std::make_unique<event>(), {}});
    gate g = std::move(spare_.back());
    spare_.pop_back();
    g.messages.swap(behind_next_gate_);
    g.point->record(work_.use());
    ++gates_set_;
    is_gate_awaited_ = false;
    gates_.push_back(std::move(g));
  }

  /// Gates open in the order of the stream.
  void progress() {
    bool posted = false;
    for (; !gates_.empty() && !Base::failed() && gates_.front().point->has_passed(); gates_.pop_front()) {
      gate& g = gates_.front();
      for (const auto index : g.messages) post(messages_[index]);
      posted = true;
      g.messages.clear();
      passed(++gates_passed_);
      spare_.push_back(std::move(g));
    }
    if (posted) Base::submit();
  }
  void post(message& m) {
    auto* const where = m.pinned ? m.pinned->data() : m.data;
    m.posted = m.is_incoming ? Base::receive(m.peer, where, m.bytes, m.tag) : Base::send(m.peer, where, m.bytes, m.tag);
    m.is_gated = false;
  }

  detail::cuda::work_stream<device_copy_batch> work_{};
  std::deque<message> messages_{};
  std::vector<std::uint32_t> free_{}, behind_next_gate_{};
  std::deque<gate> gates_{};
  std::vector<gate> spare_{};
  std::uint64_t last_number_ = 0, gates_set_ = 0, gates_passed_ = 0;
  bool is_straight_ = false;
  bool is_gate_awaited_ = false;  ///< by pinned memory that the stream reads
};

}  // namespace kolo::inline KOLO_ABI::cuda
