#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/program/family.h"
#include "models/families.h"
#include "models/published/published.h"
#include "tests/models/parameters.h"

namespace lpmm {
namespace {

TEST(Families, InitialValues) {
  const auto model = make_model(families().config("resnet8"));
  CpuDevice device(2), single(1);
  ModelMemory memory(model->tensors(), make_policy("fp32"), {}, 1, 1, device);
  ModelMemory again(model->tensors(), make_policy("fp32"), {}, 1, 1, single);
  model->initialize(memory, 5, {});
  model->initialize(again, 5, {});
  const auto values = [](const ModelMemory& m, const char* name) {
    const int t = m.find(name);
    std::vector<float> v(static_cast<std::size_t>(m.info(t).elements()));
    m.decode(t, 0, v);
    return v;
  };
  // He normal over fan-out: 64 * 9 outputs a weight touches; moments up to the fourth.
  const std::vector<float> conv = values(memory, "stage3.0.conv2.weight");
  double sum = 0, square = 0, fourth = 0;
  for (const float v : conv) {
    sum += v;
    square += 1.0 * v * v;
    fourth += std::pow(v, 4);
  }
  const double n = static_cast<double>(conv.size()), variance = 2.0 / (64 * 9);
  EXPECT_NEAR(sum / n, 0, 4 * std::sqrt(variance / n));
  EXPECT_NEAR(square / n / variance, 1, 0.04);
  EXPECT_NEAR(fourth / n / (variance * variance), 3, 0.25);
  double largest = 0;
  for (const float v : values(memory, "head.weight")) largest = std::max(largest, std::abs(1.0 * v));
  EXPECT_LE(largest, 1.0 / 8);
  EXPECT_GT(largest, 0.97 / 8);
  EXPECT_EQ(values(memory, "stem.bn.weight"), std::vector<float>(16, 1.0F));
  EXPECT_EQ(values(memory, "stem.bn.bias"), std::vector<float>(16, 0.0F));
  EXPECT_EQ(values(again, "stage3.0.conv2.weight"), conv);
  model->initialize(again, 6, {});
  EXPECT_NE(values(again, "stage3.0.conv2.weight"), conv);
  EXPECT_NE(values(memory, "stage1.0.conv1.weight"), values(memory, "stage1.0.conv2.weight"));
}

// A row that lacks something would fail far from where it is written.
TEST(Families, EveryRowIsWhole) {
  std::set<std::string_view> names;
  for (const Family& family : families().rows) {
    SCOPED_TRACE(family.name);
    EXPECT_FALSE(family.help.empty());
    EXPECT_NE(family.forward, nullptr);
    ASSERT_FALSE(family.models.empty());
    std::set<std::string_view> keys;
    for (const ModelSetting& s : family.settings) {
      EXPECT_TRUE(keys.insert(s.key).second) << s.key;
      EXPECT_FALSE(s.help.empty()) << s.key;
      EXPECT_LE(s.low, s.high) << s.key;
    }
    const bool has_both = keys.contains(kContext) && keys.contains(kVocabulary);
    ASSERT_NE(family.reads, nullptr);
    EXPECT_TRUE(has_both || !family.reads->has_tokens);
    if (const Published* p = family.published; p != nullptr) {
      EXPECT_FALSE(p->by.empty());
      EXPECT_TRUE(p->is_at && p->read && p->load && p->save);
    }
    for (const NamedModel& model : family.models) {
      EXPECT_TRUE(names.insert(model.name).second) << model.name;
      EXPECT_EQ(&families().find(model.name), &family);
      for (const auto& [key, value] : model.sizes) EXPECT_TRUE(keys.contains(key)) << key;
    }
  }
  EXPECT_TRUE(names.contains(families().standard));
}

// As their publishers count them.
TEST(Families, LlamasAreOfThePublishedSize) {
  for (const auto& [name, count] : {std::pair{"smollm2-135m", 134'515'008L},
                                    {"qwen2-0.5b", 494'032'768L},
                                    {"qwen2.5-1.5b", 1'543'714'304L},
                                    {"qwen2.5-3b", 3'085'938'688L},
                                    {"qwen2.5-7b", 7'615'616'512L},
                                    {"qwen3-30b-a3b", 30'532'122'624L},
                                    {"tinyllama-1.1b", 1'100'048'384L},
                                    {"llama-3.2-1b", 1'235'814'400L},
                                    {"llama-2-7b", 6'738'415'616L},
                                    {"phi3-mini", 3'821'079'552L},
                                    {"olmo2-1b", 1'484'916'736L},
                                    {"granite3.1-2b", 2'533'531'648L},
                                    {"gemma3-270m", 268'098'176L},
                                    {"gemma3-1b", 999'885'952L}}) {
    ModelConfig config = families().config(name);
    config.length = 16;
    EXPECT_EQ(parameters(*make_model(config)), count) << name;
  }
}

TEST(Families, SettingsHaveNamesAndKinds) {
  ModelConfig config = families().config("gpt");
  config.set("dropout", 0.5);
  EXPECT_EQ(config.number("dropout"), 0.5);
  EXPECT_THROW(config.set("dropout", 1), std::logic_error);
  EXPECT_THROW(config.set("widen", 1), std::logic_error);
  EXPECT_THROW(config.integer("dropout"), std::logic_error);
  EXPECT_THROW(config.flag("widen"), std::logic_error);
  EXPECT_EQ(to_text(std::vector<std::int64_t>{1, 2}), "[1, 2]");
  EXPECT_EQ(to_text(0.1), "0.1");
  EXPECT_EQ(to_text(true), "true");
}

TEST(Families, WhatIsGivenGoesBeforeTheNamesOwn) {
  ModelConfig config = families().config("llama-3.2-1b");
  const int layers = config.integer("layers");
  EXPECT_GT(layers, 0);
  EXPECT_EQ(config.number("theta"), 5e5);
  config.set("theta", 1e4);  // the family's default
  config.set("layers", std::int64_t{0});
  EXPECT_EQ(complete(config).number("theta"), 1e4);
  EXPECT_EQ(complete(config).integer("layers"), layers);
}

TEST(Families, AnMlpIsAsWideAsTheHelpSays) {
  int count = 0;
  for (const Family& family : families().rows) {
    const auto row = std::ranges::find(family.settings, kMlpWidth, &ModelSetting::key);
    if (row == family.settings.end()) continue;
    EXPECT_EQ(lowest(*row), 0);
    EXPECT_EQ(row->help, "channels inside an MLP; 0: the name's own, or 4 times embedding");
    const auto of_width = [&](std::int64_t width) {
      ModelConfig c = families().config(std::string(family.models[0].name));
      for (const std::string_view key : {std::string_view("layers"), std::string_view("decoder_layers"),
                                         std::string_view("heads"), kEnd, kStart}) {
        if (c.has(key)) c.set(key, std::int64_t{1});
      }
      c.set("embedding", std::int64_t{8});
      c.set(kContext, std::int64_t{4});
      c.set(kVocabulary, std::int64_t{10});
      c.set(kMlpWidth, width);
      return parameters(*make_model(c));
    };
    EXPECT_EQ(of_width(0), of_width(32)) << family.name;
    EXPECT_LT(of_width(32), of_width(static_cast<std::int64_t>(row->high))) << family.name;
    EXPECT_THROW(of_width(static_cast<std::int64_t>(row->high) + 1), UsageError) << family.name;
    ++count;
  }
  EXPECT_EQ(count, 6);
}

TEST(Families, WrongConfigurations) {
  try {
    families().config("resnet21");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean resnet20?"), std::string::npos) << error.what();
  }
  ModelConfig config = families().config("resnet20");
  config.set("label_smoothing", 1.0);
  EXPECT_THROW(make_model(config), UsageError);
  config.set("label_smoothing", 0.0);
  config.classes = 1;
  EXPECT_THROW(make_model(config), UsageError);
}

TEST(Families, OnlySomeArePublished) {
  const std::string path = LPMM_SOURCE_DIR "/tests/golden/gpt2_tiny.safetensors";
  EXPECT_EQ(published_family(path).name, "gpt");
}

}  // namespace
}  // namespace lpmm
