// Helpers of tests of published weights: a model read from a file, and the values of safetensors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "lpmm/base/error.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/program/family.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {

template <class T>
std::vector<T> values_of(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsEntry* entry = file.find(name);
  if (entry == nullptr) throw RunError("no tensor " + name);
  std::vector<T> values(entry->bytes / sizeof(T));
  file.read(*entry, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

// A published model in memory.
struct Imported {
  Imported(const Published& published, const ModelConfig& config, const std::string& path,
           std::string_view on = "cpu")
      : held(make_device(on, 2)),
        device(*held),
        model(make_model(config)),
        memory(model->tensors(), make_policy("fp32"), {}, 1, 1, device) {
    published.load(path, memory);
  }
  std::vector<float> gradient(int tensor) const {
    std::vector<float> v(static_cast<std::size_t>(memory.info(tensor).elements()));
    const kernels::RoleView view = memory.view(tensor, Role::kAccumulator);
    const DeviceMemory decoded = device.allocate(4 * std::ssize(v));
    device.decode(view, 0, std::ssize(v), reinterpret_cast<float*>(decoded.get()));
    device.download(v.data(), decoded.get(), 4 * std::ssize(v));
    return v;
  }
  std::vector<float> parameter(int tensor) const {
    std::vector<float> v(static_cast<std::size_t>(memory.info(tensor).elements()));
    memory.decode(tensor, 0, v);
    return v;
  }
  // Logits of every token.
  std::vector<float> logits(const std::vector<std::int32_t>& tokens) {
    Inference state;
    state.all = true;
    model->build_inference(static_cast<int>(tokens.size()), ValueType::kFp32, device)
        ->infer(memory, tokens, state);
    return state.logits;
  }
  std::unique_ptr<Device> held;
  Device& device;
  std::unique_ptr<Model> model;
  ModelMemory memory;
};

class TemporaryFolderTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  Scratch folder_;
};

// Within `tolerance` of the largest value that is wanted, and `floor` where all are 0 but for rounding.
inline void expect_near_largest(const std::vector<float>& got, const std::vector<float>& want,
                                double tolerance, const std::string& name, double floor = 0) {
  ASSERT_EQ(got.size(), want.size()) << name;
  double largest = 0;
  for (const float w : want) largest = std::max<double>(largest, std::abs(w));
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * largest + floor) << name << ", element " << i;
  }
}

}  // namespace lpmm
