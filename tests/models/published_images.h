// Models of images with published weights, held to what their publishers' code computes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "lpmm/base/error.h"
#include "lpmm/files/half.h"
#include "lpmm/files/json.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/memory/policy.h"
#include "lpmm/program/family.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"
#include "models/families.h"
#include "models/published/published.h"
#include "tests/lpmm/scratch.h"
#include "tests/models/imported.h"

namespace lpmm {

using Floats = std::vector<float>;
inline constexpr std::int64_t kPublishedImages = 3;

inline ModelConfig of_imagenet(const std::string& name) {
  ModelConfig config = families().config(name);
  config.height = config.width = 224;
  config.classes = 1000;
  return config;
}

// The values of a tensor of any type.
inline Floats published_values(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsEntry* entry = file.find(name);
  if (entry != nullptr && entry->dtype != "F16") return values_of<float>(file, name);
  Floats values;
  for (const std::uint16_t x : values_of<std::uint16_t>(file, name)) values.push_back(half_to_float(x));
  return values;
}

// The images of tests/golden/make_resnet_fixtures.py, NHWC, with labels 0, 1, 2.
inline Batch published_images(int side) {
  Batch batch;
  batch.count = kPublishedImages;
  for (int n = 0; n < kPublishedImages; ++n) {
    batch.labels.push_back(n);
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        for (int c = 0; c < 3; ++c) {
          batch.images.push_back(static_cast<float>((x * x + 3 * y + 5 * c * x + 7 * n * (x + y)) % 17 - 8) /
                                 8);
        }
      }
    }
  }
  return batch;
}

struct PublishedImages {
  PublishedImages(const Published& by, const std::string& path, const ModelConfig& config,
                  std::string_view device_name)
      : device(make_device(device_name, 2)),
        model(make_model(config)),
        memory(model->tensors(), make_policy("fp32"), {}, 1, 1, *device),
        buffers(model->buffers(), *device),
        program(model->build(static_cast<int>(kPublishedImages), ValueType::kFp32, *device)),
        batch(published_images(config.height)) {
    by.load(path, memory);
    if (by.load_buffers != nullptr) by.load_buffers(path, buffers);
  }

  // The loss of one image under each label is the logarithm of that class's probability.
  void expect_logits(const Floats& logits) {
    const std::size_t classes = logits.size() / kPublishedImages,
                      values = batch.images.size() / kPublishedImages;
    for (std::size_t image = 0; image < kPublishedImages; ++image) {
      double sum = 0, largest = 0;
      for (std::size_t k = 0; k < classes; ++k) {
        sum += std::exp(logits[classes * image + k]);
        largest = std::max<double>(largest, std::abs(logits[classes * image + k]));
      }
      Batch one;
      one.count = 1;
      one.images.assign(batch.images.begin() + static_cast<std::ptrdiff_t>(image * values),
                        batch.images.begin() + static_cast<std::ptrdiff_t>((image + 1) * values));
      for (std::size_t k = 0; k < classes; ++k) {
        one.labels = {static_cast<std::int32_t>(k)};
        EXPECT_NEAR(program->evaluate(memory, buffers, one).loss_sum,
                    std::log(sum) - logits[classes * image + k], 1e-4 * largest);
      }
    }
  }

  // One batch; the accumulators hold its gradient.
  void train(double wanted_loss) {
    buffers.begin();
    step.emplace(memory.begin_step({.learning_rate = 0}));
    const double loss = program->train(memory, *step, buffers, batch, 0).read().loss_sum /
                        static_cast<double>(kPublishedImages);
    EXPECT_NEAR(loss, wanted_loss, 1e-4 * loss);
  }

  // Compares the gradients that `expected` has, under a prefix, and returns how many there are. On the CPU.
  int expect_gradients(const SafetensorsFile& expected, const std::string& prefix) const {
    int found = 0;
    for (int t = 0; t < memory.tensors(); ++t) {
      const TensorInfo& info = memory.info(t);
      if (expected.find(prefix + info.name) == nullptr) continue;
      Floats gradient(static_cast<std::size_t>(info.elements()));
      device->decode(memory.view(t, Role::kAccumulator), 0, info.elements(), gradient.data());
      expect_near_largest(gradient, published_values(expected, prefix + info.name), 1e-3, info.name);
      ++found;
    }
    return found;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Model> model;
  ModelMemory memory;
  std::optional<Step> step;
  Buffers buffers;
  std::unique_ptr<Program> program;
  Batch batch;
};

// Published weights, read and written again: the same names and shapes, values to the bit, counts of batches
// 0, and a config.json that tells the same sizes.
inline void expect_round_trip(const Published& by, const std::string& path, const ModelConfig& config) {
  PublishedImages in(by, path, config, "cpu");
  const Scratch scratch;
  const StoredWeights stored(
      save_checkpoint(scratch / "c", 0, config.name, in.memory, in.buffers, {{"x", 1}}, 0));
  by.save(stored, config, scratch / "out", *in.device);
  const SafetensorsFile before(path), after(scratch / "out/model.safetensors");
  EXPECT_EQ(after.entries().size(), before.entries().size());
  for (const SafetensorsEntry& entry : before.entries()) {
    const SafetensorsEntry* written = after.find(entry.name);
    ASSERT_NE(written, nullptr) << entry.name;
    EXPECT_EQ(written->shape, entry.shape) << entry.name;
    EXPECT_EQ(written->dtype, entry.dtype == "I64" ? "I64" : "F32") << entry.name;
    if (entry.dtype == "I64") continue;
    EXPECT_EQ(published_values(after, entry.name), published_values(before, entry.name)) << entry.name;
  }
  EXPECT_TRUE(by.is_at(scratch / "out"));
  ModelConfig again = by.read(scratch / "out");
  again.height = config.height;
  again.width = config.width;
  EXPECT_EQ(again.settings, config.settings);
  EXPECT_EQ(again.classes, config.classes);
  PublishedImages back(by, scratch / "out", again, "cpu");
  EXPECT_EQ(back.program->evaluate(back.memory, back.buffers, back.batch).loss_sum,
            in.program->evaluate(in.memory, in.buffers, in.batch).loss_sum);
}

// A file that cannot be loaded says so, with these words.
inline void expect_load_refused(const Published& by, const std::string& path, const ModelConfig& config,
                                const std::string& words) {
  try {
    PublishedImages(by, path, config, "cpu");
    FAIL() << "no error";
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

}  // namespace lpmm
