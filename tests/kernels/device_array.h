// Arrays in a device's memory, and tests that run on every device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/emulated.h"
#include "kernels/cuda/gpu/gpu.h"
#include "kernels/device.h"
#include "kernels/formats/codec.h"

namespace lpmm::kernels {

using Floats = std::vector<float>;

// Values that are copied to a device and back; kernels may not write past their end.
template <class T>
class DeviceArray {
 public:
  DeviceArray(PackedDevice& device, const std::vector<T>& values)
      : device_(device), count_(values.size()), memory_(device.allocate(bytes() + kGuard)) {
    if (memory_ == nullptr) throw std::bad_alloc();
    assign(values);
    device_.upload(memory_.get() + bytes(), guard().data(), kGuard);
  }
  ~DeviceArray() {
    std::vector<std::byte> past(kGuard);
    device_.download(past.data(), memory_.get() + bytes(), kGuard);
    EXPECT_EQ(past, guard()) << "written past the end";
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return reinterpret_cast<T*>(memory_.get()); }
  void assign(const std::vector<T>& values) { device_.upload(data(), values.data(), bytes()); }
  std::vector<T> values() const {
    std::vector<T> v(count_);
    device_.download(v.data(), data(), bytes());
    return v;
  }

 private:
  static constexpr std::int64_t kGuard = 64;
  static std::vector<std::byte> guard() { return std::vector<std::byte>(kGuard, std::byte{0xA5}); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(count_ * sizeof(T)); }

  PackedDevice& device_;
  std::size_t count_;
  DeviceMemory memory_;
};

// Activations of either type.
class Cells {
 public:
  Cells(PackedDevice& device, ValueType type, const Floats& values)
      : type_(type), bytes_(device, packed(type, values)) {}
  Cells(PackedDevice& device, ValueType type, std::int64_t count)
      : Cells(device, type, Floats(static_cast<std::size_t>(count), 7.0F)) {}
  void* data() const { return bytes_.data(); }
  std::vector<std::uint8_t> bytes() const { return bytes_.values(); }
  void assign(const Floats& values) { bytes_.assign(packed(type_, values)); }
  Floats floats() const {
    const std::vector<std::uint8_t> bytes = bytes_.values();
    const auto width = static_cast<std::size_t>(value_bytes(type_));
    Floats v;
    for (std::size_t i = 0; i < bytes.size(); i += width) {
      float wide = 0;
      std::uint16_t narrow = 0;
      if (type_ == ValueType::kFp32) {
        std::memcpy(&wide, &bytes[i], width);
      } else {
        std::memcpy(&narrow, &bytes[i], width);
        wide = bf16_to_float(narrow);
      }
      v.push_back(wide);
    }
    return v;
  }

 private:
  static std::vector<std::uint8_t> packed(ValueType type, const Floats& values) {
    const auto width = static_cast<std::size_t>(value_bytes(type));
    std::vector<std::uint8_t> bytes(values.size() * width);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t narrow = float_to_bf16(values[i]);
      const void* from = type == ValueType::kFp32 ? static_cast<const void*>(&values[i]) : &narrow;
      std::memcpy(&bytes[i * width], from, width);
    }
    return bytes;
  }
  ValueType type_;
  DeviceArray<std::uint8_t> bytes_;
};
inline DeviceArray<std::byte> scratch_on(PackedDevice& device, std::int64_t bytes) {
  return {device, std::vector<std::byte>(static_cast<std::size_t>(bytes), std::byte{0xEE})};
}
// Rounds values to those that the type holds.
inline Floats rounded(ValueType type, Floats values) {
  if (type == ValueType::kBf16) {
    for (float& v : values) v = bf16_to_float(float_to_bf16(v));
  }
  return values;
}

// A GPU that computes with our kernels alone.
inline constexpr std::string_view kWithoutCudnn = "cuda-without-cudnn";

// A suite that runs on the device of its parameter, where that is at hand.
class DeviceTest : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    const bool is_without = GetParam() == kWithoutCudnn;
    for (const BackendInfo& b : backends()) {
      if (b.name == (is_without ? kGpu : GetParam()) && !b.is_available()) GTEST_SKIP() << b.why_not;
    }
    std::unique_ptr<Device>& device = devices()[GetParam()];
    if (device != nullptr) return;
    if (is_without) {
      device = make_gpu(2, {.with_cudnn = false});
    } else if (GetParam() == EmulatedCuda::kName) {
      device = std::make_unique<EmulatedCuda>(2, true, true);
    } else {
      device = make_device(GetParam(), 2);
    }
  }
  static Device& device() { return *devices()[GetParam()]; }
  template <class T>
  static DeviceArray<T> array(const std::vector<T>& values) {
    return DeviceArray<T>(device(), values);
  }
  static DeviceArray<float> zeros(std::size_t count) { return {device(), Floats(count, 0.0F)}; }
  static Cells cells(ValueType type, const Floats& values) { return {device(), type, values}; }
  static Cells cells(ValueType type, std::int64_t count) { return {device(), type, count}; }
  static DeviceArray<std::byte> scratch(std::int64_t bytes) { return scratch_on(device(), bytes); }

 private:
  static std::map<std::string_view, std::unique_ptr<Device>>& devices() {
    static std::map<std::string_view, std::unique_ptr<Device>> all;
    return all;
  }
};
inline std::string name_of_device(const testing::TestParamInfo<std::string_view>& info) {
  std::string name(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// The label gpu finds what begins with Gpu. More GPUs may be named.
#define LPMM_DEVICE_SUITE(Suite, ...)                                                         \
  class Suite : public DeviceTest {};                                                         \
  INSTANTIATE_TEST_SUITE_P(, Suite, testing::Values("cpu", "cuda-emulated"), name_of_device); \
  INSTANTIATE_TEST_SUITE_P(Gpu, Suite, testing::Values("cuda" __VA_OPT__(, ) __VA_ARGS__), name_of_device)

}  // namespace lpmm::kernels
