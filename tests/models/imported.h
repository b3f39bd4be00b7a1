// What tests of published weights share: a model read from a file, and the values of safetensors.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "lpmm/base/error.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/program/family.h"

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
    model->build_inference(static_cast<int>(tokens.size()), Compute::kFp32, device)
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
  void SetUp() override {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test.test_suite_name()) + "_" + test.name();
    for (char& c : name) c = c == '/' ? '_' : c;
    folder_ = std::filesystem::temp_directory_path() / ("lpmm_" + std::to_string(getpid()) + "_" + name);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
};

}  // namespace lpmm
