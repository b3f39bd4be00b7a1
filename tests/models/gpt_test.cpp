#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <span>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/program/family.h"
#include "lpmm/run/setup.h"
#include "models/families.h"
#include "tests/lpmm/memory/net.h"
#include "tests/models/parameters.h"

namespace lpmm {
namespace {

// The published sizes: Radford et al. 2019 with the output tied to the embedding.
TEST(Gpt, ParameterCounts) {
  const std::map<std::string, std::int64_t> counts = {
      {"gpt2", 124439808}, {"gpt2-medium", 354823168}, {"gpt2-large", 774030080}, {"gpt2-xl", 1557611200}};
  for (const auto& [name, count] : counts)
    EXPECT_EQ(parameters(*make_model(families().config(name))), count) << name;
}

TEST(Gpt, NamesAndShapes) {
  const auto model = make_model(families().config("gpt2"));
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const TensorInfo& t : model->tensors()) shapes[t.name] = t.shape;
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shapes.size(), 12U * 12 + 4);
  EXPECT_EQ(shapes.at("wte.weight"), (Shape{50257, 768}));
  EXPECT_EQ(shapes.at("wpe.weight"), (Shape{1024, 768}));
  EXPECT_EQ(shapes.at("h.11.ln_1.bias"), (Shape{768}));
  EXPECT_EQ(shapes.at("h.0.attn.c_attn.weight"), (Shape{2304, 768}));
  EXPECT_EQ(shapes.at("h.0.attn.c_proj.weight"), (Shape{768, 768}));
  EXPECT_EQ(shapes.at("h.0.mlp.c_fc.weight"), (Shape{3072, 768}));
  EXPECT_EQ(shapes.at("h.0.mlp.c_proj.weight"), (Shape{768, 3072}));
  EXPECT_EQ(shapes.at("ln_f.weight"), (Shape{768}));
  EXPECT_TRUE(model->buffers().empty());
  for (const TensorInfo& t : model->tensors()) {
    EXPECT_EQ(t.kind == TensorKind::kEmbedding, t.name == "wte.weight" || t.name == "wpe.weight") << t.name;
    EXPECT_NE(t.kind, TensorKind::kHead) << "it is tied to the embedding";
    EXPECT_EQ(t.parts, t.name.find("c_attn.weight") != std::string::npos ? 3 : 1) << t.name;
    EXPECT_EQ(t.heads, t.name.find("c_attn.weight") != std::string::npos ? 12 : 0) << t.name;
  }
}

// Its gradient comes in two parts, which are gathered; or added up in an accumulator that an override gives.
TEST(Gpt, WithoutAccumulatorsTheTiedEmbeddingHasNone) {
  RunConfig config;
  config.model = families().config("gpt2");
  config.optimizer.rule = "adamw";
  config.policy = make_policy("lpmm-min");
  const auto accumulators = [&] {
    const auto model = make_model(config);
    return memory_ledger(model->tensors(), config.policy, config.optimizer).role_bytes(Role::kAccumulator);
  };
  EXPECT_GT(accumulators(), 124439808 / 2);
  config.policy.apply_at_once = true;
  EXPECT_EQ(accumulators(), 0);
  PolicyOverride tied;
  tied.pattern = "wte.*";
  tied.specs[Role::kAccumulator] = parse_spec("int8:block128:sr");
  config.policy.overrides = {tied};
  EXPECT_EQ(accumulators(), 50257 * 768 + 2 * (50257 * 768 / 128));
}

ModelConfig small_stable() {
  ModelConfig c = families().config("gpt");
  for (const auto& [key, value] : {std::pair{"layers", 1}, {"heads", 2}, {"embedding", 16}})
    c.set(key, value);
  c.set(kContext, 24);
  c.set(kVocabulary, 50);
  c.set("stable_embedding", true);
  return complete(c);
}
Net stable_net(const ModelConfig& c, int batch, ValueType compute = ValueType::kFp32) {
  return Net([c](ProgramBuilder& b) { families().find("gpt").forward(b, c); }, batch, compute, 2);
}
Batch tokens_of(const ModelConfig& c, int count) {
  std::mt19937 generator(3);
  Batch batch;
  batch.count = count;
  const auto vocabulary = static_cast<unsigned>(c.integer(kVocabulary));
  for (int i = 0; i < count * c.length; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>(generator() % vocabulary));
    batch.labels.push_back(static_cast<std::int32_t>(generator() % vocabulary));
  }
  return batch;
}

// The stable embedding adds a norm, by which the embedding's rows do not enter as they are.
TEST(Gpt, StableEmbeddingHasANormEvenRowsAndStatesInFp32) {
  const ModelConfig c = small_stable();
  ModelConfig plain = c;
  plain.set("stable_embedding", false);
  const auto model = make_model(c);
  EXPECT_EQ(parameters(*model), parameters(*make_model(plain)) + 2 * 16);
  const std::vector<TensorInfo>& tensors = model->tensors();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 5; ++i) names.push_back(tensors[i].name);
  EXPECT_EQ(names, (std::vector<std::string>{"wte.weight", "ln_wte.weight", "ln_wte.bias", "wpe.weight",
                                             "h.0.ln_1.weight"}));
  for (const TensorInfo& t : tensors) {
    EXPECT_EQ(t.fp32_states, t.name == "wte.weight") << t.name;
    EXPECT_EQ(t.kind == TensorKind::kEmbedding, t.name == "wte.weight" || t.name == "wpe.weight") << t.name;
  }

  CpuDevice device(2);
  ModelMemory memory(tensors, make_policy("lpmm-min"), {.rule = "adamw"}, 1, 1, device);
  model->initialize(memory, 7, {});
  std::vector<float> rows(50 * 16), gain(16), bias(16);
  ModelMemory exact(tensors, make_policy("fp32"), {.rule = "adamw"}, 1, 1, device);
  model->initialize(exact, 7, {});
  exact.read(0, 0, rows), exact.read(1, 0, gain), exact.read(2, 0, bias);
  const double bound = std::sqrt(6.0 / (50 + 16));
  double square = 0, largest = 0;
  for (const float x : rows) square += double{x} * x, largest = std::max(largest, std::abs(double{x}));
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.99 * bound);
  EXPECT_NEAR(std::sqrt(square / 800), bound / std::sqrt(3.0), 0.05 * bound);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_TRUE(gain[i] == 1 && bias[i] == 0);

  EXPECT_EQ(to_string(memory.view(0, Role::kParameter).codec), "int8:block128:sr:sticky");
  EXPECT_EQ(to_string(memory.view(0, Role::kMomentum).codec), "fp32");
  EXPECT_EQ(to_string(memory.view(0, Role::kVariance).codec), "fp32");
  EXPECT_EQ(to_string(memory.view(3, Role::kVariance).codec), "sqrt04:block128:ar:sticky");
  const Ledger planned = memory_ledger(tensors, memory.policy(), memory.optimizer());
  EXPECT_EQ(planned.role_codes, memory.ledger().role_codes);
  Policy narrow = make_policy("lpmm-min");
  narrow.overrides.push_back({"wte.*", {}, false});
  narrow.overrides[0].specs[Role::kMomentum] = parse_spec("int8");
  const std::int64_t saved = planned.role_codes[Role::kMomentum] -
                             memory_ledger(tensors, narrow, memory.optimizer()).role_codes[Role::kMomentum];
  EXPECT_EQ(saved, 800 * 4 - code_bytes({Map::kLinear, 8}, 800));
}

TEST(Gpt, GradientsOfTheStableEmbeddingByFiniteDifferences) {
  const ModelConfig c = small_stable();
  Net net = stable_net(c, 6);
  expect_finite_differences(net, tokens_of(c, 6));
}

TEST(Gpt, TheStableEmbeddingReadsATextByPiecesAsAWhole) {
  const ModelConfig c = small_stable();
  for (const ValueType compute : {ValueType::kFp32, ValueType::kBf16}) {
    Net net = stable_net(c, 1, compute);
    const auto model = make_model(c);
    const Batch batch = tokens_of(c, 1);
    const auto logits = [&](std::vector<int> pieces) {
      Inference state;
      state.all = true;
      std::vector<float> all;
      std::size_t at = 0;
      for (const int n : pieces) {
        const auto program = model->build_inference(n, compute, net.device);
        program->infer(*net.memory, std::span(batch.tokens).subspan(at, static_cast<std::size_t>(n)), state);
        all.insert(all.end(), state.logits.begin(), state.logits.end());
        at += static_cast<std::size_t>(n);
      }
      return all;
    };
    const std::vector<float> whole = logits({24});
    const double tolerance = compute == ValueType::kFp32 ? 1e-4 : 0.05;  // products of other shapes
    const std::vector<float> pieces = logits({1, 1, 6, 16});
    ASSERT_EQ(pieces.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(pieces[i], whole[i], tolerance) << i;
    double loss = 0;
    for (std::size_t i = 0; i < 24; ++i) {
      double sum = 0;
      for (std::size_t v = 0; v < 50; ++v) sum += std::exp(double{whole[50 * i + v]});
      loss += std::log(sum) - whole[50 * i + static_cast<std::size_t>(batch.labels[i])];
    }
    EXPECT_NEAR(net.program->evaluate(*net.memory, *net.buffers, batch).loss_sum, loss, 10 * tolerance);
    Inference late;
    late.position = 24;
    const auto one = model->build_inference(1, compute, net.device);
    EXPECT_THROW(one->infer(*net.memory, std::vector<std::int32_t>{1}, late), RunError);
  }
}

TEST(Gpt, ImpossibleShapesAreRefused) {
  ModelConfig config = families().config("gpt");
  EXPECT_THROW(make_model(config), UsageError);  // gpt has no sizes of its own
  config.set("layers", 2);
  config.set("heads", 3);
  config.set("embedding", 64);
  config.set(kContext, 32);
  config.set(kVocabulary, 100);
  EXPECT_THROW(make_model(config), UsageError);  // 64 channels for 3 heads
  config.set("heads", 4);
  EXPECT_EQ(make_model(config)->tensors().size(), 2U * 12 + 4);
  config.length = 33;
  EXPECT_THROW(make_model(config), UsageError);  // longer than the context
}

TEST(Gpt, NamesDecideWhatIsLeftOpen) {
  ModelConfig config = families().config("gpt2");
  config.set("layers", 3);
  config = complete(config);
  EXPECT_EQ(config.integer("layers"), 3);
  EXPECT_EQ(config.integer("heads"), 12);
  EXPECT_EQ(config.integer(kVocabulary), 50257);
  EXPECT_EQ(config.length, 1024);
  EXPECT_EQ(complete(families().config("gpt")).integer("layers"), 0);
}

}  // namespace
}  // namespace lpmm
