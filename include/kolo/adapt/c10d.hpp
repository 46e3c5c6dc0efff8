// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PyTorch: a process group of c10d over any communicator, for DistributedDataParallel and other users of process
// groups. Opt-in.
#pragma once

#include <kolo/adapt/c10d/guarded.hpp>
#include <kolo/adapt/c10d/meeting.hpp>
#include <kolo/adapt/c10d/messages.hpp>
#include <kolo/adapt/c10d/sparse.hpp>
#include <kolo/adapt/c10d/tensors.hpp>
#include <kolo/adapt/c10d/work.hpp>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::c10d {

/// process_group{communicator, store, timeout [, name]}
///
/// All collectives of c10d over `communicator`, which this owns. No other group may use the keys of `store`: messages
/// between two ranks and the monitored barrier use them. `timeout` is that of calls that set none; PyTorch's profiler
/// shows `name` before the name of a call.
///
/// Order   calls run in the order in which they are made, the same on all ranks: on a thread of the group, or on a
///         thread that waits for them. Messages have an order of their own. Callbacks of futures may wait for other
///         calls. Callbacks of different calls may run concurrently; they must order the calls that they make.
/// Cost    that of kolo's calls for contiguous tensors (a bucket of gradients, tensors and lists of tensors that are
///         moved). A tensor with gaps is copied before and after, the lists of reduce_scatter before. AVG divides while
///         it combines. A call for which no thread waits costs a thread's wake-up besides.
/// Errors  what can be checked at once is thrown by the call, and the group remains usable. Other errors are thrown by
///         `wait`, with the text of kolo::error, which names the rank that has died, or is late; the group is then
///         broken: make another one. A wait that times out does not cancel the call.
/// Takes tensors in the host's memory: of every type where they are moved, of a `kolo::element_type` where they are
/// combined.
template <class Comm>
class process_group : public ::c10d::ProcessGroup {
  using pending = c10::intrusive_ptr<::c10d::Work>;
  using lists = std::vector<tensors>;
  using operation = ::c10d::OpType;
  using options = typename Comm::options;

 public:
  process_group(Comm&& comm, const c10::intrusive_ptr<::c10d::Store>& store, milliseconds timeout,
                std::string name = "kolo")
      : ProcessGroup{comm.rank(), comm.size()},
        name_{std::move(name)},
        timeout_{timeout},
        comm_{std::make_shared<Comm>(std::move(comm))},
        store_{store},
        messages_{std::make_shared<messages>(store, rank_, size_)} {
    init();
  }
  ~process_group() override { messages_->close(); }

  const std::string getBackendName() const override { return "kolo"; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return started_; }

  pending broadcast(tensors& t, const ::c10d::BroadcastOptions& o) override {
    const at::Tensor& all = only("broadcast", t);
    return start(operation::BROADCAST, "broadcast", t, {t}, o.timeout,
                 [all, root = root_of(o)](Comm& c, const options& how) {
                   on_elements(all, [&](const auto& x) { kolo::broadcast(c, x, root, how); });
                 });
  }

  pending allreduce(tensors& t, const ::c10d::AllreduceOptions& o) override {
    if (t.size() == 1 && t.front().layout() == at::kSparse) {
      require(t.front().device().is_cpu(), "allreduce", "a sparse tensor lies on a device");
      require(o.reduceOp.op_ == ::c10d::ReduceOp::SUM, "allreduce", "sparse tensors can be summed only");
      return start(operation::ALLREDUCE, "sparse_all_reduce", t, {t}, o.timeout,
                   [all = t.front()](Comm& c, const options& how) { sum_sparse(c, all, how); });
    }
    only("allreduce", t);
    return start(operation::ALLREDUCE, "all_reduce", t, {t}, o.timeout, combining(t, o.reduceOp));
  }
  pending allreduce_coalesced(tensors& t, const ::c10d::AllreduceCoalescedOptions& o) override {
    check("allreduce_coalesced", t);
    return start(operation::ALLREDUCE_COALESCED, "all_reduce", t, {t}, o.timeout, combining(t, o.reduceOp));
  }

  pending reduce(tensors& t, const ::c10d::ReduceOptions& o) override {
    const at::Tensor& all = only("reduce", t);
    return start(operation::REDUCE, "reduce", t, {t}, o.timeout,
                 [all, root = root_of(o), by = combination_of("reduce", o.reduceOp, all)](Comm& c, const options& how) {
                   const at::Tensor in = flattened(by(all));
                   if (c.rank() != root)
                     return kolo::reduce(c, elements_of(in), elements{nullptr, 0, type_of(in)}, by.op, root, how);
                   on_elements(all, [&](const auto& out) { kolo::reduce(c, elements_of(in), out, by.op, root, how); });
                 });
  }

  pending allgather(lists& out, tensors& in, const ::c10d::AllgatherOptions& o) override {
    const at::Tensor& mine = only("allgather", in);
    const tensors& all = one_each("allgather", out, size_);
    check_pair("allgather", mine, all[me()]);
    return start(operation::ALLGATHER, "all_gather", in, out, o.timeout,
                 [mine, all](Comm& c, const options& how) { gather_all(c, mine, all, how); });
  }
  pending allgather_coalesced(lists& out, tensors& in, const ::c10d::AllgatherOptions& o) override {
    check("allgather_coalesced", in);
    require(out.size() == std::size_t(size_), "allgather_coalesced", "it takes a list for each rank");
    for (const auto& list : out) {
      check("allgather_coalesced", list);
      require(list.size() == in.size(), "allgather_coalesced", "lists of different lengths");
    }
    for (std::size_t i = 0; i < in.size(); ++i) check_pair("allgather_coalesced", in[i], out[me()][i]);
    return start(operation::ALLGATHER_COALESCED, "all_gather", in, out, o.timeout,
                 [in, out](Comm& c, const options& how) {
                   for (std::size_t i = 0; i < in.size(); ++i) {
                     tensors all;
                     for (const auto& list : out) all.push_back(list[i]);
                     gather_all(c, in[i], all, how);
                   }
                 });
  }
  pending _allgather_base(at::Tensor& out, at::Tensor& in, const ::c10d::AllgatherOptions& o) override {
    check("_allgather_base", {in, out});
    require(in.dtype() == out.dtype(), "_allgather_base", "in and out have elements of different types");
    require(out.numel() == in.numel() * size_, "_allgather_base", "out is not as long as the inputs of all ranks");
    check_overlap("_allgather_base", in, out, rank_ * in.numel());
    return start(operation::_ALLGATHER_BASE, "_all_gather_base", {in}, {{out}}, o.timeout,
                 [in, out](Comm& c, const options& how) {
                   const at::Tensor mine = flattened(in);
                   on_elements(out, [&](const auto& x) { kolo::allgather(c, elements_of(mine), x, how); });
                 });
  }

  pending gather(lists& out, tensors& in, const ::c10d::GatherOptions& o) override {
    const at::Tensor& mine = only("gather", in);
    const int root = root_of(o);
    require(rank_ == root || out.empty(), "gather", "only the root has outputs");
    const tensors all = rank_ == root ? one_each("gather", out, size_) : tensors{};
    for (const auto& t : all) check_pair("gather", mine, t);
    return start(operation::GATHER, "gather", in, out, o.timeout, [mine, all, root](Comm& c, const options& how) {
      const bytes_of to{all};
      kolo::gather(c, bytes_of{{mine}}.view(), to.view(), root, how);
      to.copy_back();
    });
  }
  pending scatter(tensors& out, lists& in, const ::c10d::ScatterOptions& o) override {
    const at::Tensor& mine = only("scatter", out);
    const int root = root_of(o);
    require(rank_ == root || in.empty(), "scatter", "only the root has inputs");
    const tensors all = rank_ == root ? one_each("scatter", in, size_) : tensors{};
    for (const auto& t : all) check_pair("scatter", t, mine);
    return start(operation::SCATTER, "scatter", all, {out}, o.timeout, [mine, all, root](Comm& c, const options& how) {
      const bytes_of to{{mine}};
      kolo::scatter(c, bytes_of{all}.view(), to.view(), root, how);
      to.copy_back();
    });
  }

  pending reduce_scatter(tensors& out, lists& in, const ::c10d::ReduceScatterOptions& o) override {
    const at::Tensor& mine = only("reduce_scatter", out);
    const tensors& all = one_each("reduce_scatter", in, size_);
    check_pair("reduce_scatter", all[me()], mine);
    for (const auto& t : all)
      require(t.dtype() == mine.dtype(), "reduce_scatter", "in and out have elements of different types");
    return start(operation::REDUCE_SCATTER, "reduce_scatter", all, {out}, o.timeout,
                 [mine, all, by = combination_of("reduce_scatter", o.reduceOp, mine)](Comm& c, const options& how) {
                   tensors flat;
                   std::vector<std::size_t> counts;
                   for (const auto& t : all) {
                     flat.push_back(by(t).reshape(-1));
                     counts.push_back(std::size_t(t.numel()));
                   }
                   const at::Tensor from = at::cat(flat);
                   on_elements(
                       mine, [&](const auto& x) { kolo::reduce_scatter(c, elements_of(from), x, counts, by.op, how); });
                 });
  }
  pending _reduce_scatter_base(at::Tensor& out, at::Tensor& in, const ::c10d::ReduceScatterOptions& o) override {
    check("_reduce_scatter_base", {in, out});
    require(in.dtype() == out.dtype(), "_reduce_scatter_base", "in and out have elements of different types");
    require(in.numel() == out.numel() * size_, "_reduce_scatter_base", "in is not as long as the outputs of all ranks");
    check_overlap("_reduce_scatter_base", out, in, rank_ * out.numel());
    return start(operation::_REDUCE_SCATTER_BASE, "_reduce_scatter_base", {in}, {{out}}, o.timeout,
                 [in, out, by = combination_of("_reduce_scatter_base", o.reduceOp, in)](Comm& c, const options& how) {
                   const at::Tensor from = flattened(by(in));
                   on_elements(out, [&](const auto& x) { kolo::reduce_scatter(c, elements_of(from), x, by.op, how); });
                 });
  }

  pending alltoall(tensors& out, tensors& in, const ::c10d::AllToAllOptions& o) override {
    one_each("alltoall", {in}, size_), one_each("alltoall", {out}, size_);
    check_pair("alltoall", in[me()], out[me()]);
    return start(operation::ALLTOALL, "all_to_all", in, {out}, o.timeout, [in, out](Comm& c, const options& how) {
      const bytes_of from{in}, to{out};
      kolo::alltoall(c, from.view(), to.view(), from.counts(), to.counts(), how);
      to.copy_back();
    });
  }
  pending alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<std::int64_t>& out_rows,
                        std::vector<std::int64_t>& in_rows, const ::c10d::AllToAllOptions& o) override {
    check("alltoall_base", {in, out});
    require(in.dtype() == out.dtype(), "alltoall_base", "in and out have elements of different types");
    check_overlap("alltoall_base", out, in, -1);
    return start(operation::ALLTOALL_BASE, "all_to_all", {in}, {{out}}, o.timeout,
                 [in, out, send = counts(in, in_rows), receive = counts(out, out_rows)](Comm& c, const options& how) {
                   const at::Tensor from = flattened(in);
                   on_elements(out,
                               [&](const auto& x) { kolo::alltoall(c, elements_of(from), x, send, receive, how); });
                 });
  }

  pending barrier(const ::c10d::BarrierOptions& o) override {
    return start(operation::BARRIER, "barrier", {}, {}, o.timeout,
                 [](Comm& c, const options& how) { kolo::barrier(c, how); });
  }
  void monitoredBarrier(const ::c10d::BarrierOptions& o, bool for_all) override {
    monitored_barrier{*store_, rank_, size_, ++barriers_}.wait(timeout_of(o.timeout), for_all);
  }

  pending send(tensors& t, int to, int tag) override {
    const at::Tensor& all = only("send", t);
    auto done = made(operation::SEND, "send", t, {},
                     [this, all, to = peer("send", to), tag] { messages_->send(all, to, tag); });
    done->run();
    return done;
  }
  pending recv(tensors& t, int from, int tag) override { return receive("recv", t, peer("recv", from), tag); }
  pending recvAnysource(tensors& t, int tag) override { return receive("recvAnySource", t, -1, tag); }

 private:
  /// Queues f(comm, options).
  template <class F>
  pending start(operation type, const char* call, const tensors& in, lists results, milliseconds timeout, F f) {
    for (const auto& list : results) check_written(call, list);
    ++started_;
    auto next =
        made(type, call, in, std::move(results),
             [f = std::move(f), c = comm_, how = options{.timeout = timeout_of(timeout)}] { guarded(*c, how, f); });
    next->stands_in(works_.queue());
    works_.queue()->add(next);
    return next;
  }
  template <class F>
  c10::intrusive_ptr<work> made(operation type, const char* call, const tensors& in, lists results, F f) {
    return c10::make_intrusive<work_of<F>>(std::move(f), rank_, type, title(call), in, std::move(results));
  }
  pending receive(const char* call, const tensors& t, int from, int tag) {
    check_written(call, {t});
    auto one = c10::make_intrusive<receipt>(rank_, title(call), only(call, t), from, tag, timeout_);
    messages_->receive(one);
    return one;
  }

  /// Returns a function that allreduces each of the tensors.
  auto combining(const tensors& all, const ::c10d::ReduceOp& op) {
    std::vector<combination> by;
    for (const auto& t : all) by.push_back(combination_of("allreduce", op, t));
    return [all, by = std::move(by)](Comm& c, const options& how) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (by[i].factor.defined()) all[i].copy_(by[i](all[i]));
        on_elements(all[i], [&](const auto& x) { kolo::allreduce(c, x, by[i].op, how); });
      }
    };
  }
  static void gather_all(Comm& c, const at::Tensor& mine, const tensors& all, const options& how) {
    const bytes_of from{{mine}}, to{all};
    if (to.are_equal()) kolo::allgather(c, from.view(), to.view(), how);
    else kolo::allgather(c, from.view(), to.view(), to.counts(), how);
    to.copy_back();
  }

  std::vector<std::size_t> counts(const at::Tensor& t, const std::vector<std::int64_t>& rows) const {
    return counts_of("alltoall_base", t, rows, std::size_t(size_));
  }
  int root_of(const auto& o) const { return peer("root", int(o.rootRank)); }
  int peer(const char* call, int rank) const {
    require(rank >= 0 && rank < size_, call, "there is no such rank in this group");
    return rank;
  }
  std::size_t me() const { return std::size_t(rank_); }
  milliseconds timeout_of(milliseconds of_call) const { return of_call == ::c10d::kUnsetTimeout ? timeout_ : of_call; }
  /// The text is valid as long as this exists. Thread-safe.
  const char* title(std::string_view call) {
    const std::lock_guard lock{titles_mutex_};
    auto& text = titles_[call];
    if (text.empty()) text = name_ + ':' + std::string{call};
    return text.c_str();
  }

  const std::string name_;
  const milliseconds timeout_;
  std::mutex titles_mutex_{};
  std::map<std::string_view, std::string> titles_{};
  std::shared_ptr<Comm> comm_;
  c10::intrusive_ptr<::c10d::Store> store_;
  std::atomic<std::uint64_t> started_ = 0;
  std::uint64_t barriers_ = 0;
  std::shared_ptr<messages> messages_;
  works works_{};
};

}  // namespace kolo::inline KOLO_ABI::c10d
