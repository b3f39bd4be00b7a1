#include "lpmm/memory/spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/formats/maps.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"

namespace lpmm {
namespace {

constexpr std::size_t kListed = 6;  // widths that are listed one by one

// "a, b or c"
template <class Names>
std::string alternatives(const Names& names) {
  if (names.empty()) return "";
  const auto last = names.end() - 1;
  if (last == names.begin()) return std::string(*last);
  return fmt::format("{} or {}", fmt::join(names.begin(), last, ", "), *last);
}

std::string part_choices() {
  std::vector<std::string> blocks;
  for (int block = kSmallestBlock; block <= kLargestBlock; block *= 2) {
    blocks.push_back(std::to_string(block));
  }
  return fmt::format("blockN with N = {}, {} or {}; {}; {}; {}", fmt::join(blocks, ", "), kRowName,
                     kRank1Name, kFp32StepName, alternatives(kRoundingNames), alternatives(kModeNames));
}

}  // namespace

std::string_view to_string(Role role) {
  return kRoleRows[role].name;
}

std::string_view to_string(Rounding rounding) {
  return kRoundingNames[static_cast<std::size_t>(rounding)];
}

std::string format_choices() {
  std::vector<std::string> names;
  for (const MapRow& row : kMaps) {
    const std::size_t first = names.size();
    for (std::uint8_t bits = 0; bits <= kMostBits; ++bits) {
      if (format_exists({row.map, bits})) names.push_back(to_string(Format{row.map, bits}));
    }
    if (names.size() - first <= kListed) continue;
    const std::string range = names[first] + " to " + names.back();
    names.resize(first);
    names.push_back(range);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string map_choices(bool (*wanted)(const MapRow&)) {
  std::vector<std::string> names;
  for (const MapRow& row : kMaps) {
    if (!wanted(row)) continue;
    const auto bits = static_cast<std::uint8_t>(std::countr_zero(row.widths));
    names.push_back(std::has_single_bit(row.widths) ? to_string(Format{row.map, bits})
                                                    : std::string(row.name));
  }
  return alternatives(names);
}

namespace {

struct Explained {
  std::string why, expected;
};
Explained explain(const SpecReader& read) {
  const std::string_view name = read.format, part = read.part;
  const bool is_fp32 = read.codec.format.map == Map::kFp32;
  switch (read.mistake) {
    case SpecMistake::kNone:
      break;
    case SpecMistake::kNoFormat:
      return {name.empty() ? "no format" : fmt::format("unknown format \"{}\"", name), format_choices()};
    case SpecMistake::kNotOfFormat:
      return {fmt::format("{} has no {}", name, read.what),
              is_fp32 ? "nothing after fp32" : alternatives(kCommonRoundings)};
    case SpecMistake::kTwice:
      return {fmt::format("a second {}", read.what), "each part once"};
    case SpecMistake::kNoBlock:
      return {fmt::format("no such block \"{}\"", part), part_choices()};
    case SpecMistake::kRounding:
      return {fmt::format("{} rounds for 1 / sqrt of a value, and {} has 0", part, name),
              alternatives(kCommonRoundings)};
    case SpecMistake::kSticky:
      return {fmt::format("{} has no sticky step: its second largest value is about half its range", name),
              "moving"};
    case SpecMistake::kNoPart:
      return {part.empty() ? "an empty part" : fmt::format("unknown part \"{}\"", part), part_choices()};
    case SpecMistake::kRangeInStep:
      return {fmt::format("{} keeps the range of a block in its step", name),
              "blockN, and a step of 16 bits"};
    case SpecMistake::kStickyApart:
      return {fmt::format("{} and sticky: such steps are chosen afresh at every write", read.apart),
              "moving"};
    case SpecMistake::kFloored:
      return {"floored steps of 16 bits", "floored with step32"};
  }
  return {};
}

}  // namespace

Spec parse_spec(std::string_view text) {
  if (text.size() > 100) throw UsageError(fmt::format("bad spec: {} characters long", text.size()));
  const SpecReader read(text);
  if (read.mistake == SpecMistake::kNone) return read.codec;
  const auto [why, expected] = explain(read);
  // "bad spec: why\n  text\n     ^^^\n  expected ..."
  throw UsageError(fmt::format("bad spec: {} at character {}\n  {}\n  {}{}\n  expected {}", why, read.at + 1,
                               text, std::string(read.at, ' '),
                               std::string(std::max<std::size_t>(read.part.size(), 1), '^'), expected));
}

Spec fit_spec(Spec spec, const TensorTraits& tensor) {
  if (has_blocks(spec)) return spec;
  if (tensor.is_vector || tensor.rows <= 1 || tensor.columns <= 1) {
    spec.scaling = Scaling::kBlocks;
    spec.block = kUsualBlock;
    return spec;
  }
  if (tensor.columns > std::numeric_limits<std::int32_t>::max()) {
    throw UsageError(fmt::format("rows of {} elements are too long for {}; use a block", tensor.columns,
                                 scaling_name(spec)));
  }
  spec.block = static_cast<std::int32_t>(tensor.columns);
  return spec;
}

std::string scaling_name(const Spec& spec) {
  if (spec.scaling == Scaling::kRows) return std::string(kRowName);
  if (spec.scaling == Scaling::kRank1) return std::string(kRank1Name);
  return is_packed(spec.format) ? fmt::format("block{}", spec.block) : "";
}

std::string to_string(const Spec& spec) {
  std::string text = to_string(spec.format);
  if (is_packed(spec.format)) text += ":" + scaling_name(spec);
  if (spec.step_bits == 32) text += fmt::format(":{}", kFp32StepName);
  if (spec.format.map != Map::kFp32) text += fmt::format(":{}", to_string(spec.rounding));
  if (spec.step_mode != StepMode::kMoving) {
    text += fmt::format(":{}", kModeNames[static_cast<std::size_t>(spec.step_mode)]);
  }
  return text;
}

double bits_per_element(const Spec& given, std::int64_t elements) {
  const auto side = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(elements))));
  const Spec spec = given.block == 0 ? fit_spec(given, {side, side}) : given;
  const std::int64_t bytes = code_bytes(spec.format, elements) + step_bytes(spec, elements);
  return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
}

}  // namespace lpmm
