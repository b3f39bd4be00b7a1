// Steps in fp32, of rows, and of rows and columns: what is stored against plain loops.
#include "kernels/formats/scales.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu_packed.h"
#include "tests/kernels/support.h"

namespace lpmm::kernels {
namespace {

constexpr Scaling kScalings[] = {Scaling::kBlocks, Scaling::kRows, Scaling::kRank1};

Codec codec_with(Format f, int block, Scaling scaling, int step_bits,
                 Rounding rounding = Rounding::kNearest) {
  return {f, block, rounding, StepMode::kMoving, scaling, static_cast<std::uint8_t>(step_bits)};
}

TEST(Steps, FormatsOfOtherLibrariesKeepTheLargestMagnitudeItself) {
  const Codec de8 = codec_with({Map::kDynamic, 8}, 256, Scaling::kBlocks, 32);
  const Codec int8 = codec_with({Map::kLinear, 8}, 256, Scaling::kBlocks, 32);
  for (const float x : normal_values(5000, 3)) {
    const float largest = std::abs(x);
    EXPECT_EQ(covering_step(de8, largest), largest);
    const double step = covering_step(int8, largest);
    EXPECT_GE(step * 127.0, double{largest});
    EXPECT_LT(std::nextafter(static_cast<float>(step), 0.0F) * 127.0, double{largest})
        << "a smaller one does";
  }
  for (const Codec& codec : {de8, int8}) {
    EXPECT_EQ(covering_step(codec, 0.0F), 0.0F);
    EXPECT_GE(covering_step(codec, 1e-44F), kMinStep);
    EXPECT_EQ(covering_step(codec, INFINITY), covering_step(codec, kMaxMagnitude));
  }
  const Codec rounded = codec_with({Map::kDynamic, 8}, 256, Scaling::kRows, 16);
  EXPECT_EQ(covering_step(rounded, 1.001F), 1.0078125F) << "bf16, up";
}

TEST(Steps, StepsLieInMemoryAsNumbersDo) {
  std::uint16_t words[8] = {};
  const Codec wide = codec_with({Map::kDynamic, 8}, 256, Scaling::kBlocks, 32);
  const Codec narrow = codec_with({Map::kDynamic, 8}, 256, Scaling::kRows, 16);
  store_step(wide, words, 1, 1.2345678F);
  float number = 0;
  std::memcpy(&number, words + 2, 4);
  EXPECT_EQ(number, 1.2345678F);
  EXPECT_EQ(load_step(wide, words, 1), 1.2345678F);
  EXPECT_EQ(words[0], 0);
  EXPECT_EQ(words[4], 0);
  store_step(narrow, words, 6, 0.5F);
  EXPECT_EQ(words[6], 0x3F00);
  EXPECT_EQ(load_step(narrow, words, 6), 0.5F);
}

TEST(Steps, RowsAndColumnsAreCountedExactly) {
  const auto bytes = [](Scaling scaling, int step_bits, std::int64_t elements) {
    return step_bytes(codec_with({Map::kDynamic, 4}, 30, scaling, step_bits), elements);
  };
  EXPECT_EQ(bytes(Scaling::kRows, 16, 600), 2 * 20);
  EXPECT_EQ(bytes(Scaling::kRank1, 16, 600), 2 * (20 + 30));
  EXPECT_EQ(bytes(Scaling::kRank1, 32, 600), 4 * (20 + 30));
  EXPECT_EQ(bytes(Scaling::kRank1, 32, 0), 0);
  EXPECT_EQ(step_bytes(codec_with({Map::kDynamic, 4}, 128, Scaling::kBlocks, 32), 257), 4 * 3);
}

// Values over many magnitudes; a row, a column and a block of zeros.
std::vector<float> matrix_values(std::int64_t rows, std::int64_t columns, bool positive) {
  std::vector<float> x = normal_values(rows * columns, 17, 1.0F, positive);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      float& value = x[static_cast<std::size_t>(r * columns + c)];
      value = std::ldexp(value, static_cast<int>(r % 9 - c % 13));
      if (r == 2 || c == 3 || (r == 4 && c % 5 == 0)) value = 0.0F;
    }
  }
  return x;
}

// The codes and values that the specification gives a whole tensor.
struct Expected {
  std::vector<std::uint32_t> codes;
  std::vector<float> values;
  Expected(const Codec& codec, const std::vector<float>& x, const Noise& noise) {
    const auto n = static_cast<std::int64_t>(x.size()), block = std::int64_t{codec.block};
    const MapTable table = map_table(codec.format);
    std::vector<float> of_row(x.size() / static_cast<std::size_t>(block) + 1), of_column(of_row);
    of_column.resize(static_cast<std::size_t>(block));
    const auto at = [](std::vector<float>& v, std::int64_t i) -> float& {
      return v[static_cast<std::size_t>(i)];
    };
    for (std::int64_t i = 0; i < n; ++i) {
      const float magnitude = std::abs(x[static_cast<std::size_t>(i)]);
      at(of_row, i / block) = std::max(at(of_row, i / block), magnitude);
      at(of_column, i % block) = std::max(at(of_column, i % block), magnitude);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      float step = covering_step(codec, at(of_row, i / block));
      if (codec.scaling == Scaling::kRank1)
        step = std::min(step, covering_step(codec, at(of_column, i % block)));
      const std::uint32_t draw =
          takes_draws(codec.rounding) ? rounding_draw(rounding_noise(codec.rounding, noise), i) : 0U;
      codes.push_back(encode_quotient(codec, table, x[static_cast<std::size_t>(i)], step, draw));
      values.push_back(decode_code(codec.format, table, codes.back(), step));
    }
  }
};

class StoredSteps : public testing::Test {
 protected:
  void TearDown() override { use_simd_level(""); }
};

// Every format, scaling, width of steps and rounding, with every instruction set.
TEST_F(StoredSteps, WhatIsStoredIsWhatTheSpecificationSays) {
  CpuPackedDevice one(1), three(3);
  for (const Format f : stored_formats()) {
    if (!is_packed(f) || has_range(f.map)) continue;
    for (const Scaling scaling : kScalings) {
      for (const int step_bits : {16, 32}) {
        for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic, Rounding::kQuasiStochastic,
                                        Rounding::kUpdate, Rounding::kAverage}) {
          if (scaling == Scaling::kBlocks && step_bits == 16) continue;
          if (!can_round(f.map, rounding)) continue;
          for (const auto& [rows, columns] : {std::pair{1, 1}, {7, 91}, {40, 128}, {3, 1500}}) {
            const int block = scaling == Scaling::kBlocks ? 64 : columns;
            const Codec codec = codec_with(f, block, scaling, step_bits, rounding);
            const std::vector<float> x = matrix_values(rows, columns, !is_signed(f.map));
            const auto n = static_cast<std::int64_t>(x.size());
            CpuPackedDevice& device = rows == 40 ? three : one;
            const Noise noise{5, 1, 2, 3};
            const Expected expected(codec, x, noise);
            for (const char* const level : simd_levels()) {
              use_simd_level(level);
              Packed tensor(codec, n);
              ASSERT_TRUE(encode(device, tensor.view(), 0, n, x.data(), noise));
              for (std::int64_t i = 0; i < n; ++i) {
                if (tensor.code(i) == expected.codes[static_cast<std::size_t>(i)]) continue;
                FAIL() << to_string(f) << " " << level << " element " << i << " of " << columns;
              }
              ASSERT_TRUE(same_bits(decoded(device, tensor), expected.values)) << to_string(f);
              EXPECT_TRUE(tensor.intact());
            }
          }
        }
      }
    }
  }
}

// Rows and columns of zeros come back as zeros, also from formats without zero.
TEST_F(StoredSteps, ZeroRowsAndColumnsStayZero) {
  CpuPackedDevice device(1);
  for (const Format f : {Format{Map::kDynamic, 4}, Format{Map::kLinearNoZero, 4}, Format{Map::kLinear, 8}}) {
    for (const Scaling scaling : kScalings) {
      const Codec codec = codec_with(f, 64, scaling, 32);
      const std::vector<float> x = matrix_values(8, 64, !is_signed(f.map));
      Packed tensor(codec, std::ssize(x));
      ASSERT_TRUE(encode(device, tensor.view(), 0, std::ssize(x), x.data(), {}));
      const std::vector<float> back = decoded(device, tensor);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const bool in_zero_row = i / 64 == 2, in_zero_column = scaling == Scaling::kRank1 && i % 64 == 3;
        if (in_zero_row || in_zero_column) {
          EXPECT_EQ(back[i], 0.0F) << i;
        }
        EXPECT_TRUE(std::isfinite(back[i]));
      }
    }
  }
}

// A block counts as having a value of 1e-12, also one of zeros, which a format without zero then lifts.
TEST_F(StoredSteps, FlooredStepsEndAtTorchaos) {
  CpuPackedDevice device(1);
  for (const Format f : {Format{Map::kDynamic, 4}, Format{Map::kLinearNoZero, 4}, Format{Map::kE4m3, 8}}) {
    Codec codec = codec_with(f, 64, Scaling::kBlocks, 32);
    codec.step_mode = StepMode::kFloored;
    std::vector<float> x = matrix_values(8, 64, !is_signed(f.map));
    for (float& value : x) value *= 1e-13F;
    const Expected expected(codec, x, {});
    Packed tensor(codec, std::ssize(x));
    ASSERT_TRUE(encode(device, tensor.view(), 0, std::ssize(x), x.data(), {}));
    EXPECT_TRUE(same_bits(decoded(device, tensor), expected.values)) << to_string(f);
    EXPECT_EQ(load_step(codec, tensor.view().steps, 2), 1e-12F) << "zeros";
    EXPECT_GT(load_step(codec, tensor.view().steps, 7), 1e-12F);
    EXPECT_EQ(expected.values[2 * 64] > 0, is_zero_free(f.map));
  }
}

// Values that cannot be stored are clamped and reported, and do not spoil the steps of others.
TEST_F(StoredSteps, ValuesThatCannotBeStoredAreToldOf) {
  CpuPackedDevice device(1);
  for (const Scaling scaling : kScalings) {
    for (const float bad : {std::nanf(""), INFINITY, -3e37F}) {
      std::vector<float> x = matrix_values(8, 64, false);
      x[5 * 64 + 7] = bad;
      Packed tensor(codec_with({Map::kDynamic, 8}, 64, scaling, 32), std::ssize(x));
      EXPECT_FALSE(encode(device, tensor.view(), 0, std::ssize(x), x.data(), {}));
      for (const float value : decoded(device, tensor)) EXPECT_LE(std::abs(value), kMaxMagnitude);
    }
  }
}

}  // namespace
}  // namespace lpmm::kernels
