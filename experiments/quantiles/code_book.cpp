#include "experiments/quantiles/code_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/formats/codec.h"
#include "kernels/formats/maps.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/spec.h"

namespace lpmm {
namespace {

constexpr std::string_view kSignedName = "quantile", kUnsignedName = "uquantile";
constexpr int kFewestBits = 2, kMostBitsOfBook = 8;

Levels exact(Device& device, const PanelSource& values, std::span<const double> shares) {
  return quantiles(device, values, shares, QuantileMethod::kExact).values;
}

}  // namespace

std::size_t nearest_level(const Levels& levels, float value) {
  const auto above = std::lower_bound(levels.begin(), levels.end(), value);
  if (above == levels.begin()) return 0;
  const auto place = static_cast<std::size_t>(above - levels.begin());
  if (above == levels.end()) return place - 1;
  const double up = static_cast<double>(*above) - value, down = static_cast<double>(value) - *(above - 1);
  return up < down || (up == down && value > 0.0F) ? place : place - 1;
}

Levels levels_of(Format format) {
  Levels levels;
  const MapTable table = map_table(format);
  if (table.values != nullptr) return {table.values, table.values + table.entries};
  const int limit = code_limit(format.bits);
  for (int code = -limit; code <= limit; ++code) {
    levels.push_back(static_cast<float>(code) / static_cast<float>(limit));
  }
  return levels;
}

Levels quantile_levels(Device& device, const PanelSource& values, int bits, bool is_signed) {
  const std::size_t count = std::size_t{1} << bits, cells = is_signed ? count - 2 : count - 1;
  std::vector<double> shares;
  for (std::size_t i = 0; i <= cells; ++i)
    shares.push_back(static_cast<double>(i) / static_cast<double>(cells));
  const Levels borders = exact(device, values, shares);
  if (std::isnan(borders.front())) return Levels(count, 1.0F);
  Levels levels;
  if (is_signed) levels.push_back(-1.0F);
  for (std::size_t i = 0; i < cells; ++i) levels.push_back(0.5F * (borders[i] + borders[i + 1]));
  levels.push_back(1.0F);
  if (!is_signed) {
    const float smallest = *std::upper_bound(levels.begin(), levels.end(), 0.0F);
    for (float& level : levels) level = level > 0.0F ? level : 0.5F * smallest;
  }
  return levels;
}

Levels raw_quantile_levels(Device& device, const PanelSource& values, double offset) {
  std::vector<double> shares;
  for (int i = 0; i < 256; ++i) shares.push_back(offset + i * (1 - 2 * offset) / 255);
  return exact(device, values, shares);
}

Levels bitsandbytes_levels(Device& device, const PanelSource& values) {
  constexpr int kMissing = 254;
  Levels levels = raw_quantile_levels(device, values, 1.0 / 510);
  levels.erase(levels.begin() + kMissing);
  levels.push_back(0.0F);
  std::sort(levels.begin(), levels.end());
  const float largest = std::max(std::abs(levels.front()), std::abs(levels.back()));
  if (largest > 0.0F) {
    for (float& level : levels) level /= largest;
  }
  return levels;
}

std::vector<std::uint16_t> relative_to_steps(std::span<const float> x, std::int64_t block,
                                             std::span<float> relative) {
  std::vector<std::uint16_t> steps;
  for (std::size_t first = 0; first < x.size();) {
    const std::size_t count = std::min(x.size() - first, static_cast<std::size_t>(block));
    float largest = 0;
    for (const float v : x.subspan(first, count)) largest = std::max(largest, std::abs(v));
    steps.push_back(next_step(1.0F, StepMode::kMoving, largest, 0));
    const float step = bf16_to_float(steps.back());
    for (std::size_t i = first; i < first + count; ++i) {
      relative[i] = step > 0.0F ? x[i] / step : std::numeric_limits<float>::quiet_NaN();
    }
    first += count;
  }
  return steps;
}

std::vector<float> stored_by_levels(std::span<const float> x, std::int64_t block, const MakeLevels& make,
                                    Device& device) {
  std::vector<float> read(x.size());
  const std::vector<std::uint16_t> steps = relative_to_steps(x, block, read);
  const Levels levels =
      make(device, [&](const PanelVisitor& visit) { visit(read.data(), std::ssize(read)); });
  for (std::size_t i = 0; i < read.size(); ++i) {
    const float step = bf16_to_float(steps[i / static_cast<std::size_t>(block)]);
    read[i] = step == 0.0F ? 0.0F : levels[nearest_level(levels, read[i])] * step;
  }
  return read;
}

bool names_code_book(std::string_view text) {
  return text.starts_with(kSignedName) || text.starts_with(kUnsignedName);
}

CodeBookSpec parse_code_book(std::string_view text) {
  const auto fail = [&](std::string_view part) {
    throw UsageError(fmt::format(
        "\"{}\": there is no \"{}\"; a code book is {}N or {}N with N = {} to {}, then :blockN with "
        "N = {} to {}, a power of 2, and :rn, the one rounding it has",
        text, part, kSignedName, kUnsignedName, kFewestBits, kMostBitsOfBook, kSmallestBlock, kLargestBlock));
  };
  CodeBookSpec spec;
  bool has_block = false, has_rounding = false;
  for (std::size_t at = 0, end = 0; end != text.npos; at = end + 1) {
    end = text.find(':', at);
    const std::string_view part = text.substr(at, end - at);
    const bool is_first = at == 0;
    bool& seen = part == "rn" ? has_rounding : has_block;
    if (!is_first && std::exchange(seen, true)) fail(part);  // each part once
    if (!is_first && part == "rn") continue;
    if (is_first) spec.is_signed = part.starts_with(kSignedName);
    const std::string_view name = !is_first ? "block" : spec.is_signed ? kSignedName : kUnsignedName;
    if (!part.starts_with(name)) fail(part);
    int number = 0;
    const auto read = std::from_chars(part.data() + name.size(), part.data() + part.size(), number);
    const bool is_read = read.ec == std::errc() && read.ptr == part.data() + part.size();
    if (!is_read || part[name.size()] == '0') fail(part);
    if (is_first && (number < kFewestBits || number > kMostBitsOfBook)) fail(part);
    if (!is_first && (number < kSmallestBlock || number > kLargestBlock || (number & (number - 1)) != 0)) {
      fail(part);
    }
    (is_first ? spec.bits : spec.block) = number;
  }
  return spec;
}

std::string to_string(const CodeBookSpec& spec) {
  return fmt::format("{}{}:block{}:rn", spec.is_signed ? kSignedName : kUnsignedName, spec.bits, spec.block);
}

double bits_per_element(const CodeBookSpec& spec, std::int64_t elements) {
  const auto count = static_cast<double>(elements);
  return spec.bits +
         (16 * static_cast<double>(blocks_of(elements, spec.block)) + 32.0 * (1 << spec.bits)) / count;
}

}  // namespace lpmm
