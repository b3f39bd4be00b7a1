// Weights and gradients in memory of a program's own: fp32 or bf16, at any multiple of their size, in ranges
// of a tensor. The values stored and read are the same as with aligned tensors in fp32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu.h"
#include "lpmm/memory/model_memory.h"
#include "tests/kernels/device_array.h"
#include "tests/lpmm/memory/at_once_policy.h"
#include "tests/lpmm/memory/stored_bytes.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

using kernels::Cells;
using kernels::Values;

constexpr std::int64_t kElements = 3 * 4096 + 77;
const std::vector<TensorInfo> kForeign = {{"w", {kElements, 1}}};

std::vector<float> drawn(std::uint32_t seed, float deviation) {
  return kernels::rounded(ValueType::kBf16, normal_values(kElements, seed, deviation));
}

// Memory of somebody else's, which begins `shift` values behind an aligned address.
class ForeignTensor {
 public:
  ForeignTensor(PackedDevice& device, ValueType type, std::size_t shift, std::vector<float> values)
      : type_(type), shift_(shift), cells_(device, type, with_front(shift, std::move(values))) {}
  // `count` of its values from number `first` on.
  Values range(std::int64_t first, std::int64_t count) const {
    const auto n = static_cast<std::size_t>(count);
    if (type_ == ValueType::kFp32) return {at<float>(first), n};
    return Values::bf16({at<std::uint16_t>(first), n});
  }
  template <class T>
  T* at(std::int64_t first) const {
    return static_cast<T*>(cells_.data()) + shift_ + first;
  }
  std::vector<float> values() const {
    const std::vector<float> all = cells_.floats();
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(shift_);
    EXPECT_TRUE(std::all_of(all.begin(), end, [](float x) { return x == -3; })) << "written before it";
    return {end, all.end()};
  }

 private:
  static std::vector<float> with_front(std::size_t shift, std::vector<float> values) {
    values.insert(values.begin(), shift, -3.0F);
    return values;
  }
  ValueType type_;
  std::size_t shift_;
  Cells cells_;
};

struct Reached {
  Bytes stored;
  std::vector<float> weights;
  bool operator==(const Reached&) const = default;
};

// Three steps by ranges of so many elements.
Reached train_foreign(PackedDevice& device, const Policy& policy, ValueType type, std::size_t shift,
                      std::int64_t range) {
  OptimizerConfig adamw;
  adamw.rule = "adamw";
  ModelMemory memory(kForeign, policy, adamw, 5, 1, device);
  const auto for_ranges = [&](const auto& body) {
    for (std::int64_t first = 0; first < kElements; first += range) {
      body(first, std::min(range, kElements - first));
    }
  };
  const ForeignTensor start(device.host(), type, shift, drawn(1, 0.1F));
  for_ranges([&](std::int64_t first, std::int64_t count) {
    memory.initialize(0, first, start.range(first, count));
  });
  const ForeignTensor weights(device, type, shift, std::vector<float>(kElements));
  for (std::uint32_t number = 1; number <= 3; ++number) {
    const ForeignTensor gradient(device, type, shift, drawn(10 + number, 0.01F));
    Step step = memory.begin_step({.learning_rate = 1e-3});
    for_ranges([&](std::int64_t first, std::int64_t count) {
      step.fold(0, first, gradient.range(first, count), 0);
    });
    EXPECT_TRUE(std::move(step).commit().applied);
    for_ranges([&](std::int64_t first, std::int64_t count) {
      const auto n = static_cast<std::size_t>(count);
      if (type == ValueType::kFp32) return memory.decode(0, first, {weights.at<float>(first), n});
      memory.decode_bf16(0, first, {weights.at<std::uint16_t>(first), n});
    });
    device.synchronize();
    EXPECT_EQ(gradient.values(), drawn(10 + number, 0.01F));
  }
  std::vector<float> read(kElements + 1);
  memory.read(0, 0, std::span(read).subspan(1));
  read.erase(read.begin());
  EXPECT_EQ(weights.values(), kernels::rounded(type, read));
  return {stored_bytes(memory), read};
}

TEST(ForeignMemory, MayLieAtAnyAddressAndBeOfEitherType) {
  kernels::CpuPackedDevice packed(2);
  CpuDevice cpu(1);
  kernels::EmulatedCuda emulated(2, false);
  for (const Policy& policy :
       {make_policy("lpmm-min"), make_policy("fp32"), make_policy("flash"), at_once("lpmm")}) {
    const Reached wanted = train_foreign(cpu, policy, ValueType::kFp32, 0, kElements);
    for (PackedDevice* device : std::initializer_list<PackedDevice*>{&packed, &emulated}) {
      for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
        for (const std::size_t shift : {0U, 1U, 2U, 3U}) {
          EXPECT_TRUE(train_foreign(*device, policy, type, shift, 4096) == wanted)
              << device->name() << " " << static_cast<int>(type) << " " << shift;
        }
      }
    }
  }
}

// A range in the midst of a tensor alone: the rest stays.
TEST(ForeignMemory, MayHaveARangeOfATensorAlone) {
  CpuDevice device(1);
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    ModelMemory memory(kForeign, make_policy("lpmm-compact"), {}, 5, 1, device);
    const ForeignTensor own(device, type, 1, drawn(1, 0.1F));
    memory.initialize(0, 4096, own.range(4096, 4096));
    std::vector<float> before(kElements), after(kElements);
    memory.read(0, 0, before);
    EXPECT_TRUE(std::all_of(before.begin(), before.begin() + 4096, [](float x) { return x == 0; }));
    Step step = memory.begin_step({.learning_rate = 1});
    step.fold(0, 4096, own.range(4096, 4096), 0);
    EXPECT_TRUE(std::move(step).commit().applied);
    memory.read(0, 0, after);
    EXPECT_TRUE(std::equal(before.begin(), before.begin() + 4096, after.begin()));
    EXPECT_TRUE(std::equal(before.begin() + 8192, before.end(), after.begin() + 8192));
    EXPECT_NE(before, after);
  }
}

}  // namespace
}  // namespace lpmm
