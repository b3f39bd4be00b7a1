// Mixtures of experts within programs: gradients, experts that nothing chooses, the loss that balances.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/program/ops/activations.h"
#include "lpmm/program/ops/add.h"
#include "lpmm/program/ops/experts.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/row_norm.h"
#include "lpmm/program/ops/sequence/embedding.h"
#include "lpmm/program/ops/sequence/token_loss.h"
#include "tests/lpmm/memory/at_once_policy.h"
#include "tests/lpmm/memory/net.h"
#include "tests/lpmm/memory/stored_bytes.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

struct MixtureShape {
  int experts = 4, chosen = 2, width = 20, hidden = 12, layers = 2;
  bool is_normed = true, recompute = false;
  double balance = 0.5;
};
constexpr int kOfSequence = 12, kWords = 23;

Forward mixture(MixtureShape s) {
  return [s](ProgramBuilder& b) {
    const int length = b.inference() > 0 ? b.inference() : kOfSequence;
    Value x = embedding(
        b, "wte",
        {.vocabulary = kWords, .length = length, .width = s.width, .initial = {InitialKind::kNormal, 1}});
    std::vector<Choice> choices;
    for (int i = 0; i < s.layers; ++i) {
      const auto layer = [&](Value in) {
        const std::string name = "h" + std::to_string(i);
        const Value y = rms_norm(b, name + ".norm", in, 1e-5);
        choices.push_back(choose_experts(b, projection(b, name + ".gate", y, s.experts, 0.5, false), s.chosen,
                                         s.is_normed));
        return add(b, in,
                   experts(b, name + ".experts", y, choices.back(), {s.hidden, Activation::kSilu, 0.3, 0.3}));
      };
      x = s.recompute ? b.recompute(x, layer) : layer(x);
    }
    token_loss(b, "head", x, kWords, 0.3);
    balance_loss(b, choices, s.balance);
  };
}

Batch drawn_tokens(int count, unsigned seed, int different = kWords) {
  std::mt19937 generator(seed);
  Batch batch;
  batch.count = count;
  for (int i = 0; i < count * kOfSequence; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>(generator() % static_cast<unsigned>(different)));
    batch.labels.push_back(static_cast<std::int32_t>(generator() % kWords));
  }
  return batch;
}

TEST(ExpertsProgram, GradientsOfEveryTensorByFiniteDifferences) {
  for (const bool is_normed : {true, false}) {
    Net net(mixture({.is_normed = is_normed}), 4, ValueType::kFp32, 2);
    expect_finite_differences(net, drawn_tokens(4, 1));
  }
}

// With one expert all is as in an MLP, to the bit; its weights are decoded in several panels.
TEST(ExpertsProgram, OneExpertIsAnMlp) {
  constexpr int kWidth = 1100, kHidden = 1000;
  const auto plain = [](ProgramBuilder& b) {
    const Value x = embedding(
        b, "wte",
        {.vocabulary = kWords, .length = kOfSequence, .width = kWidth, .initial = {InitialKind::kNormal, 1}});
    const Value y = rms_norm(b, "h0.norm", x, 1e-5);
    const Value inner = projections(
        b, {{"h0.experts.0.gate_proj", kHidden}, {"h0.experts.0.up_proj", kHidden}}, y, 0.03, false);
    const Value added = projection(b, "h0.experts.0.down_proj", activation(b, Activation::kSilu, inner, true),
                                   kWidth, 0.03, false);
    token_loss(b, "head", add(b, x, added), kWords, 0.3);
  };
  const MixtureShape shape{.experts = 1, .chosen = 1, .width = kWidth, .hidden = kHidden, .layers = 1};
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    if (kSanitized && type == ValueType::kBf16) continue;
    Net one(mixture(shape), 1, type, 2), mlp(plain, 1, type, 2);
    for (int t = 0; t < mlp.memory->tensors(); ++t)
      one.memory->initialize(one.memory->find(mlp.memory->info(t).name), 0, mlp.parameter(t));
    const Batch batch = drawn_tokens(1, 2);
    // The balance of one expert is 1.
    EXPECT_NEAR(one.run(batch) - shape.balance, mlp.run(batch), 1e-5);
    for (int t = 0; t < mlp.memory->tensors(); ++t) {
      const std::string& name = mlp.memory->info(t).name;
      const Floats got = one.gradient(one.memory->find(name)), want = mlp.gradient(t);
      if (type == ValueType::kFp32) {
        EXPECT_TRUE(got == want) << name;
      } else {  // an expert's part is added in fp32, and rounded once
        EXPECT_GT(dot(got, want) / (norm(got) * norm(want)), 0.999) << name;
      }
    }
    EXPECT_EQ(norm(one.gradient(one.memory->find("h0.gate.weight"))), 0);
  }
}

// A device that counts its products and folds.
class CountingProducts final : public CpuDevice {
 public:
  CountingProducts() : CpuDevice(2) {}
  void matmul(const kernels::MatrixArgs& args, void* scratch) override {
    ++products;
    CpuDevice::matmul(args, scratch);
  }
  int products = 0;
};

// A batch of two tokens chooses few of many experts: no product is made for the others, whose gradient is 0.
TEST(ExpertsProgram, ExpertsThatNothingChoosesCostNothing) {
  const MixtureShape shape{.experts = 32, .chosen = 2, .layers = 1, .balance = 0};
  const auto count = [&](int different) {
    CountingProducts device;
    const auto model = make_forward_model({{0, mixture(shape)}}, true, false, false);
    ModelMemory memory(model->tensors(), make_policy("fp32"), {}, 1, 1, device);
    model->initialize(memory, 1, {});
    Buffers none({}, device);
    const auto program = model->build(2, ValueType::kFp32, device);
    Step step = memory.begin_step({1, 0});
    program->train(memory, step, none, drawn_tokens(2, 3, different), 0);
    int touched = 0;
    for (int e = 0; e < shape.experts; ++e) {
      bool is_zero = true;
      for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
        const int t = memory.find("h0.experts." + std::to_string(e) + "." + part + ".weight");
        Floats gradient(static_cast<std::size_t>(memory.info(t).elements()));
        device.decode(memory.view(t, Role::kAccumulator), 0, std::ssize(gradient), gradient.data());
        is_zero = is_zero && std::ranges::all_of(gradient, [](float g) { return g == 0; });
      }
      touched += is_zero ? 0 : 1;
    }
    return std::pair(touched, device.products);
  };
  const auto [few, few_products] = count(1);  // one token everywhere
  const auto [many, many_products] = count(kWords);
  EXPECT_EQ(few, 2);
  EXPECT_GT(many, 8);
  // Three products forward and six backward for each expert; the rest is the same.
  EXPECT_EQ(many_products - few_products, 9 * (many - few));
}

struct TrainedMixture {
  std::vector<double> losses;
  Bytes bytes;
};
TrainedMixture train_mixture(const MixtureShape& shape, const Policy& policy, Device& device, ValueType type,
                             double clip = 0, int microbatches = 1) {
  OptimizerConfig adamw;
  adamw.rule = "adamw";
  adamw.clip_norm = clip;
  const auto model = make_forward_model({{0, mixture(shape)}}, true, false, policy.apply_at_once);
  ModelMemory memory(model->tensors(), policy, adamw, 1, microbatches, device);
  model->initialize(memory, 1, {});
  Buffers none({}, device);
  const auto program = model->build(2, type, device);
  TrainedMixture out;
  for (unsigned step = 1; step <= 3; ++step) {
    Step this_step = memory.begin_step({step, 0.02});
    for (int k = 0; k < microbatches; ++k) {
      const Batch batch = drawn_tokens(2, 10 * step + static_cast<unsigned>(k), k == 0 ? 9 : 1);
      out.losses.push_back(program->train(memory, this_step, none, batch, k).read().loss_sum);
    }
    EXPECT_TRUE(std::move(this_step).commit().applied);
  }
  out.bytes = stored_bytes(memory);
  return out;
}
void expect_same_mixture(const TrainedMixture& got, const TrainedMixture& want, const char* what) {
  EXPECT_EQ(got.losses, want.losses) << what;
  EXPECT_TRUE(got.bytes == want.bytes) << what;
}

TEST(ExpertsProgram, ThreadsAndRecomputingChangeNoBit) {
  const MixtureShape shape{.experts = 6};
  MixtureShape again = shape;
  again.recompute = true;
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    CpuDevice one(1), three(3);
    const Policy policy = make_policy("lpmm");
    const TrainedMixture want = train_mixture(shape, policy, one, type);
    expect_same_mixture(train_mixture(shape, policy, three, type), want, "threads");
    expect_same_mixture(train_mixture(again, policy, three, type), want, "recompute");
    MixtureShape alone = again;  // choices that nothing outside of their layer reads
    alone.balance = 0;
    MixtureShape kept = alone;
    kept.recompute = false;
    expect_same_mixture(train_mixture(alone, policy, one, type), train_mixture(kept, policy, one, type),
                        "recompute, no balance");
  }
}

// Gradients of zero move weights that have momentum, whether they are folded or left out.
TEST(ExpertsProgram, AppliedAtOnceHasTheBytesOfAnAccumulator) {
  const MixtureShape shape{.experts = 12};
  Policy policy = make_policy("lpmm-min");
  policy.specs[Role::kAccumulator] = {};
  CpuDevice cpu(2);
  expect_same_mixture(train_mixture(shape, at_once("lpmm-min"), cpu, ValueType::kFp32),
                      train_mixture(shape, policy, cpu, ValueType::kFp32), "at once");
}

// The last microbatch of one token leaves most experts out: their part of the norm is what the first left.
TEST(ExpertsProgram, ClippingCountsExpertsOfEveryMicrobatch) {
  const MixtureShape shape{.experts = 12, .balance = 0};
  CpuDevice cpu(2);
  OptimizerConfig clipped;
  clipped.clip_norm = 1e-3;
  Net net(mixture(shape), 2, ValueType::kFp32, 2, 2, "fp32", clipped);
  net.open.emplace(net.memory->begin_step({.learning_rate = 0}));
  for (int k = 0; k < 2; ++k)
    net.program->train(*net.memory, *net.open, *net.buffers, drawn_tokens(2, 20, k == 0 ? 9 : 1), k);
  double sum = 0;
  for (int t = 0; t < net.memory->tensors(); ++t) sum += dot(net.gradient(t), net.gradient(t));
  EXPECT_NEAR(net.commit().gradient_norm, std::sqrt(sum), 1e-5 * std::sqrt(sum));
}

TEST(ExpertsProgram, TheEmulatedDeviceTrainsTheSame) {
  const MixtureShape shape{.experts = 6};
  CpuDevice cpu(2);
  kernels::EmulatedCuda emulated(2, false);
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    const TrainedMixture want = train_mixture(shape, make_policy("lpmm"), cpu, type, 1, 2),
                         got = train_mixture(shape, make_policy("lpmm"), emulated, type, 1, 2);
    for (std::size_t i = 0; i < want.losses.size(); ++i)
      EXPECT_NEAR(got.losses[i], want.losses[i], 0.01 * want.losses[i]) << i;
  }
}

// Training's loss has it, evaluation's has not.
TEST(ExpertsProgram, TheBalanceIsOfTrainingAlone) {
  Net with(mixture({.balance = 0.5}), 2, ValueType::kFp32, 2),
      without(mixture({.balance = 0}), 2, ValueType::kFp32, 2);
  const Batch batch = drawn_tokens(2, 4);
  const double more = with.run(batch) - without.run(batch);
  EXPECT_GT(more, 0.5 * 2 * 0.9);  // even shares and even probabilities give `chosen`
  EXPECT_LT(more, 0.5 * 4);
  EXPECT_EQ(with.program->evaluate(*with.memory, *with.buffers, batch).loss_sum,
            without.program->evaluate(*without.memory, *without.buffers, batch).loss_sum);
}

}  // namespace
}  // namespace lpmm
