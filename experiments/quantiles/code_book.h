// Code books: the values that codes stand for, made from the quantiles of what is stored, so that all codes
// are used equally often (quantile quantization, arXiv 2110.02861). A study: packed memory has no such
// format, as tails come out badly (experiments/results/quantiles/README.md).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/device.h"
#include "kernels/formats/format.h"
#include "kernels/formats/quantiles.h"

namespace lpmm {

// Ascending values; a code is a place among them.
using Levels = std::vector<float>;

// The place of the nearest one; of two as near, of the larger magnitude.
std::size_t nearest_level(const Levels& levels, float value);

// The values of a format's codes over the largest.
Levels levels_of(Format format);
// 2^bits levels of values within -1 and 1, or 0 and 1. The ends -1 and 1, without sign only 1, are forced;
// the values are cut into as many equal shares as there are other levels, and each has the middle of the
// quantiles that bound it. Without sign, levels of 0 become half the smallest other. NaN are left out; where
// there is nothing else, all levels are 1.
Levels quantile_levels(Device& device, const PanelSource& values, int bits, bool is_signed);

// The levels that bitsandbytes had until 2025, faults included. Raw: the quantiles offset + i (1 - 2 offset)
// / 255 of values, for i = 0 to 255. Its map: 255 of those for the offset 1/510, without the last but one
// (254), and a 0, over their own largest magnitude, which is not that of the values.
inline constexpr double kRawOffset = 1.0 / 512;
Levels raw_quantile_levels(Device& device, const PanelSource& values, double offset);
Levels bitsandbytes_levels(Device& device, const PanelSource& values);

// relative[i] <- x[i] over its block's step, the smallest bf16 that is no less than its largest magnitude;
// NaN in blocks of zeros, which need no code. Returns the steps; a last block may be a part.
std::vector<std::uint16_t> relative_to_steps(std::span<const float> x, std::int64_t block,
                                             std::span<float> relative);

// Makes levels of what they are to code.
using MakeLevels = std::function<Levels(Device& device, const PanelSource& values)>;
// Returns values as they read back after each was stored as the nearest level, over its block's step.
std::vector<float> stored_by_levels(std::span<const float> x, std::int64_t block, const MakeLevels& make,
                                    Device& device);

// "quantile8:block2048:rn", "uquantile4": of so many bits, with or without sign, in blocks as specs have
// them.
struct CodeBookSpec {
  int bits = 8;
  bool is_signed = true;
  int block = 128;
};
bool names_code_book(std::string_view text);
// Throws UsageError that says what is wrong and what would be right.
CodeBookSpec parse_code_book(std::string_view text);
std::string to_string(const CodeBookSpec& spec);
// Codes, a bf16 step for each block, and the book itself in fp32.
double bits_per_element(const CodeBookSpec& spec, std::int64_t elements);

}  // namespace lpmm
