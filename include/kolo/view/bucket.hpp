// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Many tensors seen as one vector, where other libraries copy them into a fusion buffer.
#pragma once

#include <kolo/core/less_code.hpp>
#include <kolo/view/view.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

namespace detail::view {

/// A list of tensors whose number is known at run time: a span (or a vector...) of views, of vectors, of matrices.
template <class X>
concept ListOfViews = !ViewLike<X> && requires(std::remove_reference_t<X> & list) {
  requires std::is_pointer_v<decltype(list.data())>;
  requires ViewLike<decltype(*list.data())>;
  static_cast<std::size_t>(list.size());
};

template <class X>
concept BucketPart = ViewLike<X> || ListOfViews<X>;

template <class X>
struct part_element {};
template <ViewLike X>
struct part_element<X> : std::type_identity<typename view_of<X>::element_type> {};
template <ListOfViews X>
struct part_element<X> : part_element<decltype(*std::declval<std::remove_reference_t<X>&>().data())> {};

template <class X>
struct part_space : std::integral_constant<memory_space, space_of<view_of<X>>> {};
template <ListOfViews X>
struct part_space<X> : part_space<decltype(*std::declval<std::remove_reference_t<X>&>().data())> {};

/// The element of the bucket: const if it is const in any of its parts.
template <class First, class... Rest>
struct bucket_of {
  static constexpr memory_space space = part_space<First>::value;
  using T = typename part_element<First>::type;
  static constexpr bool is_const = (std::is_const_v<T> || ... || std::is_const_v<typename part_element<Rest>::type>);
  using type = std::conditional_t<is_const, const T, T>;
};

/// Whether a part refers to tensors that outlive the call.
template <class X>
inline constexpr bool outlives_call = Borrowed<X>;
template <ListOfViews X>
inline constexpr bool outlives_call<X> = std::is_lvalue_reference_v<X> || is_span<std::remove_cvref_t<X>>::value ||
                                         View<std::remove_cvref_t<decltype(*std::declval<X&>().data())>>;

}  // namespace detail::view

template <class T, memory_space S = memory_space::host>
class bucket;

namespace detail::view {
template <class X>
struct is_bucket : std::false_type {};
template <class T, memory_space S>
struct is_bucket<bucket<T, S>> : std::true_type {};
struct no_element;
template <class... Part>
inline constexpr bool one_bucket = sizeof...(Part) == 1 && (is_bucket<std::remove_cvref_t<Part>>::value && ...);
/// The valid arguments of a bucket; and invalid ones. Another bucket is neither: it is copied.
template <class... Part>
concept BucketParts = sizeof...(Part) > 0 && !one_bucket<Part...> && (BucketPart<Part> && ...);
template <class... Part>
concept NoBucketParts = !one_bucket<Part...> && !(BucketPart<Part> && ...);
}  // namespace detail::view

/// `bucket all{w1, b1, w2, b2}`: the elements of the tensors, one tensor after the other, in place. `bucket
/// many{std::span{views}}`: the same for a list. A tensor may be any view; empty ones do no harm.
///
/// It keeps a table of contiguous runs, which copies share; construction allocates, use does not. The tensors must
/// outlive it and must not be resized, and if the bucket is written, none is in it twice. (A strided tensor takes one
/// entry per run.)
template <class T, memory_space S>
class bucket {
  static_assert(!std::is_same_v<T, detail::view::no_element>,
                "kolo::bucket takes tensors (contiguous containers or views) or a list of them");

 public:
  using element_type = T;
  static constexpr memory_space space = S;

  template <class... Part>
    requires detail::view::BucketParts<Part...>
  explicit bucket(Part&&... parts) {
    static_assert((detail::view::outlives_call<Part> && ...),
                  "kolo: a bucket refers to its tensors and does not copy them: pass named tensors, not temporaries");
    static_assert(
        (std::is_same_v<std::remove_const_t<T>, std::remove_const_t<typename detail::view::part_element<Part>::type>> &&
         ...),
        "kolo::bucket: all tensors must have the same element type");
    static_assert(((detail::view::part_space<Part>::value == S) && ...),
                  "kolo::bucket: all tensors must be in host memory, or all in device memory");
    std::vector<entry> runs;
    (add_part(runs, parts), ...);
    runs_ = detail::core::shared<const std::vector<entry>>(std::move(runs));
  }

  /// Elements of all tensors together; 0 if it was moved from.
  std::size_t size() const { return !runs_ || runs_->empty() ? 0 : runs_->back().first + runs_->back().count; }

  /// Elements [first, first + count) as a bucket of its own. Allocates.
  bucket part(std::size_t first, std::size_t count) const {
    std::vector<entry> runs;
    for (std::size_t i = first; i < first + count;) {
      const std::span<T> all = run(i);
      add_run(runs, all.first(std::min(all.size(), first + count - i)));
      i += all.size();
    }
    return bucket{std::move(runs)};
  }

  /// The contiguous elements from element i on; i < size().
  std::span<T> run(std::size_t i) const {
    const auto next =
        std::upper_bound(runs_->begin(), runs_->end(), i, [](std::size_t k, const entry& e) { return k < e.first; });
    const entry& e = *(next - 1);
    return {e.data + (i - e.first), e.count - (i - e.first)};
  }

 private:
  struct entry {
    T* data;
    std::size_t first, count;
  };

  explicit bucket(std::vector<entry>&& runs) : runs_{detail::core::shared<const std::vector<entry>>(std::move(runs))} {}

  template <class X>
  static void add_part(std::vector<entry>& runs, X& part) {
    if constexpr (detail::view::ListOfViews<X>) {
      for (std::size_t k = 0; k < std::size_t(part.size()); ++k) add_part(runs, part.data()[k]);
    } else {
      detail::view::for_runs(kolo::as_view(part), [&](std::span<T> run) { add_run(runs, run); });
    }
  }

  static void add_run(std::vector<entry>& runs, std::span<T> run) {
    const std::size_t first = runs.empty() ? 0 : runs.back().first + runs.back().count;
    const bool goes_on = !runs.empty() && runs.back().data + runs.back().count == run.data();
    if (S == memory_space::host && goes_on) runs.back().count += run.size();  // a device's may be of two allocations
    else runs.push_back({run.data(), first, run.size()});
  }

  std::shared_ptr<const std::vector<entry>> runs_;
};

template <class... Part>
  requires detail::view::BucketParts<Part...> bucket(Part&&...)
->bucket<typename detail::view::bucket_of<Part...>::type, detail::view::bucket_of<Part...>::space>;
template <class... Part>
  requires detail::view::NoBucketParts<Part...> bucket(Part&&...)
->bucket<detail::view::no_element>;

}  // namespace kolo::inline KOLO_ABI
