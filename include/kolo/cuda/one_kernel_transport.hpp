// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A decorator for ranks in one process that runs a plan as one kernel on each device: the whole schedule of all ranks
// there.
#pragma once

#include <kolo/cuda/impl/direct.hpp>
#include <kolo/cuda/one_kernel_executor.hpp>
#include <kolo/cuda/threads_transport.hpp>
#include <kolo/impl/engine.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI::cuda {

/// As Base, except for plans and restarted requests of named algorithms, where all devices can access each other's
/// memory. The first time, every rank records the work that it would put on its stream, and all records are joined into
/// one program. Then, and in every later run, one kernel on each device runs it for all ranks there: on the stream of
/// the lowest of them, after the work on the streams of all ranks; work that they put there afterwards comes after it.
/// Its rounds wait for each other by flags in device memory. The results are those of the call, bit for bit.
///
/// * All ranks run the same plan, or none runs one.
/// * All blocks of a kernel run at once (a cooperative launch), and all kernels are loaded before the first one begins.
///   Kernels of several devices wait for each other: work that delays one of them on its device must not wait for the
///   others.
/// * When this rank learns of a failure, a kernel that waits for another device ends.
template <class Base>
class one_kernel : public Base {
  using collective_args = kolo::collective_args;

 public:
  using abilities = kolo::abilities<>;  ///< those of Base that it does not hide
  using decorated = Base;
  using ticket = typename Base::ticket;

  explicit one_kernel(threads::communicator& host, const direct_options& o = {}) : Base{host, o} {}
  explicit one_kernel(Base&& w) : Base{std::move(w)} {}
  one_kernel(one_kernel&&) noexcept = default;
  one_kernel& operator=(one_kernel&&) = delete;
  ~one_kernel() {
    if (!this->is_forked_copy()) stop_waiting();
    if (stop_ && this->failed()) static_cast<void>(stop_.release());  // freeing it would wait for kernels
  }

  /// A captured plan. It has the addresses of its first run, and staging of its own. Is destroyed before the transport.
  class captured_messages {
   public:
    explicit captured_messages(const one_kernel& t) : transport_{t} {}
    captured_messages(const captured_messages&) = delete;
    ~captured_messages() {
      if (!transport_.failed()) return;  // else freeing would wait for kernels, which may wait for a rank that is gone
      static_cast<void>(flags_.release());
      if (program_) static_cast<void>(program_->memory.release()), static_cast<void>(program_->sent.release());
    }
    /// How the plan runs, in words.
    std::string how() const { return joined_as_ > 0 ? "one kernel on each device" : "call by call, until it has run"; }

   private:
    friend one_kernel;
    /// Held by the lowest rank on a device.
    struct joined {
      detail::cuda::program_lists lists;
      std::vector<std::uint64_t*> flags;
      const detail::cuda::program_functions* functions;
      const void* op;
      int most_blocks = 0;  ///< for each rank here
      detail::cuda::program kernel{};
      pinned_memory sent{};    ///< its lists, to be copied to the device
      device_memory memory{};  ///< where its lists lie. Is freed first, when the kernel has ended
    };
    const one_kernel& transport_;
    detail::cuda::captured_program captured_{};
    device_memory flags_{};  ///< of this rank, for two runs
    std::unique_ptr<joined> program_{};
    collective_args meeting_{};  ///< publishes this object to the other ranks
    bool is_captured_ = false;
    int device_ = -1;
    std::uint64_t joined_as_ = 0, runs_ = 0;  ///< the ticket's number, equal on all ranks
  };

  // Failure: kernels stop waiting for other devices.

  const failure& fail(const failure& f) {
    stop_waiting();
    return Base::fail(f);
  }
  void relax(backoff& p, const wait_context& s) {
    or_stop_waiting([&] { Base::relax(p, s); });
  }
  void check(backoff& p, const wait_context& s) {
    or_stop_waiting([&] { Base::check(p, s); });
  }

  // Calls.

  auto executor() const { return detail::cuda::capturing_executor{Base::executor(), captured_}; }

  bool captures(const collective_args& args) const { return !args.native && this->kernels_reach_all(); }
  /// Captures put() the first time.
  ticket repeat(captured_messages& r, auto put) {
    if (!r.is_captured_) capture(r, put);
    now_ = &r;
    return submit_joint();
  }

  // Messages.

  ticket send(int peer, const std::byte* data, std::size_t bytes, std::uint64_t tag) {
    if (!captured_) return Base::send(peer, data, bytes, tag);
    return captured_->send(peer, data, bytes, tag), ticket{};
  }
  ticket receive(int peer, std::byte* data, std::size_t bytes, std::uint64_t tag) {
    if (!captured_) return Base::receive(peer, data, bytes, tag);
    return captured_->receive(peer, data, bytes, tag), ticket{};
  }
  void submit() { captured_ ? captured_->submit() : Base::submit(); }
  bool done(const ticket& t) {
    if (captured_) return true;
    if (!now_) return Base::done(t);
    return !this->failed() && has_run(t);  // after a failure, what was captured may be gone
  }

 private:
  using Base::all_together;

  void capture(captured_messages& r, auto& put) {
    r.captured_ = {};
    {
      const detail::core::scoped_value now{captured_, &r.captured_};
      put();
    }
    r.device_ = this->device();
    r.flags_ = allocate(bytes_of_flags);
    if (!stop_) stop_ = allocate_pinned(sizeof(std::uint32_t));
    *reinterpret_cast<std::uint32_t*>(stop_.get()) = 0;
    r.is_captured_ = true;
  }

  /// Publishes what was captured to all ranks: once to join it, and then to run the joined program.
  ticket submit_joint() {
    captured_messages& r = *now_;
    r.meeting_ = {};
    r.meeting_.in = {.base = reinterpret_cast<std::byte*>(&r)};
    r.meeting_.compute.op = this;
    r.meeting_.count = 1;
    r.meeting_.fingerprint = std::uint32_t((r.joined_as_ + 1) * 0x9e3779b1u);
    return all_together(r.meeting_, r.joined_as_ > 0 ? &run : &join);
  }
  bool has_run(const ticket& t) {
    captured_messages& r = *now_;
    const bool was_joined = r.joined_as_ > 0;
    try {
      if (!Base::done(t)) return false;
    } catch (const error& e) {
      stop_waiting();
      if (this->failed()) throw;
      throw error{fail(failure_from({.operation = "plan"}, e.code(), this->rank(), {},
                                    std::string{std::string_view{e.cause().text}}))};
    }
    if (was_joined) ++r.runs_, now_ = nullptr;
    else r.joined_as_ = t.number, r.captured_ = {}, submit_joint();
    return was_joined;
  }

  using ranks = std::vector<const captured_messages*>;
  static ranks all_of(const std::byte* const* published, int size) {
    ranks all;
    for (int r = 0; r < size; ++r) all.push_back(reinterpret_cast<const captured_messages*>(published[r]));
    return all;
  }

  /// Does all that may wait for a device, before any kernel waits for another one.
  static void join(cudaStream_t stream, const collective_args& args, const std::byte* const* published,
                   std::byte* const*, int rank, int size) {
    const ranks all = all_of(published, size);
    const auto& self = *static_cast<const one_kernel*>(args.compute.op);
    captured_messages& mine = *reinterpret_cast<captured_messages*>(args.in.base);
    fill(mine.flags_.get(), 0, bytes_of_flags, stream);
    const bool is_lowest = std::none_of(all.begin(), all.begin() + rank,
                                        [&](const captured_messages* r) { return r->device_ == mine.device_; });
    if (is_lowest) mine.program_ = self.joined(all, mine.device_, stream);
  }
  auto joined(const ranks& all, int device, cudaStream_t stream) const {
    static constexpr detail::cuda::only_moves nothing{};
    std::vector<const detail::cuda::captured_program*> written;
    const kernel* compute = nullptr;
    auto p = std::make_unique<typename captured_messages::joined>();
    for (const captured_messages* r : all) {
      written.push_back(&r->captured_);
      p->flags.push_back(reinterpret_cast<std::uint64_t*>(r->flags_.get()));
      if (r->captured_.compute) compute = r->captured_.compute;
    }
    p->lists = detail::cuda::linked_program::join(written);
    std::erase_if(p->lists.parts,
                  [&](const detail::cuda::rank_part& part) { return all[std::size_t(part.rank)]->device_ != device; });
    p->functions = compute ? static_cast<const detail::cuda::program_functions*>(compute->device)
                           : &detail::cuda::program_functions_of<char, detail::cuda::only_moves>::table;
    p->op = compute ? compute->op : &nothing;
    p->kernel.ranks = int(p->lists.parts.size());
    if (p->lists.parts.size() < all.size()) p->kernel.stop = reinterpret_cast<const std::uint32_t*>(stop_.get());
    p->most_blocks = p->functions->most_blocks() / p->kernel.ranks;
    if (p->most_blocks < 1)
      throw error{errc::out_of_resources, "the device cannot run " + std::to_string(p->kernel.ranks) +
                                              " blocks of a kernel at once, one for each rank"};
    upload(*p, stream);
    return p;
  }

  static void upload(typename captured_messages::joined& p, cudaStream_t stream) {
    std::size_t bytes = 0;
    const auto each = [&](auto f) {
      f(p.lists.parts, p.kernel.parts), f(p.lists.phases, p.kernel.phases), f(p.lists.milestones, p.kernel.milestones);
      f(p.lists.actions, p.kernel.actions), f(p.lists.sources, p.kernel.sources);
      f(p.flags, p.kernel.flags);
    };
    const auto up = [](const auto& list) { return detail::core::rounded_up(list.size() * sizeof(list[0]), 16); };
    each([&](const auto& list, auto&) { bytes += up(list); });
    p.memory = allocate(bytes);
    p.sent = allocate_pinned(bytes);
    std::size_t at = 0;
    each([&](const auto& list, auto& there) {
      std::copy_n(reinterpret_cast<const std::byte*>(list.data()), list.size() * sizeof(list[0]), p.sent.get() + at);
      there = reinterpret_cast<std::remove_reference_t<decltype(there)>>(p.memory.get() + at);
      at += up(list);
    });
    copy(p.memory.get(), p.sent.get(), bytes, stream);
  }

  static void run(cudaStream_t stream, const collective_args& args, const std::byte* const* published,
                  std::byte* const*, int, int size) {
    const auto& mine = *reinterpret_cast<captured_messages*>(args.in.base);
    if (!mine.program_ || mine.program_->lists.phases.empty()) return;
    auto& p = *mine.program_;
    const ranks all = all_of(published, size);
    p.kernel.blocks = p.lists.useful_blocks();
    for (const captured_messages* r : all)
      if (r->program_) p.kernel.blocks = std::min(p.kernel.blocks, r->program_->most_blocks);
    p.kernel.turn = int(mine.runs_ % 2);
    p.functions->launch(stream, p.kernel, p.op);
  }

  static constexpr std::size_t bytes_of_flags = 2 * detail::cuda::program::flag_stride * sizeof(std::uint64_t);

  void stop_waiting() noexcept {
    if (stop_) std::atomic_ref{*reinterpret_cast<std::uint32_t*>(stop_.get())}.store(1);
  }
  void or_stop_waiting(auto f) {
    detail::core::with_rollback(f, [&] { stop_waiting(); });
  }

  detail::cuda::captured_program* captured_ = nullptr;  ///< while a plan is captured
  captured_messages* now_ = nullptr;                    ///< the plan that runs
  pinned_memory stop_{};
};

/// Ranks that are threads, whose plans run as one kernel on each device.
using one_kernel_transport = one_kernel<threads_transport>;

}  // namespace kolo::inline KOLO_ABI::cuda
