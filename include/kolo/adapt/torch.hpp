// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libtorch: a module's tensors as parameters, any torch::optim::Optimizer on averaged gradients, which are exchanged
// during backward(). Opt-in.
#pragma once

#include <kolo/impl/engine.hpp>
#include <kolo/train.hpp>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// The elements of a tensor in storage order. Reads the tensor's address at each call.
template <Element T>
struct torch_elements {
  ::torch::Tensor tensor;

  T* data() const { return static_cast<T*>(tensor.data_ptr()); }
  std::size_t size() const { return std::size_t(tensor.numel()); }
};

/// A tensor of a module, and the buffer in which its gradient is exchanged. Models `kolo::Parameter`.
template <Element T = float>
struct torch_parameter {
  std::string name;
  torch_elements<T> value, gradient;

  /// Makes this buffer the tensor's .grad(). A gradient elsewhere (after backward() into an undefined gradient, or with
  /// create_graph) is copied; an undefined one, because backward() did not reach the tensor, becomes zeros.
  void finish_pending() {
    const ::torch::NoGradGuard no_graph;
    ::torch::Tensor& now = value.tensor.mutable_grad();
    if (now.defined() && now.is_same(gradient.tensor)) return;
    if (!now.defined()) gradient.tensor.zero_();
    else gradient.tensor.copy_(now.is_sparse() ? now.to_dense() : now);
    now = gradient.tensor;
  }
};

namespace detail::adapt {

template <class T>
constexpr ::torch::ScalarType torch_type() {
  if constexpr (std::is_same_v<T, bfloat16>) return ::torch::kBFloat16;
  else if constexpr (std::is_same_v<T, float16>) return ::torch::kHalf;
  else return ::c10::CppTypeToScalarType<T>::value;
}

/// Returns why this library cannot read and write the elements in place; empty: it can.
inline std::string refuses_tensor(const ::torch::Tensor& t) {
  if (!t.device().is_cpu())
    return "lies on " + t.device().str() + ", and this adapter takes tensors in the host's memory";
  if (t.layout() != ::torch::kStrided || !t.is_non_overlapping_and_dense())
    return "has gaps, or shares elements with itself; a .contiguous() copy has not";
  return {};
}

/// Adds each tensor once: modules may share them.
inline void add_distinct(std::vector<::torch::Tensor>& all, const std::vector<::torch::Tensor>& more) {
  for (const auto& t : more) {
    const bool is_known = std::any_of(all.begin(), all.end(), [&](const auto& other) { return other.is_same(t); });
    if (t.defined() && t.numel() > 0 && !is_known) all.push_back(t);
  }
}

template <class T>
::torch::Tensor gradient_of(const ::torch::Tensor& value, kolo::shm::allocator<T> memory) {
  const auto n = std::size_t(value.numel());
  const auto deallocate = [memory, n](void* p) mutable { memory.deallocate(static_cast<T*>(p), n); };
  return ::torch::from_blob(memory.allocate(n), value.sizes(), value.strides(), deallocate,
                            ::torch::dtype(torch_type<T>()))
      .zero_();
}

}  // namespace detail::adapt

/// Returns the trained tensors of a module (requires_grad, not empty) with their names, in the module's order, each
/// once. Gradients are allocated in `memory`: in the heap of a communicator, `kolo::shm::allocator<float>{comm}`, peers
/// read them in place. Errors: `invalid_argument` for a tensor of another element type, on a device, or with gaps.
template <Element T = float>
std::vector<torch_parameter<T>> torch_parameters(const ::torch::nn::Module& module,
                                                 const shm::allocator<T>& memory = {}) {
  std::vector<::torch::Tensor> trained;
  std::vector<torch_parameter<T>> parameters;
  for (const auto& item : module.named_parameters()) {
    const ::torch::Tensor& t = item.value();
    const std::size_t before = trained.size();
    if (t.requires_grad()) detail::adapt::add_distinct(trained, {t});
    if (trained.size() == before) continue;
    std::string wrong = detail::adapt::refuses_tensor(t);
    if (t.scalar_type() != detail::adapt::torch_type<T>())
      wrong = std::string{"has elements of type "} + ::torch::toString(t.scalar_type());
    if (!wrong.empty()) throw error{errc::invalid_argument, item.key() + " " + wrong};
    parameters.push_back({item.key(), {t}, {detail::adapt::gradient_of<T>(t, memory)}});
    parameters.back().finish_pending();
  }
  return parameters;
}

/// Broadcasts all parameters and buffers of the module, of any element type, from the root in one call.
///
/// Before: the same module on every rank. Errors: those of `kolo::broadcast`; `invalid_argument` for a tensor on a
/// device, or with gaps.
void broadcast_parameters(Communicator auto& comm, const ::torch::nn::Module& module, int root = 0,
                          call_site site = call_site::here()) {
  std::vector<::torch::Tensor> tensors;
  detail::adapt::add_distinct(tensors, module.parameters());
  detail::adapt::add_distinct(tensors, module.buffers());
  std::vector<std::span<std::byte>> views;
  for (const auto& t : tensors) {
    if (const auto wrong = detail::adapt::refuses_tensor(t); !wrong.empty())
      comm.engine()->refuse("broadcast_parameters", "a tensor of the module " + wrong);
    views.emplace_back(static_cast<std::byte*>(t.data_ptr()), t.nbytes());
  }
  kolo::broadcast(comm, bucket{views}, root, {}, site);
}

/// Adapts an optimizer of libtorch (SGD, AdamW...; not LBFGS, which steps more than once): it updates all its tensors
/// at the step of the last of `count` parameters. `Optimizer` may be a reference to an optimizer that outlives this.
template <class Optimizer>
struct torch_steps {
  Optimizer optimizer;  ///< libtorch's
  std::size_t count;    ///< number of parameters

  void step(std::size_t index, auto&&, auto&&) {
    if (index + 1 == count) optimizer.step();
  }
};

/// torch_optimizer optimizer{comm, torch::optim::SGD{module.parameters(), 0.1}, module [, op] [, algorithm] [,
/// options]};
///
/// A `distributed_optimizer` over the float32 parameters of a module. The exchange of a bucket starts during
/// backward(), when libtorch has accumulated the last of its gradients, on the thread that runs backward(). Gradients
/// are in memory that peers read. Then, as without this library,
///
///     optimizer.zero_grad();
///     loss.backward();
///     optimizer.step();
///
/// A parameter that backward() has not reached takes part with the present content of its gradient: zeros after
/// zero_grad(), so weight decay and momentum still apply. Two calls of backward() between steps need {.passes = 2}.
/// Sparse gradients are made dense. Before: the same module on every rank, whose tensors stay in place (no
/// module.to()); it and `comm` outlive this. Errors: those of `distributed_optimizer` and `torch_parameters`;
/// `invalid_argument` if the optimizer updates a tensor that the module did not train at construction. (Other element
/// types, without the exchange during backward(): `auto all = torch_parameters<double>(module);`,
/// distributed_optimizer{comm, torch_steps<SGD&>{sgd, all.size()}, all}; gradients are zeroed in place.)
template <class Comm, class Optimizer, class Algorithm = automatic, class Op = average_t>
class torch_optimizer {
  using parameters = std::vector<torch_parameter<float>>;

 public:
  torch_optimizer(Comm& comm, Optimizer&& optimizer, const ::torch::nn::Module& module, const optimizer_options& o = {})
      : torch_optimizer(comm, std::forward<Optimizer>(optimizer), module, Op{}, Algorithm{}, o) {}
  template <detail::collective::AnyAlgorithm A>
  torch_optimizer(Comm& comm, Optimizer&& optimizer, const ::torch::nn::Module& module, A algorithm,
                  const optimizer_options& o = {})
      : torch_optimizer(comm, std::forward<Optimizer>(optimizer), module, Op{}, std::move(algorithm), o) {}
  template <AnyOperator O>
  torch_optimizer(Comm& comm, Optimizer&& optimizer, const ::torch::nn::Module& module, O op,
                  const optimizer_options& o = {})
      : torch_optimizer(comm, std::forward<Optimizer>(optimizer), module, std::move(op), Algorithm{}, o) {}
  torch_optimizer(Comm& comm, Optimizer&& optimizer, const ::torch::nn::Module& module, Op op, Algorithm algorithm,
                  const optimizer_options& o = {})
      : parameters_{trained_by(comm, optimizer, module)},
        known_{tensors_of(parameters_)},
        has_come_(parameters_.size(), 0),
        exchange_{comm,
                  {std::forward<Optimizer>(optimizer), parameters_.size()},
                  parameters_,
                  std::move(op),
                  std::move(algorithm),
                  o} {
    for (std::size_t i = 0; i < parameters_.size(); ++i) hook(i);
  }
  torch_optimizer(const torch_optimizer&) = delete;
  torch_optimizer& operator=(const torch_optimizer&) = delete;
  ~torch_optimizer() {
    for (const auto& [node, key] : hooks_) node->del_post_hook(key);
  }

  /// Zeroes in place: the next backward() adds to it. module.zero_grad() and the inner optimizer's work, too.
  void zero_grad() {
    for (auto& p : parameters_) p.finish_pending();
    exchange_.zero_gradients();
  }
  /// See `distributed_optimizer`.
  bool step() { return complete(), exchange_.step(); }
  void synchronize() { complete(), exchange_.synchronize(); }
  void skip_step() { exchange_.skip_step(); }
  template <class... F>
  std::size_t join(F... between) {
    for (auto& p : parameters_) p.finish_pending();
    return exchange_.join(std::move(between)...);
  }
  void progress() { exchange_.progress(); }

  std::remove_reference_t<Optimizer>& inner() { return exchange_.inner().optimizer; }  ///< the wrapped optimizer
  const bucket_plan& buckets() const { return exchange_.buckets(); }
  const overlap_report& overlap() const { return exchange_.overlap(); }

 private:
  static constexpr const char* updates_others =
      "the optimizer updates a tensor that was not a trained parameter of the module when the torch_optimizer was "
      "made: ranks would diverge; make a new one";

  using tensors = std::set<const ::c10::TensorImpl*>;

  /// Whether the optimizer updates only these tensors. Later it may get another group, and a tensor may become trained.
  static bool covers_all(const tensors& all, auto& optimizer) {
    for (const auto& group : optimizer.param_groups())
      for (const auto& t : group.params())
        if (t.requires_grad() && t.numel() > 0 && !all.contains(t.unsafeGetTensorImpl())) return false;
    return true;
  }
  static tensors tensors_of(const parameters& all) {
    tensors found;
    for (const auto& p : all) found.insert(p.value.tensor.unsafeGetTensorImpl());
    return found;
  }
  static parameters trained_by(Comm& comm, auto& optimizer, const ::torch::nn::Module& module) {
    return detail::train::check_before_comparison(comm, [&] {
      parameters all = torch_parameters(module, shm::allocator<float>{comm});
      if (!covers_all(tensors_of(all), optimizer)) throw error{errc::invalid_argument, updates_others};
      return all;
    });
  }

  /// Calls `come(i)` when gradient i is accumulated. The tensor refers to this node weakly, so `hooks_` owns it.
  void hook(std::size_t i) {
    auto node = ::torch::autograd::impl::grad_accumulator(parameters_[i].value.tensor);
    const auto key = node->add_post_hook(
        std::make_unique<::torch::autograd::utils::LambdaPostHook>([this, i](const auto& outputs, const auto&) {
          come(i);
          return outputs;
        }));
    hooks_.emplace_back(std::move(node), key);
  }
  void come(std::size_t i) {
    parameters_[i].finish_pending();
    exchange_.ready(i);
    has_come_[i] = has_any_come_ = true;
  }

  /// After backward(): the gradients that it did not reach become ready, too. If none is ready in this pass but one was
  /// before, `exchange_` decides whether that is an error.
  void complete() {
    if (std::find(has_come_.begin(), has_come_.end(), 1) == has_come_.end()) {
      if (!has_any_come_) exchange_.refuse("step without a backward pass: no gradient of the module is ready");
      return;
    }
    if (!covers_all(known_, inner())) exchange_.refuse(updates_others);
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (has_come_[i] && !parameters_[i].value.tensor.grad().is_same(parameters_[i].gradient.tensor))
        exchange_.refuse(parameters_[i].name +
                         ": the gradient was zeroed or replaced between the backward pass and the step");
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (!has_come_[i]) come(i);
    has_come_.assign(has_come_.size(), 0);
  }

  parameters parameters_;
  tensors known_;
  std::vector<char> has_come_;  ///< which gradients, in this backward pass
  bool has_any_come_ = false;   ///< any gradient, in any pass
  distributed_optimizer<Comm, torch_steps<Optimizer>, parameters&, Algorithm, Op> exchange_;
  std::vector<std::pair<std::shared_ptr<::torch::autograd::Node>, std::uintptr_t>> hooks_{};
};

template <class Comm, class Optimizer>
torch_optimizer(Comm&, Optimizer&&, const ::torch::nn::Module&, const optimizer_options& = {})
    -> torch_optimizer<Comm, Optimizer>;
template <class Comm, class Optimizer, detail::collective::AnyAlgorithm A>
torch_optimizer(Comm&, Optimizer&&, const ::torch::nn::Module&, A, const optimizer_options& = {})
    -> torch_optimizer<Comm, Optimizer, A>;
template <class Comm, class Optimizer, AnyOperator Op>
torch_optimizer(Comm&, Optimizer&&, const ::torch::nn::Module&, Op, const optimizer_options& = {})
    -> torch_optimizer<Comm, Optimizer, automatic, Op>;
template <class Comm, class Optimizer, AnyOperator Op, detail::collective::AnyAlgorithm A>
torch_optimizer(Comm&, Optimizer&&, const ::torch::nn::Module&, Op, A, const optimizer_options& = {})
    -> torch_optimizer<Comm, Optimizer, A, Op>;

}  // namespace kolo::inline KOLO_ABI
