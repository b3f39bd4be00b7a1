// LongRoPE: which of a Phi-3's two lists counts, and lists that are none, in config.json and in a GGUF.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "lpmm/files/files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"
#include "models/gguf/file.h"
#include "models/gguf/gguf.h"
#include "models/published/published.h"
#include "tests/lpmm/said.h"
#include "tests/models/imported.h"
#include "tests/models/through.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

const std::string kGolden = LPMM_SOURCE_DIR "/tests/golden/phi3_long_tiny";
constexpr const char *kRope = "rope_parameters", *kPart = "partial_rotary_factor";

const Published& phi3() {
  return *published_family(kGolden).published;
}

class LongRopeTest : public TemporaryFolderTest {
 protected:
  Json config_ = parse_json(read_text(kGolden + "/config.json", 1 << 20));

  std::string folder() const {
    fs::create_directories(path("hf"));
    fs::copy_file(kGolden + "/model.safetensors", path("hf/model.safetensors"),
                  fs::copy_options::overwrite_existing);
    write_text(path("hf/config.json"), config_.dump());
    return path("hf");
  }
  ModelConfig read() const { return phi3().read(folder()); }
  std::string refused() const {
    return said([&] { make_model(read()); });
  }
  // As an export of the model with that config writes them.
  Json written(const ModelConfig& config) const {
    Imported model(phi3(), config, kGolden);
    fs::remove_all(path("c"));
    const StoredWeights stored(
        save_checkpoint(path("c"), 0, config.name, model.memory, Buffers({}, model.device), {{"x", 1}}, 0));
    phi3().save(stored, config, path("out"), model.device);
    return parse_json(read_text(path("out/config.json"), 1 << 20));
  }
};

// The first 16 tokens alone, within the first context, are rotated by the other list.
TEST_F(LongRopeTest, TheLengthOfATextChoosesTheList) {
  Imported model(phi3(), read(), kGolden);
  const SafetensorsFile expected(kGolden + "/expected.safetensors");
  const std::vector<std::int32_t> text = values_of<std::int32_t>(expected, "text");
  const std::vector<std::int32_t> some(text.begin(), text.begin() + 16);
  expect_near_largest(model.logits(some), values_of<float>(expected, "logits_short"), 1e-5, "logits");
}

TEST_F(LongRopeTest, ATextThatGrowsBeyondTheFirstContextMustBeReadAgain) {
  Imported model(phi3(), read(), kGolden);
  const std::unique_ptr<Program> program = model.model->build_inference(8, ValueType::kFp32, model.device);
  const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8};
  Inference state;
  for (int i = 0; i < 2; ++i) program->infer(model.memory, tokens, state);
  EXPECT_EQ(state.short_length, 16);
  EXPECT_FALSE(state.is_long);
  EXPECT_THROW(program->infer(model.memory, tokens, state), std::logic_error);
}

TEST_F(LongRopeTest, OlderNamesAndPlacesAreRead) {
  const ModelConfig newer = read();
  EXPECT_NEAR(newer.number("rope_magnitude"), std::sqrt(1.5), 1e-12);  // log(64 / 16) / log(16) = 1 / 2
  EXPECT_EQ(newer.integer("rope_width"), 6);
  for (const char* type : {"longrope", "su", "yarn"}) {
    Json rope = config_[kRope];
    config_.erase(kRope);
    config_["rope_scaling"] = {
        {"type", type}, {"short_factor", rope["short_factor"]}, {"long_factor", rope["long_factor"]}};
    EXPECT_EQ(read().settings, newer.settings) << type;
    config_[kRope] = rope;
  }
  config_.erase("rope_scaling");
  config_[kRope]["attention_factor"] = 1.25;
  EXPECT_EQ(read().number("rope_magnitude"), 1.25);
  // transformers takes a Phi-3's first context from beside the lists, or 4,096.
  config_.erase("original_max_position_embeddings");
  EXPECT_EQ(read().integer("rope_context"), 4096);
}

TEST_F(LongRopeTest, AnExportHasTheThreeKeysThatEveryVersionTakes) {
  ModelConfig config = read();
  Json out = written(config);
  EXPECT_EQ(
      out["rope_scaling"],
      Json({{"type", "longrope"}, {"short_factor", {1.0, 1.3, 2.125}}, {"long_factor", {1.1, 2.9, 7.5}}}));
  EXPECT_EQ(out["original_max_position_embeddings"], 16);
  EXPECT_EQ(out[kPart], 0.75);
  config.set("rope_magnitude", 1.25);
  EXPECT_EQ(written(config)["rope_scaling"]["attention_factor"], 1.25);
}

TEST_F(LongRopeTest, ListsThatAreNoneAreRefused) {
  const Json right = config_;
  const auto expect_said = [&](const char* part) {
    EXPECT_NE(refused().find(part), std::string::npos) << refused();
    config_ = right;
  };
  for (const char* key : {"short_factor", "long_factor"}) {
    config_[kRope][key].push_back(1.0);
    expect_said("is a list of 4, expected 3 numbers, half as many as a head has rotated channels");
    for (const Json& bad : {Json(0.0), Json(-1.0), Json("1"), Json(nullptr), Json(true)}) {
      config_[kRope][key][1] = bad;
      expect_said(fmt::format("{} has {}, expected numbers above 0", key, bad.dump()).c_str());
    }
    config_[kRope][key] = 2.0;
    expect_said("is 2.0, expected 3 numbers");
    config_[kRope].erase(key);
    expect_said("is null, expected 3 numbers");
    config_[kRope][key][0] = 1e300;
    expect_said("must be between 0.001 and 1000000");
  }
  for (const auto& [share, why] : {std::pair{0.0, "expected more than 0"},
                                   {1.5, "expected at most 1"},
                                   {0.1, "leaves no channel of 8"},
                                   {0.625, "must be even"}}) {
    config_.erase(kRope);
    config_[kPart] = share;
    expect_said(why);
  }
  config_["original_max_position_embeddings"] = 1;
  expect_said("rope_magnitude");
  config_["model_type"] = "llama";
  expect_said("partial_rotary_factor");
}

// The settings of a config.toml.
TEST_F(LongRopeTest, SettingsThatDoNotGoTogetherAreRefused) {
  const ModelConfig right = read();
  const auto refused_with = [&](const char* key, const SettingValue& value) {
    ModelConfig config = right;
    config.set(key, value);
    return said([&] { make_model(config); });
  };
  const std::vector<double> two{1, 2}, none, odd{1, std::numeric_limits<double>::quiet_NaN(), 3};
  for (const auto& [key, value, why] :
       {std::tuple{"rope_short", SettingValue(two), "rope_short has 2 factors: both lists must have 3"},
        {"rope_long", SettingValue(none), "rope_long has 0 factors"},
        {"rope_long", SettingValue(odd), "rope_long = nan"},
        {"rope_width", SettingValue(std::int64_t{10}), "at most the 8 channels"},
        {"rope_context", SettingValue(std::int64_t{0}), "need model.rope_context"},
        {"rope_factor", SettingValue(2.0), "no other scaling"},
        {"joined", SettingValue(false), "need joined = true"}}) {
    EXPECT_NE(refused_with(key, value).find(why), std::string::npos) << refused_with(key, value);
  }
}

// As llama.cpp's converter writes one, and wrongly.
TEST_F(LongRopeTest, AGgufHasBothListsAndTheFactor) {
  const auto packed = [&](const std::string& without, double factor, float first) {
    const GgufType& type = *find_gguf_type("f32");
    Json keys = {{"general.architecture", "phi3"},         {"phi3.embedding_length", 16},
                 {"phi3.attention.head_count", 2},         {"phi3.context_length", 64},
                 {"phi3.rope.dimension_count", 6},         {"phi3.rope.scaling.original_context_length", 16},
                 {"phi3.rope.scaling.attn_factor", factor}};
    std::vector<GgufSource> sources{{"token_embd.weight", {61, 16}, &type, [](const GgufSource::Sink& sink) {
                                       sink(std::vector<float>(std::size_t{61} * 16));
                                     }}};
    for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
      if (name == without) continue;
      sources.push_back({name, {3}, &type, [first](const GgufSource::Sink& sink) {
                           sink(std::vector<float>{first, 1.1F, 2.9F});
                         }});
    }
    write_gguf(path("m.gguf"), keys, sources);
    const UnpackedGguf unpacked(path("m.gguf"));
    return parse_json(read_text(unpacked.folder() + "/config.json", 1 << 20));
  };
  const Json usual = packed("", std::sqrt(1.5), 1);
  EXPECT_EQ(usual[kPart], 0.75);
  EXPECT_EQ(usual["original_max_position_embeddings"], 16);
  EXPECT_EQ(
      usual["rope_scaling"],
      Json({{"type", "longrope"}, {"short_factor", {1.0, 1.1, 2.9}}, {"long_factor", {1.0, 1.1, 2.9}}}));
  EXPECT_EQ(packed("", 1.25, 1)["rope_scaling"]["attention_factor"], 1.25);
  for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"})
    EXPECT_NE(said([&] { packed(name, 1, 1); }).find(fmt::format("but no {}", name)), std::string::npos);
  for (const float bad : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_NE(said([&] { packed("", 1, bad); }).find("expected numbers above 0"), std::string::npos);
  }
}

}  // namespace
}  // namespace lpmm
