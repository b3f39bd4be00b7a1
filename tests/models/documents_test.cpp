// Documents that share sequences: models learn from them what they learn from each alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "lpmm/base/error.h"
#include "lpmm/program/family.h"
#include "models/families.h"
#include "tests/lpmm/memory/net.h"

namespace lpmm {
namespace {

constexpr int kVocabularySize = 40, kLength = 24;

ModelConfig small(const char* name, const std::vector<std::pair<std::string_view, SettingValue>>& more) {
  ModelConfig c = families().config(name);
  for (const auto& [key, value] : {std::pair{"layers", 2}, {"heads", 4}, {"embedding", 16}})
    c.set(key, value);
  c.set("mlp_width", 24);
  c.set(kContext, kLength);
  c.set(kVocabulary, kVocabularySize);
  for (const auto& [key, value] : more) c.set(key, value);
  c.documents = true;
  return complete(c);
}
std::vector<ModelConfig> models() {
  return {small("gpt", {}), small("gpt", {{"stable_embedding", true}, {"recompute", true}}),
          small("llama", {{"kv_heads", std::int64_t{2}}, {"tied", true}}),
          small("llama", {{"window", std::int64_t{5}}, {"recompute", true}})};
}
Net net_of(const ModelConfig& c, int batch, int microbatches = 1) {
  return Net([c](ProgramBuilder& b) { c.family->forward(b, c); }, batch, ValueType::kFp32, 2, microbatches);
}

struct Text {
  std::vector<std::int32_t> tokens, labels;  // a label of -1 is not learnt
};
Text text_of(int tokens, unsigned seed) {
  std::mt19937 generator(seed);
  Text text;
  for (int i = 0; i < tokens; ++i) {
    text.tokens.push_back(static_cast<std::int32_t>(generator() % kVocabularySize));
    text.labels.push_back(generator() % 3 == 0 ? -1
                                               : static_cast<std::int32_t>(generator() % kVocabularySize));
  }
  return text;
}
// Adds a sequence of these texts, filled up.
void append(const std::vector<Text>& texts, Batch& out) {
  ++out.count;
  std::int32_t start = 0;
  for (const Text& text : texts) {
    out.tokens.insert(out.tokens.end(), text.tokens.begin(), text.tokens.end());
    out.labels.insert(out.labels.end(), text.labels.begin(), text.labels.end());
    out.starts.insert(out.starts.end(), text.tokens.size(), start);
    start += static_cast<std::int32_t>(text.tokens.size());
  }
  const auto end = static_cast<std::size_t>(out.count * kLength);
  out.tokens.resize(end, 0);
  out.labels.resize(end, -1);
  out.starts.resize(end, start);
}
std::int64_t learnt(const Batch& batch) {
  return std::ranges::count_if(batch.labels, [](std::int32_t label) { return label >= 0; });
}
std::vector<Floats> gradients_of(Net& net) {
  std::vector<Floats> all;
  for (int t = 0; t < net.memory->tensors(); ++t) all.push_back(net.gradient(t));
  net.commit();
  return all;
}

TEST(Documents, OfASequenceTeachWhatEachDoesAlone) {
  const std::vector<Text> texts{text_of(9, 1), text_of(1, 2), text_of(10, 3)};
  Batch packed, alone;
  append(texts, packed);
  for (const Text& text : texts) append({text}, alone);
  alone.starts.clear();  // a text does not see what follows it
  packed.step_labels = alone.step_labels = learnt(packed);
  for (const ModelConfig& c : models()) {
    SCOPED_TRACE(c.name);
    Net together = net_of(c, 1), apart = net_of(c, 3);
    const double loss = together.run(packed), other = apart.run(alone);
    EXPECT_NEAR(loss, other, 1e-5);
    const std::vector<Floats> got = gradients_of(together), want = gradients_of(apart);
    for (std::size_t t = 0; t < got.size(); ++t) {
      double off = 0;
      for (std::size_t i = 0; i < got[t].size(); ++i) {
        off = std::max(off, std::abs(1.0 * got[t][i] - want[t][i]));
      }
      EXPECT_LT(off, 1e-5) << together.memory->info(static_cast<int>(t)).name;
      EXPECT_GT(norm(want[t]), 0);
    }
  }
}

// The loss and every gradient of the second, to the bit.
TEST(Documents, TheFirstChangesNothingOfTheSecond) {
  Text first = text_of(9, 1), second = text_of(12, 3);
  std::ranges::fill(first.labels, -1);
  for (const ModelConfig& c : models()) {
    SCOPED_TRACE(c.name);
    Net net = net_of(c, 1);
    std::vector<double> losses;
    std::vector<std::vector<Floats>> gradients;
    for (const unsigned seed : {1U, 5U}) {
      first.tokens = text_of(9, seed).tokens;
      Batch batch;
      append({first, second}, batch);
      batch.step_labels = learnt(batch);
      losses.push_back(net.run(batch));
      gradients.push_back(gradients_of(net));
    }
    EXPECT_EQ(losses[0], losses[1]);
    EXPECT_EQ(gradients[0], gradients[1]);
    Batch whole;  // as one document, the first changes the second
    append({first, second}, whole);
    whole.starts.clear();
    whole.step_labels = learnt(whole);
    EXPECT_NE(net.run(whole), losses[0]);
    net.commit();
  }
}

// Tokens that are learnt weigh the same wherever they are, though one half has fewer.
TEST(Documents, MicrobatchesCutTheMeanAnyhow) {
  std::vector<Text> texts{text_of(20, 1), text_of(20, 2)};
  std::fill_n(texts[1].labels.begin(), 15, -1);
  const ModelConfig c = small("gpt", {});
  Batch whole;
  for (const Text& text : texts) append({text}, whole);
  whole.step_labels = learnt(whole);
  Net once = net_of(c, 2), twice = net_of(c, 1, 2);
  once.run(whole);
  const std::vector<Floats> want = gradients_of(once);
  Step step = twice.memory->begin_step({});
  twice.buffers->begin();
  for (int k = 0; k < 2; ++k) {
    Batch half;
    append({texts[static_cast<std::size_t>(k)]}, half);
    half.step_labels = whole.step_labels;
    twice.program->train(*twice.memory, step, *twice.buffers, half, k);
  }
  for (std::size_t t = 0; t < want.size(); ++t) {
    const Floats got = twice.gradient(static_cast<int>(t));
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[t][i], 2e-6);
  }
  std::move(step).commit();
}

TEST(Documents, StartsThatCannotBeAreRefused) {
  const ModelConfig c = small("gpt", {});
  Net net = net_of(c, 1);
  Batch batch;
  append({text_of(9, 1), text_of(9, 2)}, batch);
  batch.starts[12] = 5;
  EXPECT_THROW(net.program->evaluate(*net.memory, *net.buffers, batch), RunError);
  batch.starts.pop_back();
  EXPECT_THROW(net.program->evaluate(*net.memory, *net.buffers, batch), RunError);
}

}  // namespace
}  // namespace lpmm
