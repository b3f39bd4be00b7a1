// Gradients without an accumulator, through whole programs: what several ops share is gathered, what a batch
// does not touch is moved by zeros, and the bytes are those of an accumulator in fp32.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/base/error.h"
#include "lpmm/program/forward_model.h"
#include "lpmm/program/ops/activations.h"
#include "lpmm/program/ops/add.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/row_norm.h"
#include "lpmm/program/ops/sequence/attention.h"
#include "lpmm/program/ops/sequence/embedding.h"
#include "lpmm/program/ops/sequence/positions.h"
#include "lpmm/program/ops/sequence/token_loss.h"
#include "lpmm/program/ops/sequence/types.h"
#include "tests/lpmm/memory/at_once_policy.h"
#include "tests/lpmm/memory/stored_bytes.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

constexpr int kVocabulary = 523, kLength = 12, kWidth = 20, kBatch = 4;

// Panels and windows of a few rows, so that they end within rows, blocks and tiles.
class SmallPanels : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  PanelSizes panel_sizes() const override { return {std::int64_t{1} << 13, std::int64_t{1} << 13, 1}; }
};

EmbeddingShape shape(bool is_source = false, bool is_shared = false) {
  return {.vocabulary = kVocabulary,
          .length = kLength,
          .width = kWidth,
          .initial = {InitialKind::kNormal, 0.3},
          .is_source = is_source,
          .is_shared = is_shared};
}
Value block(ProgramBuilder& b, Value x, const std::string& name = "block") {
  const Value y =
      attention(b, projection(b, name + ".qkv", layer_norm(b, name + ".first", x), 3 * kWidth, 0.3),
                {.heads = 2, .context = kLength});
  const Value wide = activation(b, Activation::kGeluTanh, projection(b, name + ".up", y, 8 * kWidth, 0.3));
  return layer_norm(b, name + ".last", add(b, x, projection(b, name + ".down", wide, kWidth, 0.3)));
}

// A GPT: positions of which a text uses a few.
void gpt(ProgramBuilder& b) {
  EmbeddingShape tokens = shape();
  tokens.positions = "wpe";
  tokens.context = 700;
  tied_token_loss(b, "wte", block(b, embedding(b, "wte", tokens)));
}
// One matrix for the source, what is told of it and the output, whose logits have a bias.
void tied_translator(ProgramBuilder& b) {
  const Value source =
      b.once([&] { return block(b, block(b, embedding(b, "tokens", shape(true)), "one"), "two"); });
  const Value x = embedding(b, "tokens", shape(false, true));
  const Value y =
      cross_attention(b, projection(b, "q", x, kWidth, 0.3), projection(b, "kv", source, 2 * kWidth, 0.3),
                      {.heads = 2, .context = kLength, .is_causal = false});
  tied_token_loss(b, "tokens", layer_norm(b, "last", add(b, x, y)),
                  {.smoothing = 0.1, .bias = "bias", .may_lack = true});
}
// An output of its own; tables of positions and of kinds of sentences.
void untied(ProgramBuilder& b) {
  const Value x =
      add_types(b, "types", add_positions(b, "wpe", embedding(b, "tokens", shape()), {700, kWidth}), 2);
  token_loss(b, "head", block(b, x), kVocabulary, 0.3);
}

// Tokens of a few words of the vocabulary, so that most of its rows are touched by none.
Batch drawn_batch(unsigned seed) {
  std::mt19937 generator(seed);
  const auto token = [&] { return static_cast<std::int32_t>(generator() % 40 * 13); };
  Batch batch;
  batch.count = kBatch;
  batch.step_labels = kBatch * kLength;
  batch.lengths.assign(kBatch, kLength);
  for (int i = 0; i < kBatch * kLength; ++i) {
    batch.tokens.push_back(token());
    batch.source.push_back(token());
    batch.labels.push_back(token());
    batch.types.push_back(static_cast<std::int32_t>(generator() % 2));
  }
  return batch;
}

OptimizerConfig adamw() {
  OptimizerConfig o;
  o.rule = "adamw";
  o.weight_decay = 0.1;
  return o;
}
Policy with_fp32_accumulator(std::string_view preset) {
  Policy policy = make_policy(preset);
  policy.specs[Role::kAccumulator] = {};
  return policy;
}

struct Trained {
  Bytes bytes;
  std::int64_t accumulator_bytes;
  std::vector<double> losses;
};
Trained train(const Forward& forward, const Policy& policy, const OptimizerConfig& optimizer, Device& device,
              ValueType compute) {
  const auto model = make_forward_model({{0, forward}}, true, false, policy.apply_at_once);
  ModelMemory memory(model->tensors(), policy, optimizer, 1, 1, device);
  model->initialize(memory, 1, {});
  Buffers none({}, device);
  const auto program = model->build(kBatch, compute, device);
  Trained out;
  for (int step = 1; step <= 2; ++step) {
    const double rate = 1e-2 * step;
    Step this_step = memory.begin_step({static_cast<std::uint32_t>(step), rate});
    const PendingLoss loss =
        program->train(memory, this_step, none, drawn_batch(static_cast<unsigned>(step)), 0);
    EXPECT_TRUE(std::move(this_step).commit().applied);
    out.losses.push_back(loss.read().loss_sum);
  }
  out.bytes = stored_bytes(memory);
  out.accumulator_bytes = memory.ledger().role_bytes(Role::kAccumulator);
  return out;
}

void expect_bytes_of_an_accumulator(const Forward& forward, std::string_view preset,
                                    const OptimizerConfig& optimizer = adamw()) {
  SCOPED_TRACE(preset);
  CpuDevice one(1), three(3);
  SmallPanels small(2);
  kernels::EmulatedCuda emulated(2, false);
  const auto expect_same = [&](Device& device, ValueType compute) {
    const Trained want = train(forward, with_fp32_accumulator(preset), optimizer, device, compute);
    const Trained got = train(forward, at_once(preset), optimizer, device, compute);
    EXPECT_EQ(got.accumulator_bytes, 0);
    EXPECT_GT(want.accumulator_bytes, 0);
    EXPECT_EQ(got.losses, want.losses);
    EXPECT_TRUE(got.bytes == want.bytes);
  };
  expect_same(small, ValueType::kFp32);
  expect_same(three, ValueType::kBf16);
  if (kSanitized) return;  // it saw gradients in parts and whole
  expect_same(one, ValueType::kFp32);
  expect_same(emulated, ValueType::kBf16);
}

TEST(GatheredGradient, OfATiedEmbeddingHasTheBytesOfAnAccumulator) {
  for (const char* preset : {"fp32", "lpmm", "lpmm-min", "lpmm-nano"})
    expect_bytes_of_an_accumulator(gpt, preset);
}
TEST(GatheredGradient, OfThreeUsesHasTheBytesOfAnAccumulator) {
  for (const char* preset : {"fp32", "lpmm", "lpmm-nano"})
    expect_bytes_of_an_accumulator(tied_translator, preset);
}
TEST(GatheredGradient, RowsThatNoTokenTouchesDecayAllTheSame) {
  for (const char* preset : {"lpmm", "lpmm-nano"}) expect_bytes_of_an_accumulator(untied, preset);
}

TEST(GatheredGradient, WhatIsFrozenStays) {
  for (const char* pattern : {"wte.weight", "tokens.weight", "bias", "wpe.weight"}) {
    SCOPED_TRACE(pattern);
    OptimizerConfig optimizer = adamw();
    optimizer.groups = {{.pattern = pattern, .frozen = true}};
    for (const Forward& forward : {Forward(gpt), Forward(tied_translator), Forward(untied)}) {
      ProgramBuilder declaring;
      forward(declaring);
      const auto& tensors = declaring.tensors();
      if (std::none_of(tensors.begin(), tensors.end(),
                       [&](const TensorInfo& t) { return t.name == pattern; })) {
        continue;
      }
      expect_bytes_of_an_accumulator(forward, "lpmm-min", optimizer);
    }
  }
}

TEST(GatheredGradient, IsOfEmbeddingsAndOneOutputOnly) {
  const auto declare = [](const auto& forward) {
    ProgramBuilder b;
    b.gather_gradients();
    forward(b);
  };
  const auto twice = [](ProgramBuilder& b) {
    const Value x = embedding(b, "tokens", shape());
    tied_token_loss(b, "tokens", x);
    tied_token_loss(b, "tokens", x);
  };
  EXPECT_NO_THROW(declare(tied_translator));
  EXPECT_THROW(declare(twice), std::logic_error);
}

TEST(GatheredGradient, EachElementComesOncePerStep) {
  CpuDevice device(1);
  const auto step = [&](const std::vector<std::int64_t>& ranges) {
    ModelMemory memory({{"a.weight", {6, 64}}}, at_once("lpmm-min"), adamw(), 1, 1, device);
    Step this_step = memory.begin_step({1, 1e-3});
    for (const std::int64_t first : ranges) this_step.fold(0, first, std::vector<float>(128, 1.0F), 0);
    std::move(this_step).commit();
  };
  const std::vector<std::vector<std::int64_t>> whole = {
      {0, 128, 256}, {256, 128, 0}, {0, 256, 128}, {128, 0, 256}};
  for (const auto& ranges : whole) EXPECT_NO_THROW(step(ranges)) << testing::PrintToString(ranges);
  const std::vector<std::vector<std::int64_t>> other = {
      {}, {0}, {128, 256}, {0, 256}, {0, 128, 128}, {0, 0, 256}, {256, 0, 128, 0}};
  for (const auto& ranges : other) EXPECT_THROW(step(ranges), UsageError) << testing::PrintToString(ranges);
  // A range that comes twice is not applied twice: some or all of its 256 elements had their update.
  for (const std::int64_t first : {0, 128, 256}) {
    ModelMemory memory({{"a.weight", {8, 64}}}, at_once("lpmm-min"), adamw(), 1, 1, device);
    Step this_step = memory.begin_step({1, 1e-3});
    this_step.fold(0, 128, std::vector<float>(256, 1.0F), 0);
    const Bytes before = stored_bytes(memory);
    EXPECT_THROW(this_step.fold(0, first, std::vector<float>(256, 1.0F), 0), UsageError) << first;
    EXPECT_TRUE(stored_bytes(memory) == before) << first;
  }
}

}  // namespace
}  // namespace lpmm
