// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the replicated and the sharded optimizer do by the types of parameters, operator and algorithm.
#pragma once

#include <kolo/core/own_header.hpp>
#include <kolo/train/gradient_exchange.hpp>
#include <kolo/train/sparse.hpp>

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::core::own_header {
template <class T>
  requires true inline constexpr bool includes_kolo_train_hpp<T> = true;
}  // namespace kolo::inline KOLO_ABI::detail::core::own_header

namespace kolo::inline KOLO_ABI::detail::collective {
/// Defined in collective/scaled.hpp.
template <class Wire, View V>
void round_groups_with_feedback(const V& view, std::vector<float>& residuals);
}  // namespace kolo::inline KOLO_ABI::detail::collective

namespace kolo::inline KOLO_ABI::detail::train {

/// std::variant<Each<T>...> over the element types of the ranges that `Range` consists of.
template <template <class> class Each, class Ranges>
struct for_elements;
template <template <class> class Each, class... R>
struct for_elements<Each, std::tuple<R...>> {
  using type = std::variant<Each<view_element_t<decltype((std::declval<item_of<R>>().gradient))>>...>;
};
template <template <class> class Each, class Range>
using per_element = typename for_elements<Each, typename ranges_of<std::remove_reference_t<Range>>::type>::type;

/// Calls f(alternative), as std::visit does; where there is one, with a seventh of the functions.
template <class F, class V>
decltype(auto) on(F f, V& variant) {
  if constexpr (std::variant_size_v<std::remove_const_t<V>> == 1) return f(*std::get_if<0>(&variant));
  else return std::visit(f, variant);
}

/// Calls f(index, values, gradients) with a bucket of the values and a bucket of the gradients of the tensors `which`,
/// all of range `k` of Range. `index` is k as std::integral_constant.
template <class Range, class Op>
void with_tensors(const local_gradients& all, std::size_t k, const std::vector<std::size_t>& which, auto f) {
  using ranges = typename ranges_of<std::remove_reference_t<Range>>::type;
  const auto one = [&](auto index) {
    using typed = tensor_of<std::remove_reference_t<item_of<std::tuple_element_t<index, ranges>>>, Op>;
    std::vector<decltype(typed::value)> values;
    std::vector<decltype(typed::gradient)> gradients;
    for (const std::size_t i : which) {
      const auto& t = static_cast<const typed&>(all.tensor(i));
      values.push_back(t.value), gradients.push_back(t.gradient);
    }
    f(index, bucket{values}, bucket{gradients});
  };
  [&]<std::size_t... Index>(std::index_sequence<Index...>) {
    ((k == Index ? one(std::integral_constant<std::size_t, Index>{}) : void()), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<ranges>>{});
}

/// The hooks of an optimizer, an object of its own: no function of a class derived from the optimizer overrides them,
/// and a helper calls them while such a class is being destroyed.
template <class Self, class T>
struct hooks_of final : optimizer_hooks<T> {
  explicit hooks_of(Self& s) : self{s} {}
  void pack(std::size_t b) override { self.pack(b); }
  request<T> start(std::size_t b) override { return self.start(b); }
  void arrived(std::size_t b, double factor) override { self.arrived(b, factor); }
  void arrived_by_leaves(std::size_t b, leaf_sums<T>& sums) override { self.arrived_by_leaves(b, sums); }
  void update_early(std::size_t b) override { self.update_early(b); }
  void update_in_passing(bool may) override { self.update_in_passing(may); }
  void update() override { self.update(); }
  void drop() override { self.drop(); }
  refusal refuses_shape(std::size_t i) override { return self.refuses_shape(i); }
  refusal refuses_shapes() override { return self.refuses_shapes(); }
  void exchange_rows() override { self.exchange_rows(); }
  void clear_rows() override { self.clear_rows(); }

  Self& self;
};

/// The members of an optimizer that its base `gradient_exchange` is made of: a base that comes before.
template <class Self, class Comm, class Inner, class Range, class Algorithm, class Op>
struct typed_parts {
  local_gradients local(const optimizer_options& o) {
    const int passes = passes_of<Op, Algorithm>(typed_comm_, o);
    return {tensors_of<Op>(parameters_),
            train::traits_of_operator(op_),
            typed_comm_.size(),
            passes,
            o.leaves > 0,
            o.error_feedback};
  }

  Comm& typed_comm_;
  Inner inner_;
  Range parameters_;
  Algorithm algorithm_;
  Op op_;
  hooks_of<Self, typename Comm::transport_type> hooks_;
};

/// `Self` is the optimizer.
template <class Self, kind K, class Comm, class Inner, class Range, class Algorithm, class Op>
class typed_exchange : protected typed_parts<Self, Comm, Inner, Range, Algorithm, Op>,
                       public gradient_exchange<typename Comm::transport_type> {
  static_assert(AnyParameters<Range>,
                "kolo: parameters are a range of items with .value and .gradient, of one element type, or "
                "kolo::mixed_parameters of such ranges");
  static_assert(schedule::leaves_of<std::remove_cv_t<Algorithm>> == 0,
                "kolo: order::tree<L> averages over L, an optimizer over its ranks: set options.leaves instead");
  using parts = typed_parts<Self, Comm, Inner, Range, Algorithm, Op>;

 public:
  using wire_type = typename Comm::transport_type;

  typed_exchange(Comm& comm, Inner inner, Range&& parameters, const optimizer_options& o = {})
      : typed_exchange(comm, std::move(inner), std::forward<Range>(parameters), Op{}, Algorithm{}, o) {}
  template <collective::AnyAlgorithm A>
  typed_exchange(Comm& comm, Inner inner, Range&& parameters, A algorithm, const optimizer_options& o = {})
      : typed_exchange(comm, std::move(inner), std::forward<Range>(parameters), Op{}, std::move(algorithm), o) {}
  template <AnyOperator O>
  typed_exchange(Comm& comm, Inner inner, Range&& parameters, O op, const optimizer_options& o = {})
      : typed_exchange(comm, std::move(inner), std::forward<Range>(parameters), std::move(op), Algorithm{}, o) {}
  typed_exchange(Comm& comm, Inner inner, Range&& parameters, Op op, Algorithm algorithm,
                 const optimizer_options& o = {})
      : parts{comm,
              std::move(inner),
              std::forward<Range>(parameters),
              std::move(algorithm),
              std::move(op),
              hooks_of<Self, wire_type>{static_cast<Self&>(*this)}},
        gradient_exchange<wire_type>{
            comm, o, parts::hooks_, K, &select::candidates_in<K, wire_type>, check_before_comparison(comm, [&] {
              return parts::local(o);
            })} {
    if constexpr (!has_wire<Op>)  // passes_of refuses it
      if (o.leaves > 0) make_leaf_sums();
  }

  Inner& inner() { return this->inner_; }  ///< the wrapped optimizer or rule, for example to set its learning rate
  Comm& comm() { return this->typed_comm_; }

 protected:
  using hooks = hooks_of<Self, wire_type>;
  using leaf_sums = train::leaf_sums<wire_type>;
  ~typed_exchange() = default;

  void with_tensors(std::size_t k, const std::vector<std::size_t>& which, auto f) const {
    train::with_tensors<Range, Op>(this->local_, k, which, f);
  }

  /// Rounds the prepared gradients of bucket b with error feedback, for a wire format with scales.
  template <View V>
  void round_groups([[maybe_unused]] std::size_t b, [[maybe_unused]] const V& gradients) {
    if constexpr (has_wire_of_groups<Op>)
      if (std::vector<float>* const rest = this->local_.rest_of(b))
        collective::round_groups_with_feedback<typename Op::wire_element>(gradients, *rest);
  }

 private:
  friend hooks;
  void update_early(std::size_t) {}
  void update_in_passing(bool) {}
  void drop() {}

  void make_leaf_sums() {
    for (const auto& b : this->plan_.buckets)
      with_tensors(b.range, b.parameters, [&](auto, const auto&, const auto& gradients) {
        using T = typename std::remove_cvref_t<decltype(gradients)>::element_type;
        if (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
          throw error{errc::invalid_argument, "options.leaves takes elements that operator new aligns, no wider ones"};
        this->add_leaf_sums(train::bytes_of(gradients), make_kernel<T>(this->op_));
      });
  }

  template <class P>
  refusal refuses_shape_of(P& p, std::size_t i) const {
    const auto* const same = dynamic_cast<const tensor_of<P, Op>*>(&this->local_.tensor(i));
    return same ? same->refuses_shape(p) : refusal{"there are more or fewer parameters than at the beginning"};
  }
  refusal refuses_shape(std::size_t i) {
    refusal wrong;
    train::with_parameter(this->parameters_, i, [&](auto&& p) { wrong = refuses_shape_of(p, i); });
    return wrong;
  }
  refusal refuses_shapes() {
    refusal wrong;
    std::size_t count = 0;
    train::each_parameter(this->parameters_, [&](std::size_t i, auto& p) {
      ++count;
      if (i < this->local_.size() && !wrong) wrong = refuses_shape_of(p, i);
    });
    if (!wrong && count != this->local_.size()) wrong = "there are more or fewer parameters than at the beginning";
    return wrong;
  }
  void exchange_rows() {
    train::each_parameter(this->parameters_, [&](auto, auto& p) { exchange_rows_of(p); });
  }
  template <class P>
  void exchange_rows_of(P& p) {
    if constexpr (MayBeSparse<P>)
      if (row_list* const rows = train::rows_of(p); rows && !train::is_local(p)) {
        const auto mine = this->queue_.calls();
        train::exchange_rows(comm(), kolo::as_view(p.gradient), *rows, this->op_, this->options_.density);
        if (const double factor = this->left_to_multiply(); factor != 1)
          train::scale(kolo::as_view(p.gradient), factor);
      }
  }
  void clear_rows() {
    train::each_parameter(this->parameters_, [](std::size_t, auto& p) {
      if (row_list* const rows = train::rows_of(p)) rows->touched.clear();
    });
  }
};

}  // namespace kolo::inline KOLO_ABI::detail::train
