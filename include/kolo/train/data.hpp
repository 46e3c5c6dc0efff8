// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// This rank's part of a data set: equally many items on every rank, so that no rank waits for a step that another rank
// does not take.
#pragma once

#include <kolo/train/leaves.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

namespace kolo::inline KOLO_ABI {

/// Samples, or batches of them, with a size and an index: containers, spans, or a user's type.
template <class D>
concept Dataset = requires(const D& d, std::size_t i) {
  { std::size(d) } -> std::convertible_to<std::size_t>;
  d[i];
};

/// How the last n mod p of n items are treated.
enum class remainder {
  /// left out: floor(n/p) items on every rank. Shuffle between epochs, so that other items are left out each time
  drop,
  pad,  ///< the first items are repeated: ceil(n/p) on every rank
  /// the first ranks have one item more, so every item is used once; agree on steps (`agreed_steps`), or let ranks join
  exact
};

/// Items rank, rank + p, rank + 2p, ... of n: step k of all ranks takes items kp to kp + p - 1. With batches of B/p
/// samples, the samples of the k-th global batch of B are the same for every p that divides B.
///
/// By leaves: step k takes items kL to kL + L - 1, and each rank its leaves of them, in order. So the items of a step
/// are the same for every p <= L. Errors: `invalid_argument` if p > L.
///
/// `Data` is a reference for an lvalue, which must outlive the shard; an rvalue is stored.
template <class Data>
class sharded {
 public:
  sharded(Data data, int rank, int size, remainder rest = remainder::drop)
      : data_(std::forward<Data>(data)), of_step_{std::size_t(rank), 1}, all_of_step_{std::size_t(size)}, rest_{rest} {}
  sharded(Data data, int rank, int size, leaves all)
      : data_(std::forward<Data>(data)),
        of_step_{all.of(rank, size)},
        all_of_step_{std::size_t(all.number)},
        rest_{remainder::drop} {
    if (all.number < size)
      throw error{errc::invalid_argument,
                  "leaves are not less than the number of ranks: " + std::to_string(all.number) + " leaves, " +
                      detail::core::ranks_text(size)};
  }

  /// The number of this rank's items.
  std::size_t size() const {
    const std::size_t n = std::size(data_), left = n % all_of_step_;
    const bool one_more = rest_ == remainder::pad ? left > 0 : rest_ == remainder::exact && of_step_.first < left;
    return n / all_of_step_ * of_step_.count + (one_more ? 1 : 0);
  }
  bool empty() const { return size() == 0; }  ///< whether this rank has no items
  decltype(auto) operator[](std::size_t i) const {
    const std::size_t item = i / of_step_.count * all_of_step_ + of_step_.first + i % of_step_.count;
    return data()[rest_ == remainder::pad ? item % std::size(data_) : item];
  }

  /// Iterates over this rank's items.
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using reference = decltype(std::declval<const sharded&>()[0]);
    using value_type = std::remove_cvref_t<reference>;
    using difference_type = std::ptrdiff_t;
    using pointer = void;

    iterator() = default;
    iterator(const sharded* items, std::size_t index) : items_{items}, index_{index} {}
    reference operator*() const { return (*items_)[index_]; }
    iterator& operator++() { return ++index_, *this; }
    iterator operator++(int) { return {items_, index_++}; }
    friend bool operator==(const iterator&, const iterator&) = default;

   private:
    const sharded* items_ = nullptr;
    std::size_t index_ = 0;
  };

  iterator begin() const { return {this, 0}; }     ///< this rank's first item
  iterator end() const { return {this, size()}; }  ///< one past its last item

 private:
  const std::remove_reference_t<Data>& data() const { return data_; }

  Data data_;
  extent of_step_;  ///< this rank's items among those of a step
  std::size_t all_of_step_;
  remainder rest_;
};

/// Returns this rank's items of a data set that every rank can read whole and in the same order. Does not communicate.
/// `how` is a `remainder`, or `leaves`: then the items are the leaves, and every step has that number, as an optimizer
/// with `{.leaves = 8}` expects.
template <class Data, class Comm, class How = remainder>
auto shard(Data&& dataset, const Comm& comm, How how = remainder::drop) {
  static_assert(Dataset<std::remove_reference_t<Data>>, "kolo: shard needs a data set with d.size() and d[i]");
  return sharded<Data>{std::forward<Data>(dataset), comm.rank(), comm.size(), how};
}

/// Returns a seed for a rank and a purpose (an epoch, a layer): well separated even for adjacent arguments, and the
/// same in every run.
constexpr std::uint64_t seed_for(std::uint64_t seed, int rank, std::uint64_t purpose = 0) {
  std::uint64_t x = seed;
  for (const std::uint64_t part : {std::uint64_t(rank), purpose})
    x = detail::core::stir(x + 0x9e3779b97f4a7c15u * (part + 1));
  return x;
}

}  // namespace kolo::inline KOLO_ABI
