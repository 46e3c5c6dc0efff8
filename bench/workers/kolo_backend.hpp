// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo on one rank, over any communicator: a table from names to calls, made from the lists of algorithms.
#pragma once

#include <kolo/point_to_point.hpp>

#include "../algorithms.hpp"
#include "worker.hpp"

#include <map>

namespace kolo_bench {

/// Selects the lists of algorithms.hpp; an `entry` in its place selects one algorithm only.
struct every_algorithm {};

/// A named algorithm runs on floats only, `automatic` on every element, to limit the compile time.
template <class A>
inline constexpr bool on_every_element = std::same_as<A, kolo::automatic>;

template <class T>
std::span<T> span_of(const std::byte* p,
                     std::size_t n) {  // inputs have the type of outputs, for fewer instances
  return {reinterpret_cast<T*>(const_cast<std::byte*>(p)), n};
}

/// `Only`: every_algorithm, or an `entry`.
template <class Comm, class Only = every_algorithm>
class kolo_backend : public backend {
 public:
  explicit kolo_backend(Comm& comm, Only only = {}) : comm_{comm}, only_{only} {
    using kolo::kind;
    add<kind::allreduce>(allreduce_algorithms, [this](const auto& a) { return reducing<reduces_all>(a); });
    add<kind::reduce_scatter>(reduce_scatter_algorithms,
                              [this](const auto& a) { return reducing<reduces_and_scatters>(a); });
    add<kind::reduce>(reduce_algorithms, [this](const auto& a) { return reducing<reduces>(a); });
    add<kind::broadcast>(broadcast_algorithms, [this](const auto& a) {
      return moving([&c = comm_, a](auto, auto x) { kolo::broadcast(c, x, 0, a); });
    });
    add<kind::allgather>(allgather_algorithms, [this](const auto& a) {
      return moving([&c = comm_, a](auto in, auto out) { kolo::allgather(c, in, out, a); });
    });
    add<kind::gather>(gather_algorithms, [this](const auto& a) {
      return moving([&c = comm_, a](auto in, auto out) { kolo::gather(c, in, out, 0, a); });
    });
    add<kind::scatter>(scatter_algorithms, [this](const auto& a) {
      return moving([&c = comm_, a](auto in, auto out) { kolo::scatter(c, in, out, 0, a); });
    });
    add<kind::alltoall>(alltoall_algorithms, [this](const auto& a) {
      return moving([&c = comm_, a](auto in, auto out) { kolo::alltoall(c, in, out, a); });
    });
    add<kind::scan>(scan_algorithms, [this](const auto& a) { return reducing<scans>(a); });
    add<kind::exclusive_scan>(scan_algorithms, [this](const auto& a) { return reducing<scans_before>(a); });
    add<kind::barrier>(barrier_algorithms,
                       [this](const auto& a) { return moving([&c = comm_, a](auto, auto) { kolo::barrier(c, a); }); });
    if constexpr (std::same_as<Only, every_algorithm>) {
      insert("shift/automatic", moving([&c = comm_](auto in, auto out) { kolo::shift(c, in, out, 1); }));
      insert("exchange/automatic",
             moving([&c = comm_](auto in, auto out) { kolo::exchange(c, in, out, c.size() - 1 - c.rank()); }));
    }
  }

  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::string version() const override { return "kolo " KOLO_BENCH_VERSION; }
  std::string offers() const override {
    std::string all;
    for (const auto& name : names_) all += name + '\n';
    return all;
  }
  call prepare(const command& c, std::size_t n) override {
    const auto found = table_.find(c.collective.str() + '/' + c.algorithm.str());
    return found == table_.end() ? call{} : found->second(c, n);
  }
  std::byte* special_memory([[maybe_unused]] const std::string& kind, [[maybe_unused]] std::size_t bytes) override {
    if constexpr (kolo::SharesMemory<typename Comm::transport_type>) {
      if (kind != "symmetric") return nullptr;
      symmetric_.reset();
      symmetric_.emplace(kolo::symmetric<std::byte>(comm_, bytes));
      return symmetric_->data();
    } else {
      return nullptr;
    }
  }

 private:
  using maker = std::function<call(const command&, std::size_t n)>;

  struct reduces_all {
    static void run(auto& comm, auto in, auto out, auto op, const auto& a) { kolo::allreduce(comm, in, out, op, a); }
  };
  struct reduces_and_scatters {
    static void run(auto& comm, auto in, auto out, auto op, const auto& a) {
      kolo::reduce_scatter(comm, in, out, op, a);
    }
  };
  struct reduces {
    static void run(auto& comm, auto in, auto out, auto op, const auto& a) { kolo::reduce(comm, in, out, op, 0, a); }
  };
  struct scans {
    static void run(auto& comm, auto in, auto out, auto op, const auto& a) { kolo::scan(comm, in, out, op, a); }
  };
  struct scans_before {
    static void run(auto& comm, auto in, auto out, auto op, const auto& a) {
      kolo::exclusive_scan(comm, in, out, op, a);
    }
  };

  /// An algorithm that does not support this number of ranks is not offered.
  template <kolo::kind K, class List, class Make>
  void add(const List& list, Make make) {
    const auto one = [&](const auto& e) {
      using A = std::remove_cvref_t<decltype(e.algorithm)>;
      if constexpr (kolo::AlgorithmFor<A, K>)
        if (!kolo::supports(kolo::schedule_of<K>(e.algorithm), size())) return;
      insert(std::string{kolo::name(K)} + '/' + e.name, make(e.algorithm));
    };
    if constexpr (std::same_as<Only, every_algorithm>) std::apply([&](const auto&... e) { (one(e), ...); }, list);
    else one(only_);
  }
  void insert(const std::string& name, maker m) {
    names_.push_back(name);
    table_.emplace(name, std::move(m));
  }

  template <class How, class A>
  maker reducing(const A& a) {
    return [this, a](const command& c, std::size_t n) -> call {
      const auto s = shape_of(c.collective.text, rank(), size(), n);
      if (c.element == "float") return reduction<How, float>(a, kolo::sum, s);
      if constexpr (on_every_element<A>) {
        if (c.element == "bfloat16") return reduction<How, kolo::bfloat16>(a, kolo::sum, s);
        if (c.element == "tally") return reduction<How, tally>(a, merge{}, s);
      }
      return {};
    };
  }
  template <class How, class T, class Op, class A>
  call reduction(const A& a, Op op, const shape& s) {
    return [&comm = comm_, a, op, in_n = s.in, out_n = s.out](const std::byte* in, std::byte* out) {
      How::run(comm, span_of<T>(in, in_n), span_of<T>(out, out_n), op, a);
    };
  }

  /// Calls that only move elements: floats only.
  template <class F>
  maker moving(F f) {
    return [this, f](const command& c, std::size_t n) -> call {
      if (!(c.element == "float")) return {};
      const auto s = shape_of(c.collective.text, rank(), size(), n);
      return [f, in_n = s.in, out_n = s.out](const std::byte* in, std::byte* out) {
        f(span_of<float>(in, in_n), span_of<float>(out, out_n));
      };
    };
  }

  Comm& comm_;
  Only only_;
  std::vector<std::string> names_{};
  std::map<std::string, maker> table_{};
  std::optional<kolo::symmetric_array<std::byte>> symmetric_{};
};

}  // namespace kolo_bench
