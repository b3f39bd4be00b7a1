// A bias of attention by distances, windows to both sides and norms without biases in a whole program.
#include "lpmm/program/ops/sequence/relative_bias.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "lpmm/program/ops/add.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/row_norm.h"
#include "lpmm/program/ops/sequence/attention.h"
#include "lpmm/program/ops/sequence/embedding.h"
#include "lpmm/program/ops/sequence/token_loss.h"
#include "tests/lpmm/memory/net.h"

namespace lpmm {
namespace {

// As transformers' MPNetEncoder.relative_position_bucket has them.
TEST(RelativeBias, RowsAreThoseOfTransformers) {
  const std::map<std::int64_t, int> want{{0, 0},   {-1, 1},   {-7, 7},   {-8, 8},   {-11, 8},    {-12, 9},
                                         {-15, 9}, {-16, 10}, {-90, 14}, {-91, 15}, {-5000, 15}, {1, 17},
                                         {7, 23},  {8, 24},   {22, 26},  {23, 27},  {31, 27},    {32, 28},
                                         {45, 28}, {46, 29},  {63, 29},  {64, 30},  {90, 30},    {91, 31}};
  std::map<std::int64_t, int> got;
  for (const auto& [distance, row] : want) got[distance] = bias_row(distance);
  EXPECT_EQ(got, want);
  std::set<int> all;
  for (std::int64_t distance = -100; distance <= 100; ++distance) all.insert(bias_row(distance));
  EXPECT_EQ(all.size(), 31U);  // no distance is of row 16
}

constexpr int kTokens = 24;
Forward encoder(bool recompute) {
  return [recompute](ProgramBuilder& b) {
    Value x = embedding(b, "tokens", {.vocabulary = 23, .length = kTokens, .width = 12});
    const Value bias = relative_bias(b, "bias", 2, kTokens);
    for (int i = 0; i < 3; ++i) {
      const auto layer = [&](Value in) {
        const std::string name = "h" + std::to_string(i);
        const Value y = projection(b, name + ".qkv", layer_norm(b, name + ".norm", in, 1e-5, false), 36, 0.3);
        AttentionConfig attends{.heads = 2, .is_causal = false, .window = i == 1 ? 4 : 0};
        if (i != 1) attends.bias = bias;
        return add(b, in, projection(b, name + ".out", attention(b, y, attends), 12, 0.3));
      };
      x = recompute ? b.recompute(x, layer) : layer(x);
    }
    token_loss(b, "head", layer_norm(b, "last", x), 23, 0.3, {.may_lack = true});
  };
}

Batch sentences() {
  std::mt19937 generator(1);
  Batch batch;
  batch.count = 3;
  batch.lengths = {kTokens, 3, 17};
  for (const std::int32_t length : batch.lengths) {
    for (int t = 0; t < kTokens; ++t) {
      batch.tokens.push_back(static_cast<std::int32_t>(generator() % 23));
      const auto label = static_cast<std::int32_t>(generator() % 23);
      batch.labels.push_back(t < length ? label : -1);
      batch.step_labels += t < length ? 1 : 0;
    }
  }
  return batch;
}

TEST(RelativeBias, GradientsByFiniteDifferences) {
  Net net(encoder(false), 3, ValueType::kFp32, 2);
  expect_finite_differences(net, sentences());
}

// However many threads there are, and where layers are computed again.
TEST(RelativeBias, GradientsAreTheSameBits) {
  const auto gradients = [](bool recompute, int threads) {
    Net net(encoder(recompute), 3, ValueType::kFp32, threads);
    net.run(sentences());
    std::vector<Floats> all;
    for (int t = 0; t < net.memory->tensors(); ++t) all.push_back(net.gradient(t));
    return all;
  };
  const auto want = gradients(false, 1);
  EXPECT_EQ(gradients(false, 3), want);
  EXPECT_EQ(gradients(true, 2), want);
}

}  // namespace
}  // namespace lpmm
