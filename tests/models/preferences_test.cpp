// Pairs of answers: TRL's losses and gradients (tests/golden/make_preferences.py), and what pairs have to do
// with each other.
#include <gtest/gtest.h>

#include <memory>

#include "lpmm/data/preferences/preference_data.h"
#include "models/published/published.h"
#include "tests/models/imported.h"

namespace lpmm {
namespace {

constexpr int kSlotsOfPairs = 40, kPairCount = 3;

std::string fixture_at(const std::string& name) {
  return LPMM_SOURCE_DIR "/tests/golden/" + name;
}

// The fixture's pairs, packed, with the references that TRL was given for that model.
std::shared_ptr<const DataSource> pairs_of(const SafetensorsFile& trl, const std::string& model, bool is_mean,
                                           bool changes_second = false) {
  std::vector<Document> documents;
  const std::vector<float> said = values_of<float>(trl, model + ".reference");
  std::vector<float> reference;
  std::vector<std::int64_t> chosen_slots;
  for (int i = 0; i < kPairCount; ++i) {
    const auto prompt =
        static_cast<std::size_t>(values_of<std::int32_t>(trl, std::to_string(i) + ".prompt")[0]);
    double difference = 0;
    for (const bool chosen : {true, false}) {
      Document d;
      d.ids = values_of<std::int32_t>(trl, std::to_string(i) + (chosen ? ".chosen" : ".rejected"));
      d.learnt.assign(d.ids.size(), 1);
      std::fill_n(d.learnt.begin(), prompt, 0);
      if (changes_second && i == 1) d.ids[1] = 60 - d.ids[1];
      if (chosen) chosen_slots.push_back(std::ssize(d.ids) - 1);
      const double tokens = is_mean ? static_cast<double>(d.ids.size() - prompt) : 1.0;
      difference += (chosen ? 1 : -1) * said[static_cast<std::size_t>(2 * i + (chosen ? 0 : 1))] / tokens;
      documents.push_back(std::move(d));
    }
    reference.push_back(static_cast<float>(difference));
  }
  const PreferenceData data("pairs", pack_parts("pairs", documents, {}, 0, kSlotsOfPairs, TooLong::kDrop, 2),
                            {});
  Batch all;
  data.make_reference_batch(0, data.all_examples(), all);
  std::vector<float> in_order;  // of the sequences, whose chosen answers differ in length
  for (const kernels::PreferencePair& pair : all.preferences) {
    const auto at = std::ranges::find(chosen_slots, pair.chosen_end - pair.chosen) - chosen_slots.begin();
    in_order.push_back(reference.at(static_cast<std::size_t>(at)));
  }
  return data.with_reference(in_order);
}

struct Loss {
  const char* name;
  PreferenceLoss loss;
};
constexpr Loss kLosses[] = {{"sigmoid", {.beta = 0.3}},
                            {"smoothed", {.beta = 0.3, .smoothing = 0.2}},
                            {"mean", {.beta = 2, .is_mean = true}}};

struct Trained {
  Trained(const std::string& name, const PreferenceLoss& loss, int sequences, const char* device)
      : Trained(*published_family(fixture_at(name)).published, fixture_at(name), loss, sequences, device) {}
  Trained(const Published& published, const std::string& path, const PreferenceLoss& loss, int sequences,
          const char* device)
      : imported(published, config_of(published, path, loss), path, device),
        none({}, imported.device),
        program(imported.model->build(sequences, ValueType::kFp32, imported.device)) {}
  static ModelConfig config_of(const Published& published, const std::string& path,
                               const PreferenceLoss& loss) {
    ModelConfig c = published.read(path);
    c.length = kSlotsOfPairs;
    c.documents = true;
    c.preferences = loss;
    return c;
  }
  Imported imported;
  Buffers none;
  std::unique_ptr<Program> program;
};

class PreferencesOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, PreferencesOf, testing::Values("llama_tiny", "gpt2_wide_tiny"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PreferencesOf, LossAndGradientsAreThoseOfTrl) {
  const SafetensorsFile trl(fixture_at("preferences.safetensors"));
  for (const char* device : {"cpu", "cuda-emulated"}) {
    for (const Loss& one : kLosses) {
      const std::string name = std::string(GetParam()) + "." + one.name;
      SCOPED_TRACE(name + " on " + device);
      const auto data = pairs_of(trl, GetParam(), one.loss.is_mean);
      ASSERT_EQ(data->train_examples(), 2);
      Trained model(GetParam(), one.loss, 2, device);
      Batch batch;
      data->make_batch({.seed = 1, .batch = 2}, 0, 0, 0, batch);
      ASSERT_EQ(batch.step_labels, kPairCount);
      ModelMemory& memory = model.imported.memory;
      Step step = memory.begin_step({1});
      const PendingLoss pending = model.program->train(memory, step, model.none, batch, 0);
      model.imported.device.synchronize();
      EXPECT_NEAR(pending.read().loss_sum / kPairCount, values_of<float>(trl, name + ".loss")[0], 1e-5);
      for (int t = 0; t < memory.tensors(); ++t) {
        const std::string& tensor = memory.info(t).name;
        const std::vector<float> want = values_of<float>(trl, name + "." + tensor);
        expect_near_largest(model.imported.gradient(t), want, 1e-5, tensor, 1e-6);
      }
    }
  }
}

// To the last bit, though one of them follows it in its sequence, whose longest pair comes first.
TEST_P(PreferencesOf, APairChangesNothingOfOthers) {
  const SafetensorsFile trl(fixture_at("preferences.safetensors"));
  Trained model(GetParam(), {.beta = 0.3}, 2, "cpu");
  std::vector<float> said[2];
  std::vector<kernels::PreferencePair> pairs;
  for (const bool changes : {false, true}) {
    const auto data = pairs_of(trl, GetParam(), false, changes);
    Batch batch;
    data->referred()->make_reference_batch(0, 2, batch);
    pairs = batch.preferences;
    model.program->evaluate(model.imported.memory, model.none, batch, &said[changes ? 1 : 0]);
  }
  ASSERT_EQ(said[0].size(), 3U);
  const std::int64_t slots = std::ssize(values_of<std::int32_t>(trl, "1.chosen")) - 1;
  int changed = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const bool is_second = pairs[i].chosen_end - pairs[i].chosen == slots;
    EXPECT_TRUE(!is_second || pairs[i].chosen % kSlotsOfPairs == 0);
    EXPECT_EQ(said[0][i] != said[1][i], is_second) << i;
    changed += is_second ? 1 : 0;
  }
  EXPECT_EQ(changed, 1);
}

// Each pair weighs the same, though one microbatch has two of them.
TEST_P(PreferencesOf, MicrobatchesCutTheMeanAnyhow) {
  const SafetensorsFile trl(fixture_at("preferences.safetensors"));
  const auto data = pairs_of(trl, GetParam(), false);
  std::vector<std::vector<float>> gradients[2];
  for (const int microbatches : {1, 2}) {
    Trained model(GetParam(), {.beta = 0.3}, 2 / microbatches, "cpu");
    const Model& made = *model.imported.model;
    ModelMemory memory(made.tensors(), make_policy("fp32"), {}, 1, microbatches, model.imported.device);
    published_family(fixture_at(GetParam())).published->load(fixture_at(GetParam()), memory);
    Step step = memory.begin_step({1});
    for (int k = 0; k < microbatches; ++k) {
      Batch batch;
      data->make_batch({.seed = 1, .batch = 2, .microbatches = microbatches}, 0, 0, k, batch);
      EXPECT_EQ(batch.step_labels, kPairCount);
      model.program->train(memory, step, model.none, batch, k);
    }
    for (int t = 0; t < memory.tensors(); ++t) {
      std::vector<float> v(static_cast<std::size_t>(memory.info(t).elements()));
      model.imported.device.decode(memory.view(t, Role::kAccumulator), 0, std::ssize(v), v.data());
      gradients[microbatches - 1].push_back(std::move(v));
    }
    std::move(step).commit();
  }
  for (std::size_t t = 0; t < gradients[0].size(); ++t) {
    expect_near_largest(gradients[1][t], gradients[0][t], 1e-5, std::to_string(t), 1e-6);
  }
}

}  // namespace
}  // namespace lpmm
