// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One rank's input and output: one copy, or, in cold mode, so many that the last-level cache holds none of them.
#pragma once

#include "../shapes.hpp"

#include <unistd.h>

#include <memory>
#include <new>
#include <utility>

namespace kolo_bench {

struct wrong_result : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class buffers {
 public:
  struct wish {
    std::string collective, element, place, kind;
    bool cold;
    std::size_t n;
    bool operator==(const wish&) const = default;
  };

  /// `special(kind, bytes)`: memory of another kind, with the same number of bytes on every rank.
  template <class Special>
  buffers(const wish& w, int rank, int size, Special special)
      : wish_{w},
        rank_{rank},
        size_{size},
        width_{element_bytes(w.element)},
        shape_{shape_of(w.collective, rank, size, w.n)},
        mine_{pattern_of(w.element, rank, size)} {
    const auto part = (largest(w.collective, size, w.n) * width_ + 127) / 128 * 128;
    in_place_ = w.place == "in_place" || w.collective == "broadcast";
    stride_ = std::max<std::size_t>(in_place_ ? part : 2 * part, 128);
    out_at_ = in_place_ ? 0 : part;
    if (in_place_ && shape_.own_part_of_out) in_at_ = static_cast<std::size_t>(rank) * w.n * width_;
    if (w.cold) copies_ = std::max<std::size_t>(2, std::min(2 * last_level_cache(), std::size_t{256} << 20) / stride_);
    const auto all = stride_ * copies_;
    if (w.kind == "ordinary") {
      own_.reset(static_cast<std::byte*>(::operator new(all, alignment)));
      base_ = own_.get();
    } else {
      base_ = special(w.kind, all);
      if (!base_) throw std::runtime_error{"there are no buffers of the kind " + w.kind};
    }
    clear_all();
  }

  const wish& made_for() const { return wish_; }
  const std::byte* in(int use) const { return slot(use) + in_at_; }
  std::byte* out(int use) const { return slot(use) + out_at_; }

  /// Rewrites the input.
  void fill() { mine_.write(slot(0) + in_at_, shape_.in * width_, 0); }
  void read_result() const { read_through(slot(0) + out_at_, shape_.out * width_); }
  bool result_is_right() const { return is_right(shape_, wish_.element, size_, slot(0) + out_at_); }
  /// True once, for memory that the peers access.
  bool is_first_use_by_peers() { return !std::exchange(used_by_peers_, true) && wish_.kind != "ordinary"; }
  void clear_all() { std::memset(base_, 0, stride_ * copies_); }
  /// Clears the first copy: zeros stay zeros, however often they are summed in place.
  void clear() { std::memset(slot(0), 0, stride_); }

 private:
  static constexpr std::align_val_t alignment{4096};
  struct release {
    void operator()(std::byte* p) const { ::operator delete(p, alignment); }
  };

  static std::size_t last_level_cache() {
    const long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{32} << 20;
  }
  std::byte* slot(int use) const { return base_ + static_cast<std::size_t>(use) % copies_ * stride_; }

  wish wish_;
  int rank_, size_;
  std::size_t width_;
  shape shape_;
  pattern mine_;
  bool in_place_ = false, used_by_peers_ = false;
  std::size_t stride_ = 0, in_at_ = 0, out_at_ = 0, copies_ = 1;
  std::unique_ptr<std::byte, release> own_{};
  std::byte* base_ = nullptr;
};

}  // namespace kolo_bench
