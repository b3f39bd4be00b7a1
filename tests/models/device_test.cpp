// Whole runs on the emulated GPU: the same checkpoint as on the CPU, whose products both take.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "lpmm/files/files.h"
#include "lpmm/memory/policy.h"
#include "lpmm/program/family.h"
#include "lpmm/run/config.h"
#include "lpmm/run/trainer.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

constexpr const char* kImages = R"(
  [data]
  set = "drawn"
  train_images = 64
  test_images = 16
  [train]
  steps = 3
  batch = 16
  microbatches = 2
)";
constexpr const char* kText = R"(
  [data]
  set = "text"
  path = "{}"
  tokenizer = "bytes"
  validation_share = 0.2
  [train]
  steps = 3
  batch = 4
  microbatches = 2
)";
constexpr const char* kAdamW = "[optimizer]\nrule = \"adamw\"\nlearning_rate = 0.01\nclip_norm = 1.0\n";
constexpr const char* kSgd = "[optimizer]\nrule = \"sgd\"\nmomentum = 0.9\nlearning_rate = 0.05\n";

class Devices : public testing::TestWithParam<std::string_view> {};

// What a run leaves: parameters and states.
std::string bytes_of(const Scratch& scratch, const std::string& text, std::string_view preset,
                     const std::string& device) {
  const std::string out = scratch / device;
  std::filesystem::remove_all(out);
  const RunConfig config = parse_config(
      text, "run.toml", {std::string(preset), "", {"train.threads=2", "train.device=" + device}});
  train(config, *make_model(config.model), {out, false, true});
  return read_text(out + "/checkpoints/step_00000003/model.safetensors", 1 << 28);
}

TEST_P(Devices, TrainToTheSameBytes) {
  const Scratch scratch;
  std::string words;
  for (int i = 0; i < 400; ++i) words += fmt::format("{} lines of text, ", i * i % 97);
  write_text(scratch / "text.txt", words);
  const std::string text = fmt::format(fmt::runtime(kText), scratch / "text.txt");
  const std::string gpt =
      "[model]\nname = \"gpt\"\nlayers = 1\nheads = 2\nembedding = 32\ncontext = 24\nvocabulary = 256\n" +
      text;
  for (const std::string& model : {std::string("[model]\nname = \"mlp\"\nhidden = [8]\n") + kImages,
                                   std::string("[model]\nname = \"resnet8\"\n") + kImages, gpt}) {
    for (const char* optimizer : {kAdamW, kSgd}) {
      const std::string config = model + optimizer;
      EXPECT_TRUE(bytes_of(scratch, config, GetParam(), "cpu") ==
                  bytes_of(scratch, config, GetParam(), "cuda-emulated"))
          << config;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Presets, Devices, testing::ValuesIn(preset_names()), [](const auto& preset) {
  std::string name(preset.param);
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace lpmm
