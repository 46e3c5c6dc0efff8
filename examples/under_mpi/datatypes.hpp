// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements of MPI datatypes as bytes: the caller's memory if elements are contiguous, otherwise a packed copy.
#pragma once

#include <kolo/mpi/mpi.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <vector>

namespace under_mpi {

/// Throws MPI's message if a call has failed.
inline void check(int code, const char* function) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  PMPI_Error_string(code, text, &length);
  throw kolo::error{kolo::errc::system, std::string{function} + ": " + text};
}

inline std::size_t size_of(MPI_Datatype type) {
  MPI_Count bytes = 0;
  PMPI_Type_size_x(type, &bytes);
  return static_cast<std::size_t>(bytes);
}
inline std::size_t extent_of(MPI_Datatype type) {
  MPI_Count lower = 0, extent = 0;
  PMPI_Type_get_extent_x(type, &lower, &extent);
  return static_cast<std::size_t>(extent);
}

/// Whether an array of the type has no gaps. Depends on the type map only, which is the same on all ranks, however they made the type; the parts may be
/// in any order.
inline bool is_gapless(MPI_Datatype type) {
  MPI_Count lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  PMPI_Type_get_extent_x(type, &lower, &extent);
  PMPI_Type_get_true_extent_x(type, &true_lower, &true_extent);
  const auto size = static_cast<MPI_Count>(size_of(type));
  return lower == 0 && true_lower == 0 && extent == size && true_extent == size;
}
bool is_plain(MPI_Datatype type);

/// The constructor and the arguments of a derived datatype.
class recipe {
 public:
  explicit recipe(MPI_Datatype type) {
#if MPI_VERSION >= 4  // the older functions fail for types made with arguments of type MPI_Count
    MPI_Count numbers = 0, places = 0, large = 0, types = 0;
    PMPI_Type_get_envelope_c(type, &numbers, &places, &large, &types, &combiner_);
    if (is_named()) return;
    make_room(numbers, places, types);
    std::vector<MPI_Count> larger(static_cast<std::size_t>(large) + 1);
    PMPI_Type_get_contents_c(type, numbers, places, large, types, numbers_.data(), places_.data(), larger.data(),
                             types_.data());
    counts_.assign(numbers_.begin(), numbers_.end());
    if (large > 0)
      counts_.assign(larger.begin(), larger.end()),
          places_.assign(larger.end() - 1 - types, larger.end() - 1);  // of a struct
#else
    int numbers = 0, places = 0, types = 0;
    PMPI_Type_get_envelope(type, &numbers, &places, &types, &combiner_);
    if (is_named()) return;
    make_room(numbers, places, types);
    PMPI_Type_get_contents(type, numbers, places, types, numbers_.data(), places_.data(), types_.data());
    counts_.assign(numbers_.begin(), numbers_.end());
#endif
    types_.pop_back();
  }
  recipe(const recipe&) = delete;
  recipe& operator=(const recipe&) = delete;
  ~recipe() {
    for (auto& t : types_)
      if (!recipe{t}.is_named()) PMPI_Type_free(&t);
  }

  bool is_named() const {
    return combiner_ == MPI_COMBINER_NAMED || combiner_ == MPI_COMBINER_F90_REAL ||
           combiner_ == MPI_COMBINER_F90_COMPLEX || combiner_ == MPI_COMBINER_F90_INTEGER;
  }
  /// Whether its parts are contiguous in memory in the order of the type map; false if unknown.
  bool is_in_order() const {
    if (is_named()) return true;
    if (combiner_ == MPI_COMBINER_STRUCT) return members_follow();
    const bool is_whole = combiner_ == MPI_COMBINER_DUP || combiner_ == MPI_COMBINER_CONTIGUOUS ||
                          combiner_ == MPI_COMBINER_RESIZED ||
                          (combiner_ == MPI_COMBINER_VECTOR && counts_[1] == counts_[2]);
    return is_whole && is_plain(types_[0]);
  }

 private:
  template <class N>
  void make_room(N numbers, N places, N types) {
    numbers_.resize(static_cast<std::size_t>(numbers) + 1);
    places_.resize(static_cast<std::size_t>(places) + 1);
    types_.resize(static_cast<std::size_t>(types) + 1, MPI_DATATYPE_NULL);
  }
  bool members_follow() const {
    MPI_Aint end = 0;
    for (std::size_t i = 0; i < types_.size(); ++i) {
      const auto length = counts_[i + 1];
      if (length == 0) continue;
      if (places_[i] != end || !is_plain(types_[i])) return false;
      end += static_cast<MPI_Aint>(extent_of(types_[i]) * static_cast<std::size_t>(length));
    }
    return true;
  }

  int combiner_ = MPI_COMBINER_NAMED;
  std::vector<int> numbers_;
  std::vector<MPI_Count> counts_;  ///< numbers_ or, for types made with MPI_Count, their large counts
  std::vector<MPI_Aint> places_;
  std::vector<MPI_Datatype> types_;
};

/// Whether the bytes of an array of the type are contiguous and in order. Cached in an attribute of a derived type.
inline bool is_plain(MPI_Datatype type) {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &made, nullptr);
    return made;
  }();
  static char yes, no;
  if (!is_gapless(type)) return false;
  int found = 0;
  void* attribute = nullptr;
  PMPI_Type_get_attr(type, key, &attribute, &found);
  if (found != 0) return attribute == &yes;
  const recipe how{type};
  const bool plain = how.is_in_order();
  if (!how.is_named()) PMPI_Type_set_attr(type, key, plain ? &yes : &no);
  return plain;
}

/// `count` elements of a datatype as bytes. fill() packs and spread() unpacks; no effect if the bytes are the caller's memory.
class block {
 public:
  block(const void* data, std::size_t count, MPI_Datatype type)
      : data_{const_cast<std::byte*>(static_cast<const std::byte*>(data))},
        count_{count},
        type_{type},
        each_{size_of(type)},
        is_plain_{each_ == 0 || is_plain(type)} {
    if (!is_plain_) copy_.resize(count_ * each_);
  }

  bool is_own() const { return is_plain_; }
  std::span<std::byte> bytes() { return {is_plain_ ? data_ : copy_.data(), count_ * each_}; }
  void fill() {
    if (is_plain_) return;
    in_parts([this](std::byte* elements, number n, std::byte* packed, number bytes) {
      number at = 0;
      check(pack(elements, n, type_, packed, bytes, &at, MPI_COMM_SELF), "MPI_Pack");
    });
  }
  void spread() {
    if (is_plain_) return;
    in_parts([this](std::byte* elements, number n, std::byte* packed, number bytes) {
      number at = 0;
      check(unpack(packed, bytes, &at, elements, n, type_, MPI_COMM_SELF), "MPI_Unpack");
    });
  }

 private:
#if MPI_VERSION >= 4
  using number = MPI_Count;
  static constexpr auto pack = PMPI_Pack_c;
  static constexpr auto unpack = PMPI_Unpack_c;
#else
  using number = int;
  static constexpr auto pack = PMPI_Pack;
  static constexpr auto unpack = PMPI_Unpack;
#endif

  template <class F>
  void in_parts(F f) {
    const auto extent = extent_of(type_);  // a negative extent wraps around, and so does the address: correct
    const std::size_t most = std::max<std::size_t>((std::size_t{1} << 30) / each_, 1);
    for (std::size_t i = 0; i < count_; i += most) {
      const auto n = std::min(most, count_ - i);
      if (n * each_ > static_cast<std::size_t>(std::numeric_limits<number>::max()))
        throw std::bad_alloc{};  // one element is too large
      f(data_ + i * extent, static_cast<number>(n), copy_.data() + i * each_, static_cast<number>(n * each_));
    }
  }

  std::byte* data_;
  std::size_t count_;
  MPI_Datatype type_;
  std::size_t each_;
  bool is_plain_;
  std::vector<std::byte> copy_;
};

}  // namespace under_mpi
