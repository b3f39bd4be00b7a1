// Gradients of bf16: what the same values in fp32 give, to the bit, at any address, on every device.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/formats/maps.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/support.h"
#include "tests/normal_values.h"

namespace lpmm::kernels {
namespace {

LPMM_DEVICE_SUITE(FoldValues);

// Folds into the last elements of an accumulator.
struct ValuesCase {
  Codec codec;
  std::int64_t first = 0, count = 0;
  Role role = Role::kAccumulator;
  bool is_counted = false;
  float bad = 0;  // stands in the second gradient, where it is not 0
};
struct AfterFolds {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> steps;
  bool finite;
  double sum;
  std::int64_t counted, underflows;
  bool operator==(const AfterFolds&) const = default;
};

// Returns the result of two folds of gradients that begin `shift` values behind an aligned address; sum and
// failure are those of the second.
AfterFolds fold_twice_of(Device& device, const ValuesCase& of, ValueType type, std::size_t shift) {
  const std::int64_t all = of.first + of.count;
  DeviceArray<std::uint8_t> codes(
      device, std::vector<std::uint8_t>(static_cast<std::size_t>(code_bytes(of.codec.format, all))));
  DeviceArray<std::uint16_t> steps(
      device, std::vector<std::uint16_t>(static_cast<std::size_t>(step_bytes(of.codec, all) / 2)));
  const DeviceMemory room = device.allocate_shared(sizeof(FoldResult));
  auto* result = new (room.get()) FoldResult;
  ChangeStats stats;
  for (const std::uint32_t round : {0U, 1U}) {
    Floats values(shift), drawn = normal_values(of.count, 5 + round);
    if (round == 1 && of.bad != 0) drawn[drawn.size() / 2] = of.bad;
    values.insert(values.end(), drawn.begin(), drawn.end());
    const Cells gradient(device, type, rounded(ValueType::kBf16, values));
    const auto* from =
        static_cast<const std::byte*>(gradient.data()) + static_cast<std::int64_t>(shift) * value_bytes(type);
    Fold f;
    f.accumulator = {of.codec, codes.data(), of.codec.block == 0 ? nullptr : steps.data(), all};
    f.first = of.first;
    f.gradient = type == ValueType::kFp32
                     ? Values(reinterpret_cast<const float*>(from), drawn.size())
                     : Values::bf16({reinterpret_cast<const std::uint16_t*>(from), drawn.size()});
    f.args = {.scale = 0.3F, .noise = {5, 7, round, noise_stream(of.role)}, .want_square_sum = true};
    if (of.is_counted) f.args.stats = &stats;
    f.result = new (room.get()) FoldResult;
    device.fold({&f, 1});
    device.synchronize();
  }
  return {codes.values(), steps.values(),  result->finite, result->finite ? result->square_sum : 0,
          stats.elements, stats.underflows};
}

void expect_as_fp32(Device& device, const ValuesCase& of) {
  CpuDevice cpu(1);
  const AfterFolds wanted = fold_twice_of(cpu, of, ValueType::kFp32, 0);
  EXPECT_EQ(wanted.finite, of.bad == 0);
  EXPECT_EQ(wanted.counted, of.is_counted ? 2 * of.count : 0);
  for (const std::size_t shift : {0U, 1U, 2U, 3U}) {
    EXPECT_TRUE(fold_twice_of(device, of, ValueType::kBf16, shift) == wanted)
        << to_string(of.codec.format) << " " << of.first << " " << of.count << " " << shift;
  }
  EXPECT_TRUE(fold_twice_of(device, of, ValueType::kFp32, 1) == wanted) << of.count;
}

TEST_P(FoldValues, OfBf16AreThoseOfTheSameFp32) {
  int number = 0;
  for (const Format format : all_formats()) {
    if (!is_signed(format.map) || has_range(format.map)) continue;
    const Codec codec = codec_of(format, number % 3 == 2 ? 64 : 128);
    const Role role = ++number % 4 == 0 ? Role::kMomentum : Role::kAccumulator;
    expect_as_fp32(device(), {codec, 0, 130, role});
    expect_as_fp32(device(), {codec, 1024, 5000, role});
    if (HasFailure()) return;
  }
}

TEST_P(FoldValues, OfBf16AreCountedAlike) {
  for (const Format format : {Format{Map::kLinear, 8}, Format{Map::kSoftsign, 4}}) {
    expect_as_fp32(device(), {.codec = codec_of(format), .count = 3000, .is_counted = true});
  }
}

TEST_P(FoldValues, OfBf16FailWhereOneIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const Codec& codec :
         {codec_of({Map::kFp32, 32}), codec_of({Map::kBf16, 16}), codec_of({Map::kLinear, 8})}) {
      expect_as_fp32(device(), {.codec = codec, .count = 3000, .bad = bad});
    }
  }
}

}  // namespace
}  // namespace lpmm::kernels
