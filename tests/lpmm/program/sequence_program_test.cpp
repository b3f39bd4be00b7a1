// Programs of transformers end to end: gradients of a whole small GPT, its tied and sparse embedding,
// sequences shorter than the context, threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/program/ops/activations.h"
#include "lpmm/program/ops/add.h"
#include "lpmm/program/ops/batch_norm.h"
#include "lpmm/program/ops/convolution.h"
#include "lpmm/program/ops/dropout.h"
#include "lpmm/program/ops/input.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/loss.h"
#include "lpmm/program/ops/row_norm.h"
#include "lpmm/program/ops/sequence/attention.h"
#include "lpmm/program/ops/sequence/embedding.h"
#include "lpmm/program/ops/sequence/sinusoids.h"
#include "lpmm/program/ops/sequence/token_loss.h"
#include "tests/lpmm/memory/net.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

struct Shape {
  int vocabulary, context, length, width, heads, layers;
  double dropout = 0;
  bool recompute = false;
  int window = 0;
  bool is_gated = false;
};

Forward gpt(Shape s) {
  return [s](ProgramBuilder& b) {
    Value x = dropout(b, embedding(b, "wte", {s.vocabulary, s.length, s.width, "wpe", s.context}), s.dropout);
    for (int i = 0; i < s.layers; ++i) {
      const auto layer = [&](Value in) {
        const std::string name = "h" + std::to_string(i);
        Value y = projection(b, name + ".qkv", layer_norm(b, name + ".ln1", in), 3 * s.width, 0.3);
        y = projection(
            b, name + ".out",
            attention(b, y,
                      {.heads = s.heads, .context = s.context, .dropout = s.dropout, .window = s.window}),
            s.width, 0.3);
        const Value middle = add(b, in, dropout(b, y, s.dropout));
        y = activation(b, Activation::kGeluTanh,
                       projection(b, name + ".up", layer_norm(b, name + ".ln2", middle), 2 * s.width, 0.3),
                       s.is_gated);
        return add(b, middle, dropout(b, projection(b, name + ".down", y, s.width, 0.3), s.dropout));
      };
      x = s.recompute ? b.recompute(x, layer) : layer(x);
    }
    tied_token_loss(b, "wte", layer_norm(b, "last", x));
  };
}

Batch random_tokens(int count, Shape s, unsigned seed) {
  std::mt19937 generator(seed);
  Batch batch;
  batch.count = count;
  for (int i = 0; i < count * s.length; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>(generator() % static_cast<unsigned>(s.vocabulary)));
    batch.labels.push_back(static_cast<std::int32_t>(generator() % static_cast<unsigned>(s.vocabulary)));
  }
  return batch;
}

TEST(SequenceProgram, GradientsOfEveryTensorByFiniteDifferences) {
  constexpr Shape kShape{23, 16, 12, 20, 2, 2};
  Net net(gpt(kShape), 8, ValueType::kFp32, 2);
  expect_finite_differences(net, random_tokens(8, kShape, 1));
}

TEST(SequenceProgram, GradientsWithinAWindowAndOfGatesByFiniteDifferences) {
  Shape shape{23, 16, 12, 20, 2, 1};
  shape.window = 5;
  shape.is_gated = true;
  Net net(gpt(shape), 4, ValueType::kFp32, 2);
  expect_finite_differences(net, random_tokens(4, shape, 1));
}

// A source and what is told of it: one embedding for both sides and the output, attention to another value,
// heads of keys that are shared, labels that are not there.
void translator(ProgramBuilder& b) {
  const AttentionConfig attends{.heads = 4, .kv_heads = 2, .context = 6, .is_causal = false};
  const auto side = [&](bool is_source) {
    return add_sinusoids(b,
                         embedding(b, "tokens",
                                   {.vocabulary = 23,
                                    .length = 6,
                                    .width = 20,
                                    .initial = {InitialKind::kNormal, 0.3},
                                    .is_source = is_source,
                                    .is_shared = !is_source}),
                         2.0, is_source);
  };
  const Value source = b.once([&] {
    const Value x = side(true);
    return layer_norm(b, "first", add(b, x, attention(b, projection(b, "self", x, 40, 0.3), attends)));
  });
  const Value x = side(false);
  const Value y =
      cross_attention(b, projection(b, "q", x, 20, 0.3), projection(b, "kv", source, 20, 0.3), attends);
  tied_token_loss(b, "tokens", layer_norm(b, "last", add(b, x, activation(b, Activation::kSilu, y))),
                  {.smoothing = 0.1, .bias = "bias", .may_lack = true});
}

TEST(SequenceProgram, GradientsOfATranslatorByFiniteDifferences) {
  Net net(translator, 4, ValueType::kFp32, 2);
  Batch batch = random_tokens(4, {23, 6, 6, 20, 4, 1}, 3);
  batch.source = random_tokens(4, {23, 6, 6, 20, 4, 1}, 4).tokens;
  batch.lengths = {6, 1, 3, 4};
  for (const std::size_t i : {std::size_t{5}, std::size_t{8}, std::size_t{9}, std::size_t{23}})
    batch.labels[i] = -1;
  batch.step_labels = 20;
  expect_finite_differences(net, batch);
  EXPECT_EQ(net.program->evaluate(*net.memory, *net.buffers, batch).count, 20);
}

// No positions, no biases, an output of its own.
void bare(ProgramBuilder& b) {
  const Value x = embedding(b, "tokens", {.vocabulary = 23, .length = 12, .width = 20});
  const Value y = attention(b, projection(b, "qkv", layer_norm(b, "first", x), 60, 0.3, false),
                            {.heads = 2, .context = 12});
  token_loss(b, "head", layer_norm(b, "last", add(b, x, y)), 23, 0.3);
}

TEST(SequenceProgram, PositionsBiasesAndTheTieMayBeLeftOut) {
  constexpr Shape kShape{23, 12, 12, 20, 2, 1};
  Net net(bare, 8, ValueType::kFp32, 2);
  std::vector<std::string> names;
  for (int t = 0; t < net.memory->tensors(); ++t) names.push_back(net.memory->info(t).name);
  EXPECT_EQ(names, (std::vector<std::string>{"tokens.weight", "first.weight", "first.bias", "qkv.weight",
                                             "last.weight", "last.bias", "head.weight"}));
  expect_finite_differences(net, random_tokens(8, kShape, 1));
  // Positions end nowhere: a text of 24 tokens by two calls of 12.
  Net one(
      [](ProgramBuilder& b) {
        token_loss(
            b, "head",
            layer_norm(b, "last", embedding(b, "tokens", {.vocabulary = 23, .length = 12, .width = 20})), 23,
            0.3);
      },
      1, ValueType::kFp32, 1);
  ProgramBuilder builder(1, ValueType::kFp32, one.device, 12);
  const Value x = embedding(builder, "tokens", {.vocabulary = 23, .length = 12, .width = 20});
  token_loss(builder, "head", layer_norm(builder, "last", x), 23, 0.3);
  const auto program = builder.finish();
  const std::vector<std::int32_t> tokens(12, 3);
  Inference state;
  program->infer(*one.memory, tokens, state);
  const Floats first = state.logits;
  program->infer(*one.memory, tokens, state);
  EXPECT_EQ(state.logits, first);
  EXPECT_EQ(state.position, 24);
}

// A tied weight has two contributions, of which one is the last; another one has a single one.
TEST(SequenceProgram, TheNormCountsSharedWeightsOnce) {
  constexpr Shape kShape{23, 12, 12, 20, 2, 1};
  OptimizerConfig clipped;
  clipped.clip_norm = 1e-3;
  for (const Forward& forward : {Forward(gpt(kShape)), Forward(bare)}) {
    Net net(forward, 8, ValueType::kFp32, 2, 1, "fp32", clipped);
    net.run(random_tokens(8, kShape, 1));
    double sum = 0;
    for (int t = 0; t < net.memory->tensors(); ++t) sum += dot(net.gradient(t), net.gradient(t));
    EXPECT_NEAR(net.commit().gradient_norm, std::sqrt(sum), 1e-5 * std::sqrt(sum));
  }
}

TEST(SequenceProgram, RefusesLabelsThatAreNone) {
  constexpr Shape kShape{23, 16, 12, 20, 2, 1};
  Net net(gpt(kShape), 2, ValueType::kFp32, 1);
  Batch batch = random_tokens(2, kShape, 1);
  for (const std::int32_t wrong : {-1, 23}) {
    Batch lies = batch;
    lies.labels[17] = wrong;
    EXPECT_THROW(net.program->evaluate(*net.memory, *net.buffers, lies), RunError) << wrong;
  }
  batch.labels.pop_back();
  EXPECT_THROW(net.program->evaluate(*net.memory, *net.buffers, batch), RunError);
}

// An embedding that takes 16 MB is only ever unpacked in pieces.
TEST(SequenceProgram, SaysItsLargestTransient) {
  constexpr Shape kShape{65536, 64, 16, 64, 2, 1};
  CpuDevice device(1);
  ProgramBuilder builder(2, ValueType::kFp32, device);
  gpt(kShape)(builder);
  const auto program = builder.finish();
  EXPECT_GE(program->largest_transient_bytes(), 4 << 20);
  EXPECT_LE(program->largest_transient_bytes(), (4 << 20) + 4 * 2 * kernels::kTile);
  EXPECT_LE(program->largest_transient_bytes(), program->workspace_bytes());
}

// Ops that write the gradient of what they read can follow the program's input.
TEST(SequenceProgram, AnyOpMayComeFirst) {
  Net net(
      [](ProgramBuilder& b) {
        Value x = activation(b, Activation::kGeluTanh, layer_norm(b, "ln", input(b, 1, 6, 12)));
        loss(b, linear(b, "head", attention(b, x, {.heads = 2, .context = 6}), 5, false), 0);
      },
      4, ValueType::kFp32, 1);
  Batch batch;
  batch.count = 4;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 4 * 6 * 12; ++i) batch.images.push_back(normal(generator));
  for (int i = 0; i < 4; ++i) batch.labels.push_back(i);
  expect_finite_differences(net, batch);
}

TEST(SequenceProgram, Bf16GradientsPointTheSameWay) {
  constexpr Shape kShape{31, 24, 24, 32, 4, 2};
  Net exact(gpt(kShape), 8, ValueType::kFp32, 2), rough(gpt(kShape), 8, ValueType::kBf16, 2);
  const Batch batch = random_tokens(8, kShape, 2);
  EXPECT_NEAR(exact.run(batch), rough.run(batch), 0.02);
  for (int t = 0; t < exact.memory->tensors(); ++t) {
    const Floats a = exact.gradient(t), b = rough.gradient(t);
    EXPECT_GT(dot(a, b) / (norm(a) * norm(b)), 0.98) << exact.memory->info(t).name;
    EXPECT_NEAR(norm(b) / norm(a), 1, 0.1) << exact.memory->info(t).name;
  }
}

// Few tokens of a large vocabulary, rows that share blocks, straddle them and span windows: the embedding's
// gradient is that of a whole matrix.
TEST(SequenceProgram, SparseRowsGiveTheWholeGradient) {
  for (const int width : {20, 48, 128, 300}) {
    for (const char* preset : {"fp32", "lpmm"}) {
      if (kSanitized && width > 48) continue;
      SCOPED_TRACE(std::to_string(width) + preset);
      const Shape shape{5000, 8, 8, width, 2, 0};
      Net net(gpt(shape), 6, ValueType::kFp32, 2, 1, preset);
      Batch batch = random_tokens(6, shape, 3);
      for (std::size_t i = 0; i < 8; ++i) batch.tokens[i] = static_cast<std::int32_t>(i);  // neighbours
      batch.tokens[9] = batch.tokens[17] = batch.tokens[33] = 4999;                        // the last row
      net.run(batch);
      const Floats got = net.gradient(0);
      // The same is computed by hand, in double: logits = normed x E^T.
      const Floats e = net.parameter(0), p = net.parameter(1), w = net.parameter(2), bias = net.parameter(3);
      const auto n = static_cast<std::size_t>(width);
      std::vector<double> want(e.size(), 0.0);
      for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
        std::vector<double> x(n), g(n, 0.0), normed(n);
        double mean = 0, variance = 0;
        for (std::size_t c = 0; c < n; ++c) {
          x[c] = e[static_cast<std::size_t>(batch.tokens[i]) * n + c] + p[i % 8 * n + c];
          mean += x[c] / width;
        }
        for (const double v : x) variance += (v - mean) * (v - mean) / width;
        const double inverse = 1 / std::sqrt(variance + 1e-5);
        for (std::size_t c = 0; c < n; ++c) normed[c] = (x[c] - mean) * inverse * w[c] + bias[c];
        std::vector<double> q(5000);
        double sum = 0;
        for (std::size_t v = 0; v < q.size(); ++v) {
          double logit = 0;
          for (std::size_t c = 0; c < n; ++c) logit += normed[c] * e[v * n + c];
          sum += q[v] = std::exp(logit);
        }
        for (std::size_t v = 0; v < q.size(); ++v) {
          const double d = (q[v] / sum - (static_cast<std::int32_t>(v) == batch.labels[i] ? 1 : 0)) /
                           static_cast<double>(batch.tokens.size());
          for (std::size_t c = 0; c < n; ++c) {
            want[v * n + c] += d * normed[c];
            g[c] += d * e[v * n + c];
          }
        }
        double g_mean = 0, gn_mean = 0;
        for (std::size_t c = 0; c < n; ++c) {
          g_mean += g[c] * w[c] / width;
          gn_mean += g[c] * w[c] * (x[c] - mean) * inverse / width;
        }
        for (std::size_t c = 0; c < n; ++c) {
          want[static_cast<std::size_t>(batch.tokens[i]) * n + c] +=
              inverse * (g[c] * w[c] - g_mean - (x[c] - mean) * inverse * gn_mean);
        }
      }
      double error = 0, whole = 0;
      for (std::size_t i = 0; i < want.size(); ++i) {
        error += (got[i] - want[i]) * (got[i] - want[i]);
        whole += want[i] * want[i];
      }
      // int8 accumulators with two contributions: a few parts in a hundred.
      EXPECT_LT(std::sqrt(error / whole), std::string(preset) == "fp32" ? 1e-5 : 0.05);
    }
  }
}

// Frozen weights take no gradient, and every other tensor's is the same to the bit.
TEST(SequenceProgram, FrozenWeightsLeaveTheOtherGradientsAlone) {
  constexpr Shape kShape{40, 16, 16, 24, 2, 2};
  OptimizerConfig frozen;
  frozen.groups = {{.pattern = "wte*", .frozen = true}, {.pattern = "h0.up.weight", .frozen = true}};
  Net all(gpt(kShape), 3, ValueType::kFp32, 2), some(gpt(kShape), 3, ValueType::kFp32, 2, 1, "fp32", frozen);
  const Batch batch = random_tokens(3, kShape, 9);
  EXPECT_EQ(all.run(batch), some.run(batch));
  int held = 0;
  for (int t = 0; t < all.memory->tensors(); ++t) {
    if (some.memory->is_frozen(t)) {
      ++held;
    } else {
      EXPECT_EQ(all.gradient(t), some.gradient(t)) << all.memory->info(t).name;
    }
  }
  EXPECT_EQ(held, 2);
}

TEST(SequenceProgram, ATokenPastTheVocabularyIsAnError) {
  constexpr Shape kShape{23, 16, 12, 20, 2, 1};
  Net net(gpt(kShape), 2, ValueType::kFp32, 1);
  Batch batch = random_tokens(2, kShape, 4);
  batch.tokens[5] = 23;
  try {
    net.run(batch);
    FAIL();
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("token 23"), std::string::npos) << e.what();
  }
}

// A last batch with fewer sequences has the loss of those alone.
TEST(SequenceProgram, AShortBatchEvaluatesAlone) {
  constexpr Shape kShape{23, 16, 12, 20, 2, 1};
  Net four(gpt(kShape), 4, ValueType::kFp32, 2), one(gpt(kShape), 1, ValueType::kFp32, 2);
  const Batch batch = random_tokens(1, kShape, 5);
  const BatchResult a = four.program->evaluate(*four.memory, *four.buffers, batch),
                    b = one.program->evaluate(*one.memory, *one.buffers, batch);
  EXPECT_EQ(a.count, 12);
  EXPECT_NEAR(a.loss_sum, b.loss_sum, 1e-4);
  EXPECT_EQ(a.correct, b.correct);
}

// The logits of a text are the same in one call, token by token, and in pieces of any size, and they give the
// loss that evaluation gives.
TEST(SequenceProgram, CachedInferenceIsThatOfTheWholeText) {
  constexpr Shape kShape{50, 300, 280, 24, 3, 2};
  for (const ValueType compute : {ValueType::kFp32, ValueType::kBf16}) {
    Net net(gpt(kShape), 1, compute, 2, 1, "lpmm");
    Batch batch = random_tokens(1, kShape, 6);
    const auto logits = [&](std::vector<int> pieces) {
      Inference state;
      state.all = true;
      Floats all;
      std::size_t at = 0;
      for (const int n : pieces) {
        ProgramBuilder builder(1, compute, net.device, n);
        gpt(kShape)(builder);
        builder.finish()->infer(*net.memory, std::span(batch.tokens).subspan(at, static_cast<std::size_t>(n)),
                                state);
        all.insert(all.end(), state.logits.begin(), state.logits.end());
        at += static_cast<std::size_t>(n);
      }
      EXPECT_EQ(state.position, 280);
      return all;
    };
    const Floats whole = logits({280});
    const double tolerance = compute == ValueType::kFp32 ? 1e-4 : 0.1;
    for (const std::vector<int>& pieces :
         {std::vector<int>{1, 279}, {127, 1, 1, 1, 150}, {100, 100, 80}, std::vector<int>(280, 1)}) {
      const Floats parts = logits(pieces);
      ASSERT_EQ(parts.size(), whole.size());
      double worst = 0;
      for (std::size_t i = 0; i < whole.size(); ++i)
        worst = std::max<double>(worst, std::abs(parts[i] - whole[i]));
      EXPECT_LT(worst, tolerance);
    }
    double loss = 0;
    for (std::size_t t = 0; t < 280; ++t) {
      double sum = 0;
      for (std::size_t v = 0; v < 50; ++v) sum += std::exp(static_cast<double>(whole[t * 50 + v]));
      loss += std::log(sum) - whole[t * 50 + static_cast<std::size_t>(batch.labels[t])];
    }
    EXPECT_NEAR(net.program->evaluate(*net.memory, *net.buffers, batch).loss_sum, loss, 280 * tolerance / 10);
  }
}

TEST(SequenceProgram, InferencePastTheContextIsAnError) {
  constexpr Shape kShape{50, 20, 20, 24, 3, 1};
  Net net(gpt(kShape), 1, ValueType::kFp32, 1);
  ProgramBuilder builder(1, ValueType::kFp32, net.device, 12);
  gpt(kShape)(builder);
  const auto program = builder.finish();
  const std::vector<std::int32_t> tokens(12, 3);
  Inference state;
  program->infer(*net.memory, tokens, state);
  EXPECT_THROW(program->infer(*net.memory, tokens, state), RunError);
}

// Losses and parameters of three steps of two microbatches with everything packed.
std::vector<Floats> short_run(Shape shape, int threads) {
  Net net(gpt(shape), 3, ValueType::kBf16, threads, 2, "lpmm-compact");
  std::vector<Floats> all;
  for (std::uint32_t step = 1; step <= 3; ++step) {
    Step this_step = net.memory->begin_step({step, 0.01});
    for (int m = 0; m < 2; ++m) {
      const Batch batch = random_tokens(3, shape, step * 2 + static_cast<unsigned>(m));
      all.push_back({static_cast<float>(
          net.program->train(*net.memory, this_step, *net.buffers, batch, m).read().loss_sum)});
    }
    EXPECT_TRUE(std::move(this_step).commit().applied);
  }
  for (int t = 0; t < net.memory->tensors(); ++t) all.push_back(net.parameter(t));
  return all;
}

constexpr Shape kSmall{300, 32, 32, 48, 3, 3};

TEST(SequenceProgram, SameBitsForAnyNumberOfThreads) {
  Shape shape = kSmall;
  shape.dropout = 0.2;
  const std::vector<Floats> one = short_run(shape, 1);
  EXPECT_EQ(one, short_run(shape, 2));
  EXPECT_EQ(one, short_run(shape, 3));
}

// Layers that are computed again give the same bits, dropout included, in less memory.
TEST(SequenceProgram, RecomputingChangesNoBit) {
  for (const double dropout : {0.0, 0.3}) {
    Shape kept = kSmall, again = kSmall;
    kept.dropout = again.dropout = dropout;
    again.recompute = true;
    EXPECT_EQ(short_run(kept, 2), short_run(again, 2)) << dropout;
    kept.layers = again.layers = 8;
    const Net a(gpt(kept), 4, ValueType::kBf16, 1), b(gpt(again), 4, ValueType::kBf16, 1);
    EXPECT_LT(b.program->activation_bytes(), a.program->activation_bytes() / 3);
  }
}

TEST(SequenceProgram, WhatCountsIsNotRecomputed) {
  CpuDevice device(1);
  ProgramBuilder b(2, ValueType::kFp32, device);
  const Value x = input(b, 8, 8, 3);
  EXPECT_THROW(
      b.recompute(x, [&](Value in) { return batch_norm(b, "bn", convolution(b, "c", in, 4, 3, 1), true); }),
      std::logic_error);
}

// Evaluation drops nothing; training drops something else in every step and microbatch.
TEST(SequenceProgram, DropoutIsForTrainingAlone) {
  Shape with = kSmall;
  with.dropout = 0.5;
  Net plain(gpt(kSmall), 2, ValueType::kFp32, 2), dropping(gpt(with), 2, ValueType::kFp32, 2, 2);
  const Batch batch = random_tokens(2, kSmall, 8);
  EXPECT_EQ(plain.program->evaluate(*plain.memory, *plain.buffers, batch).loss_sum,
            dropping.program->evaluate(*dropping.memory, *dropping.buffers, batch).loss_sum);
  std::vector<double> losses;
  for (std::uint32_t step = 1; step <= 2; ++step) {
    Step this_step = dropping.memory->begin_step({step, 0});
    for (int m = 0; m < 2; ++m) {
      losses.push_back(
          dropping.program->train(*dropping.memory, this_step, *dropping.buffers, batch, m).read().loss_sum);
    }
    std::move(this_step).commit();
  }
  std::sort(losses.begin(), losses.end());
  EXPECT_EQ(std::unique(losses.begin(), losses.end()) - losses.begin(), 4);
}

}  // namespace
}  // namespace lpmm
