// ViT and ResNet under transformers' names: what it computes with small ones
// (tests/golden/make_hugging_face_images.py), and the way there and back.
#include <gtest/gtest.h>

#include "lpmm/files/files.h"
#include "models/published/layouts.h"
#include "tests/models/published_images.h"
#include "tests/models/through.h"

namespace lpmm {
namespace {

struct HuggingFaceImages {
  const char* name;
  const Published* by;
  int side, gradients;
  std::string path() const {
    return std::string(LPMM_SOURCE_DIR "/tests/golden/") + name + "_transformers_tiny";
  }
};

class ImagesOfTransformers : public testing::TestWithParam<HuggingFaceImages> {
 protected:
  ModelConfig config() const {
    ModelConfig read = GetParam().by->read(GetParam().path());
    read.height = read.width = GetParam().side;
    return read;
  }
};
INSTANTIATE_TEST_SUITE_P(, ImagesOfTransformers,
                         testing::Values(HuggingFaceImages{"vit", &vit_timm(), 16, 8},
                                         HuggingFaceImages{"resnet", &resnet_torchvision(), 64, 5}),
                         [](const auto& of) { return std::string(of.param.name); });

TEST_P(ImagesOfTransformers, ComputeWhatItDoes) {
  const SafetensorsFile expected(GetParam().path() + "/expected.safetensors");
  EXPECT_EQ(published_family(GetParam().path()).published, GetParam().by);
  for (const char* device : {"cpu", "cuda-emulated"}) {
    PublishedImages tiny(*GetParam().by, GetParam().path(), config(), device);
    tiny.expect_logits(published_values(expected, "logits"));
    tiny.train(published_values(expected, "loss")[0]);
    if (std::string_view(device) == "cpu") {
      EXPECT_EQ(tiny.expect_gradients(expected, "gradient."), GetParam().gradients);
    }
  }
}

TEST_P(ImagesOfTransformers, GoOutAsTheyCameIn) {
  const std::string path = GetParam().path();
  const PublishedImages in(*GetParam().by, path, config(), "cpu");
  const Scratch scratch;
  const StoredWeights stored(
      save_checkpoint(scratch / "c", 0, config().name, in.memory, in.buffers, {{"x", 1}}, 0));
  GetParam().by->save(Kept(stored, path), config(), scratch / "out", *in.device);
  const SafetensorsFile before(path + "/model.safetensors"), after(scratch / "out/model.safetensors");
  EXPECT_EQ(after.entries().size(), before.entries().size());
  for (const SafetensorsEntry& entry : before.entries()) {
    const SafetensorsEntry* written = after.find(entry.name);
    ASSERT_NE(written, nullptr) << entry.name;
    EXPECT_EQ(written->shape, entry.shape) << entry.name;
    if (entry.dtype == "F32") {
      EXPECT_EQ(values_of<float>(after, entry.name), values_of<float>(before, entry.name)) << entry.name;
    }
  }
  const ModelConfig again = GetParam().by->read(scratch / "out");
  EXPECT_EQ(again.settings, config().settings);
  EXPECT_EQ(again.classes, config().classes);
  // Keys that still hold are there, with what they were.
  const Json was = parse_json(read_text(path + "/config.json", 1 << 20)),
             is = parse_json(read_text(scratch / "out/config.json", 1 << 20));
  for (const auto& [key, value] : was.items()) {
    const bool names_nothing = key == "id2label" || key == "label2id";  // LABEL_0: the number says it
    EXPECT_TRUE(names_nothing || (is.contains(key) && is[key] == value)) << key;
  }
}

}  // namespace
}  // namespace lpmm
