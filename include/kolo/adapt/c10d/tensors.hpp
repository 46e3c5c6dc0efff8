// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PyTorch's tensors and operators as kolo's: elements of a run-time type, and the bytes of many tensors as one vector.
#pragma once

#include <kolo/kolo.hpp>
#include <kolo/untyped.hpp>

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::c10d {

/// The tensors of one call, as c10d passes them.
using tensors = std::vector<at::Tensor>;

/// Throws errc::invalid_argument with the name of the call and the reason.
[[noreturn]] inline void refuse(const char* call, const std::string& sentence) {
  throw error{errc::invalid_argument, std::string{call} + ": " + sentence};
}
/// Throws as `refuse` does, unless `holds`.
inline void require(bool holds, const char* call, const char* sentence) {
  if (!holds) refuse(call, sentence);
}

/// Returns `opaque` for elements that can only be moved, quantized ones for example.
inline element_type type_of(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kBool: return element_type::boolean;
    case at::kByte: return element_type::uint8;
    case at::kChar: return element_type::int8;
    case at::kShort: return element_type::int16;
    case at::kInt: return element_type::int32;
    case at::kLong: return element_type::int64;
    case at::kHalf: return element_type::float16;
    case at::kBFloat16: return element_type::bfloat16;
    case at::kFloat: return element_type::float32;
    case at::kDouble: return element_type::float64;
    case at::kComplexFloat: return element_type::complex64;
    case at::kComplexDouble: return element_type::complex128;
    default: return element_type::opaque;
  }
}

/// Rejects a tensor that is not in the host's memory, or is sparse.
inline void check(const char* call, const at::Tensor& t) {
  if (!t.device().is_cpu())
    refuse(call, "a tensor lies on " + t.device().str() + ", and this process group takes those in the host's memory");
  require(t.layout() == at::kStrided, call, "a tensor is sparse, which only allreduce takes");
}
inline void check(const char* call, const tensors& all) {
  for (const auto& t : all) check(call, t);
}

/// Returns the only tensor of a list. (c10d takes lists for processes with several devices.)
inline const at::Tensor& only(const char* call, const tensors& list) {
  require(list.size() == 1, call, "it takes one tensor of each process");
  check(call, list);
  return list.front();
}
/// Returns the only list of these lists, which has a tensor for each rank.
inline const tensors& one_each(const char* call, const std::vector<tensors>& lists, int size) {
  require(lists.size() == 1, call, "it takes one list of tensors of each process");
  require(lists.front().size() == std::size_t(size), call, "it takes a tensor for each rank");
  check(call, lists.front());
  return lists.front();
}

/// Rejects two tensors of different types or lengths, one of which is copied to the other.
inline void check_pair(const char* call, const at::Tensor& a, const at::Tensor& b) {
  require(a.dtype() == b.dtype() && a.numel() == b.numel(), call, "in and out are of different lengths or types");
}

/// Rejects an output tensor whose elements share memory with each other.
inline void check_written(const char* call, const tensors& all) {
  for (const auto& t : all)
    require(t.layout() != at::kStrided || at::has_internal_overlap(t) != at::MemOverlap::Yes, call,
            "elements of an output tensor share memory, as those of an expanded tensor do");
}
/// Rejects tensors that share memory, unless `part` begins `at` elements after `whole` does. One with gaps is copied
/// anyway.
inline void check_overlap(const char* call, const at::Tensor& part, const at::Tensor& whole, std::int64_t at) {
  if (!part.is_contiguous() || !whole.is_contiguous()) return;
  const auto *const p = static_cast<const std::byte*>(part.data_ptr()), *const w = static_cast<const std::byte*>(
                                                                            whole.data_ptr());
  const bool are_apart = p + part.nbytes() <= w || w + whole.nbytes() <= p;
  require(are_apart || (at >= 0 && p == w + std::size_t(at) * part.itemsize()), call,
          "in and out overlap, and neither is this rank's part of the other");
}

/// Returns the element counts of p ranks: of `rows[r]` rows of the tensor, or equal ones if `rows` is empty.
inline std::vector<std::size_t> counts_of(const char* call, const at::Tensor& t, const std::vector<std::int64_t>& rows,
                                          std::size_t p) {
  const auto all = t.dim() > 0 ? t.size(0) : 1;
  std::int64_t total = 0;
  for (const auto n : rows) {
    require(n >= 0, call, "a rank has a negative number of rows");
    total += n;
  }
  require(rows.empty() ? std::size_t(all) % p == 0 : rows.size() == p && total == all, call,
          "the rows are not a part for each rank");
  std::vector<std::size_t> counts(p, std::size_t(t.numel()) / p);
  for (std::size_t r = 0; r < rows.size(); ++r) counts[r] = std::size_t(all > 0 ? rows[r] * (t.numel() / all) : 0);
  return counts;
}

/// Returns contiguous elements with conjugation and sign applied: the tensor itself if possible, else a copy.
inline at::Tensor flattened(const at::Tensor& t) { return t.resolve_conj().resolve_neg().contiguous(); }

/// The elements of a tensor without gaps.
inline elements<> elements_of(const at::Tensor& t) {
  const auto n = std::size_t(t.numel());
  const auto type = type_of(t);
  if (type == element_type::opaque) return {t.data_ptr(), n, t.itemsize()};
  return {t.data_ptr(), n, type};
}

/// Calls f(elements): in place if the tensor is contiguous, else on a copy that is then written back to the tensor.
void on_elements(const at::Tensor& t, auto f) {
  const at::Tensor flat = flattened(t);
  f(elements_of(flat));
  if (!flat.is_same(t)) t.copy_(flat);
}

/// The bytes of several tensors in order: in place, or in copies for tensors with gaps.
class bytes_of {
 public:
  explicit bytes_of(tensors all) : all_{std::move(all)} {
    for (const auto& t : all_) {
      flat_.push_back(flattened(t));
      parts_.emplace_back(static_cast<std::byte*>(flat_.back().data_ptr()), flat_.back().nbytes());
    }
  }
  bucket<std::byte> view() const { return bucket{parts_}; }
  std::vector<std::size_t> counts() const {
    std::vector<std::size_t> all;
    for (const auto& part : parts_) all.push_back(part.size());
    return all;
  }
  /// Whether all tensors have the same number of bytes.
  bool are_equal() const {
    for (const auto& part : parts_)
      if (part.size() != parts_.front().size()) return false;
    return true;
  }
  /// Writes the copies back to the tensors.
  void copy_back() const {
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (!flat_[i].is_same(all_[i])) all_[i].copy_(flat_[i]);
  }

 private:
  tensors all_, flat_;
  std::vector<std::span<std::byte>> parts_;
};

/// How tensors are combined: an operator, and for PREMUL_SUM the factor of every tensor; undefined: none.
struct combination {
  reduction op = reduction::sum;
  at::Tensor factor{};

  /// Returns a copy of the tensor times the factor; the tensor itself if there is no factor.
  at::Tensor operator()(const at::Tensor& t) const { return factor.defined() ? at::mul(t, factor).to(t.dtype()) : t; }
};

/// The reduction of c10d as one of kolo. Errors  errc::invalid_argument: kolo has none like it.
inline reduction reduction_of(const char* call, ::c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case ::c10d::ReduceOp::PREMUL_SUM:
    case ::c10d::ReduceOp::SUM: return reduction::sum;
    case ::c10d::ReduceOp::AVG: return reduction::average;
    case ::c10d::ReduceOp::PRODUCT: return reduction::product;
    case ::c10d::ReduceOp::MIN: return reduction::min;
    case ::c10d::ReduceOp::MAX: return reduction::max;
    case ::c10d::ReduceOp::BAND: return reduction::bit_and;
    case ::c10d::ReduceOp::BOR: return reduction::bit_or;
    case ::c10d::ReduceOp::BXOR: return reduction::bit_xor;
    default: refuse(call, "there is no such operator");
  }
}

/// Errors: `invalid_argument` if the operator is not defined on elements of this type. The group remains usable.
inline combination combination_of(const char* call, const ::c10d::ReduceOp& op, const at::Tensor& t) {
  combination c{.op = reduction_of(call, op.op_)};
  const auto type = type_of(t);
  if (!make_kernel(type, c.op).combine)
    refuse(call, "the operator " + std::string{name(c.op)} + " is not defined on elements of type " +
                     std::string{name(type)});
  if (op.op_ != ::c10d::ReduceOp::PREMUL_SUM) return c;
  const auto* const given = dynamic_cast<const ::c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  require(given != nullptr, call, "PREMUL_SUM comes without its factor");
  c.factor = given->tensor_factors.empty() ? at::scalar_tensor(given->double_factor, at::kDouble)
                                           : only(call, given->tensor_factors);
  return c;
}

}  // namespace kolo::inline KOLO_ABI::c10d
