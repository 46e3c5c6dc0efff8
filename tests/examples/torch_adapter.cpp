// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kolo/adapt/torch.hpp: libtorch's optimizers on averaged gradients, for any parameters that backward() reaches, and refusals.
#include <kolo/adapt/torch.hpp>

#include <torch/torch.h>

#include "support/catch.hpp"
#include "train/model.hpp"

using namespace testing;

namespace {

/// Two dense layers, one that only some ranks use, an embedding with a sparse gradient, a tensor without elements, and a buffer of integers.
struct network : torch::nn::Module {
  torch::nn::Linear first{3, 4}, second{4, 2}, rare{3, 2};
  torch::nn::Embedding table{torch::nn::EmbeddingOptions(5, 3).sparse(true)};
  torch::Tensor seen = torch::zeros({2}, torch::kLong);

  network() {
    register_module("first", first), register_module("second", second), register_module("rare", rare),
        register_module("table", table);
    register_parameter("none", torch::zeros({0, 3}));
    register_buffer("seen", seen);
    second->bias.requires_grad_(false);
  }
  torch::Tensor loss(const torch::Tensor& x, bool with_rare) {
    auto y = second(torch::tanh(first(x + table(torch::tensor({1, 3, 1})))));
    return (with_rare ? y + rare(x) : y).square().mean();
  }
};

/// Copies the values of a network to another one.
void copy(network& to, const network& from) {
  const torch::NoGradGuard no_graph;
  for (const auto& p : from.named_parameters()) to.named_parameters()[p.key()].copy_(p.value());
}
double distance(const network& a, const network& b) {
  double most = 0;
  for (const auto& p : a.named_parameters())
    if (p.value().numel() > 0)
      most = std::max(most, (p.value() - b.named_parameters()[p.key()]).abs().max().item<double>());
  return most;
}
torch::Tensor batch(int rank, int step) {
  return torch::arange(9, torch::kFloat).reshape({3, 3}) * 0.1f * static_cast<float>(rank + 1) -
         static_cast<float>(step);
}

/// Compares each rank's network with one that sees all ranks' batches; only odd ranks use `rare`. In step `skipped` a loss overflows.
template <class Inner, class Options>
double trained_apart(Options options, int ranks, int passes, int skipped = -1) {
  network start;
  std::vector<double> apart(static_cast<std::size_t>(ranks));
  kolo::threads::run(ranks, [&](auto& comm) {
    network mine, alone;
    copy(mine, start), copy(alone, start);
    kolo::torch_optimizer optimizer{
        comm, Inner{mine.parameters(), options}, mine, {.bucket_bytes = 40, .passes = passes}};
    Inner reference{alone.parameters(), options};
    for (const auto& p : alone.parameters())
      if (p.requires_grad()) p.mutable_grad() = torch::zeros_like(p);  // libtorch's AdamW refuses sparse ones
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      for (int pass = 0; pass < passes; ++pass) {
        const bool overflows = step == skipped && pass + 1 == passes;
        const torch::Tensor loss = mine.loss(batch(comm.rank(), step + pass), comm.rank() % 2 == 1);
        (overflows && comm.rank() == 0 ? loss / 0 : loss).backward();
        if (overflows) optimizer.synchronize(), optimizer.skip_step();
        else optimizer.step();
      }
      if (step == skipped) continue;
      torch::Tensor all = torch::zeros({});
      for (int r = 0; r < ranks; ++r)
        for (int pass = 0; pass < passes; ++pass) all = all + alone.loss(batch(r, step + pass), r % 2 == 1);
      reference.zero_grad();
      (all / (ranks * passes)).backward();
      reference.step();
    }
    apart[static_cast<std::size_t>(comm.rank())] = distance(mine, alone);
  });
  return *std::max_element(apart.begin(), apart.end());
}

}  // namespace

TEST_CASE("torch: ranks train like one rank with all batches: unused parameters, sparse gradients, skipped steps") {
  REQUIRE(trained_apart<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9), 3, 1) < 1e-6);
  REQUIRE(trained_apart<torch::optim::SGD>(torch::optim::SGDOptions(0.1), 2, 2) < 1e-6);
  REQUIRE(trained_apart<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01).eps(0.1), 2, 1) <
          1e-6);  // a small eps amplifies rounding errors of zeros
  REQUIRE(trained_apart<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9), 3, 1, 1) < 1e-6);
  REQUIRE(trained_apart<torch::optim::SGD>(torch::optim::SGDOptions(0.1), 2, 2, 2) < 1e-6);
}

TEST_CASE("torch: parameters are the trained tensors, by name; their gradients stay in kolo's buffer") {
  network model;
  auto parameters = kolo::torch_parameters(model);
  STATIC_REQUIRE(kolo::Parameters<std::vector<kolo::torch_parameter<float>>>);
  REQUIRE(parameters.size() == 6);  // of eight: one is not trained, one has no elements
  REQUIRE(parameters[0].name == "first.weight");
  REQUIRE(parameters[0].value.data() == model.first->weight.data_ptr<float>());
  REQUIRE(model.first->weight.grad().data_ptr<float>() == parameters[0].gradient.data());
  model.first->weight.mutable_grad() = torch::ones({4, 3});
  parameters[0].finish_pending();
  REQUIRE(model.first->weight.grad().data_ptr<float>() == parameters[0].gradient.data());
  REQUIRE(parameters[0].gradient.data()[11] == 1);
  model.first->weight.mutable_grad().reset();
  parameters[0].finish_pending();
  REQUIRE(parameters[0].gradient.data()[11] == 0);
  torch::nn::Linear wide{2, 3};
  wide->to(torch::kDouble);
  REQUIRE(contains(words_of([&] { kolo::torch_parameters(*wide); }), "weight has elements of type Double"));
  REQUIRE(kolo::torch_parameters<double>(*wide).size() == 2);
}

TEST_CASE("torch: a module of doubles is trained by libtorch's optimizer, and exchanged after backward()") {
  tally t;
  torch::nn::Linear start{3, 2};
  start->to(torch::kDouble);
  kolo::threads::run(3, [&](auto& comm) {
    const auto trained = [&](int first, int ranks, auto step) {
      torch::nn::Linear mine{3, 2};
      mine->to(torch::kDouble);
      {
        const torch::NoGradGuard no_graph;
        mine->weight.copy_(start->weight), mine->bias.copy_(start->bias);
      }
      torch::optim::SGD sgd{mine->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)};
      auto parameters = kolo::torch_parameters<double>(*mine);
      kolo::distributed_optimizer optimizer{comm, kolo::torch_steps<torch::optim::SGD&>{sgd, parameters.size()},
                                            parameters};
      for (int k = 0; k < 4; ++k) {
        sgd.zero_grad();
        for (int r = first; r < first + ranks; ++r)
          (mine(batch(r, k).to(torch::kDouble)).square().mean() / ranks).backward();
        step(sgd, optimizer);
      }
      return torch::cat({mine->weight.flatten(), mine->bias}).detach();
    };
    const auto together = trained(comm.rank(), 1, [](auto&, auto&all) { all.step(); }),
               alone = trained(0, 3, [](auto&one, auto&) { one.step(); });
    t.expect((together - alone).abs().max().template item<double>() < 1e-12);
  });
  REQUIRE(t.wrong == 0);
}

TEST_CASE("torch: backward() marks gradients as ready") {
  const auto text = words_of([] {
    kolo::threads::run(2, [](auto& comm) {
      network model;
      kolo::broadcast_parameters(comm, model, 1);
      kolo::torch_optimizer optimizer{comm, torch::optim::SGD{model.parameters(), 0.1}, model};
      model.loss(batch(comm.rank(), 0), true).backward();
      optimizer.zero_grad();
    });
  });
  REQUIRE(contains(text, "between the backward pass and the step"));
}

TEST_CASE("torch: a rank without batches joins, also beside steps that synchronise before the update") {
  for (const bool does_something : {false, true}) {
    tally t;
    kolo::threads::run(2, [&](auto& comm) {
      torch::nn::Linear one{2, 1};
      kolo::broadcast_parameters(comm, *one);
      kolo::torch_optimizer optimizer{
          comm, torch::optim::SGD{one->parameters(), 0.1}, *one, {.inputs = kolo::uneven::by_those_left}};
      for (int step = 0; step < 1 + comm.rank(); ++step) {
        optimizer.zero_grad();
        one(batch(comm.rank(), step).narrow(1, 0, 2)).sum().backward();
        if (does_something) optimizer.synchronize();
        optimizer.step();
      }
      std::size_t calls = 0;
      const std::size_t steps = does_something ? optimizer.join([&] { ++calls; }) : optimizer.join();
      t.expect(steps == 1u - static_cast<unsigned>(comm.rank()) && calls == (does_something ? steps : 0));
      const torch::Tensor own = one->weight.detach().clone();
      kolo::broadcast_parameters(comm, *one);
      t.expect(torch::equal(own, one->weight));
    });
    REQUIRE(t.wrong == 0);
  }
}

TEST_CASE("torch: broadcast_parameters sends the root's parameters and buffers of any type") {
  tally t;
  network root;
  root.seen.fill_(7);
  kolo::threads::run(3, [&](auto& comm) {
    network mine;
    mine.seen.fill_(comm.rank());
    if (comm.rank() == 1) copy(mine, root), mine.seen.fill_(7);
    kolo::broadcast_parameters(comm, mine, 1);
    t.expect(distance(mine, root) == 0 && mine.seen.eq(7).all().item<bool>());
  });
  REQUIRE(t.wrong == 0);
}

TEST_CASE("torch: misuse throws an error with a sentence, also through backward()") {
  const auto alone = [&](auto wrong) {
    std::string text;
    kolo::threads::run(1, [&](auto& comm) {
      network model;
      kolo::torch_optimizer optimizer{comm, torch::optim::SGD{model.parameters(), 0.1}, model};
      text = words_of([&] { wrong(comm, model, optimizer); });
    });
    return text;
  };
  const auto backward = [](network& model) { model.loss(batch(0, 0), true).backward(); };
  REQUIRE(contains(alone([&](auto&, network& m, auto&) { backward(m), backward(m); }), "was ready twice"));
  REQUIRE(contains(alone([&](auto&, network&, auto& o) { o.zero_grad(), o.step(); }), "step without a backward pass"));
  REQUIRE(contains(alone([&](auto&, network& m, auto& o) {
                     m.first->weight.set_data(torch::ones({4, 3})), backward(m), o.step();
                   }),
                   "first.weight lies elsewhere"));
  REQUIRE(contains(alone([&](auto& comm, network& m, auto&) {
                     auto stranger = torch::ones({2}, torch::requires_grad());
                     kolo::torch_optimizer{comm, torch::optim::SGD{{stranger}, 0.1}, m};
                   }),
                   "not a trained parameter of the module"));
  REQUIRE(contains(alone([&](auto&, network& m, auto& o) {
                     backward(m), o.step();
                     m.second->bias.requires_grad_(true), backward(m), o.step();
                   }),
                   "not a trained parameter of the module when"));
}

TEST_CASE("torch: a refusal on one rank is an error on the other at once") {
  const auto heard = [](auto wrong_from_the_start, auto wrong) {
    std::string all_say[2];
    kolo::threads::run(2, [&](auto& comm) {
      all_say[comm.rank()] = words_of([&] {
        network model;
        auto all = model.parameters();
        if (comm.rank() == 0) wrong_from_the_start(model, all);
        kolo::torch_optimizer optimizer{comm, torch::optim::SGD{all, 0.1}, model};
        for (int step = 0; step < 2; ++step) {
          model.loss(batch(comm.rank(), step), true).backward();
          if (comm.rank() == 0) wrong(model);
          optimizer.step();
          optimizer.zero_grad();
        }
      });
    });
    return all_say[1];
  };
  const auto good = [](network&, auto&...) {};
  const char* const differ = "ranks plan different buckets";
  REQUIRE(contains(heard([](network&, auto& all) { all.push_back(torch::ones({2}, torch::requires_grad())); }, good),
                   differ));
  REQUIRE(contains(heard([](network& m, auto&) { m.first->to(torch::kDouble); }, good), differ));
  REQUIRE(contains(heard(good, [](network& m) { m.second->bias.requires_grad_(true); }),
                   "refused its arguments, so the others cannot go on: the optimizer updates a tensor"));
  REQUIRE(contains(heard(good, [](network& m) { m.first->weight.mutable_grad().reset(); }),
                   "refused its arguments, so the others cannot go on: first.weight"));
}
