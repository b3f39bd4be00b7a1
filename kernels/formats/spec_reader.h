// Reads a spec, the text that says how a role is stored (lpmm/memory/spec.h), while the program is compiled
// or while it runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <type_traits>

#include "kernels/formats/format.h"
#include "kernels/formats/maps.h"

namespace lpmm {

inline constexpr std::array<std::string_view, 5> kRoundingNames = {"rn", "sr", "qr", "ur",
                                                                   "ar"};  // by Rounding
static_assert(static_cast<int>(Rounding::kAverage) + 1 == std::size(kRoundingNames));
inline constexpr std::array<std::string_view, 3> kModeNames = {"moving", "sticky", "floored"};  // by StepMode
static_assert(static_cast<int>(StepMode::kFloored) + 1 == std::size(kModeNames));
inline constexpr int kSmallestBlock = 64, kLargestBlock = 4096;  // and the powers of two between
inline constexpr int kUsualBlock = 128;
inline constexpr std::string_view kRowName = "row", kRank1Name = "rank1", kFp32StepName = "step32";
inline constexpr std::string_view kNoCompensation = "none";

// True if these are the digits of a number from 0 on, without leading zeros.
constexpr bool spells(std::string_view digits, int number) {
  while (!digits.empty() && digits.back() == '0' + number % 10) {
    digits.remove_suffix(1);
    number /= 10;
    if (number == 0) return digits.empty();
  }
  return false;
}

constexpr std::optional<Format> find_format(std::string_view name) {
  for (const MapRow& row : kMaps) {
    if (!name.starts_with(row.name)) continue;
    const std::string_view rest = name.substr(row.name.size());
    for (std::uint8_t bits = 0; bits <= kMostBits; ++bits) {
      const Format format = {row.map, bits};
      if (format_exists(format) && (row.names_width ? spells(rest, bits) : rest.empty())) return format;
    }
  }
  return {};
}

enum class SpecMistake : std::uint8_t {
  kNone,
  kNoFormat,
  kNotOfFormat,
  kTwice,
  kNoBlock,
  kRounding,
  kSticky,
  kNoPart,
  kRangeInStep,  // the format keeps the range of a block there
  kStickyApart,
  kFloored
};

// The codec of a spec, or its first mistake, which is in the part from `at` on.
class SpecReader {
 public:
  Codec codec;
  SpecMistake mistake = SpecMistake::kNone;
  std::size_t at = 0;
  std::string_view part, format;
  std::string_view what;   // is not of the format, or comes twice
  std::string_view apart;  // the part by which steps are not one bf16 number a block

  constexpr explicit SpecReader(std::string_view text) {
    format = part = text.substr(0, text.find(':'));
    read_format();
    for (std::size_t end = part.size(); mistake == SpecMistake::kNone && end < text.size();
         end = at + part.size()) {
      at = end + 1;  // behind the colon
      part = text.substr(at, text.find(':', at) - at);
      read_part();
    }
    if (codec.step_mode == StepMode::kFloored && codec.step_bits != 32) refuse(SpecMistake::kFloored);
  }

 private:
  constexpr void refuse(SpecMistake why) {
    if (mistake == SpecMistake::kNone) mistake = why;
  }
  constexpr void read_format() {
    const std::optional<Format> found = find_format(part);
    if (!found) return refuse(SpecMistake::kNoFormat);
    codec = {*found, is_packed(*found) ? kUsualBlock : 0, Rounding::kStochastic, StepMode::kMoving};
    if (found->map == Map::kFp32) codec.rounding = Rounding::kNearest;
  }
  constexpr void once(bool& seen, bool is_allowed, std::string_view of) {
    what = of;
    if (!is_allowed) refuse(SpecMistake::kNotOfFormat);
    if (seen) refuse(SpecMistake::kTwice);
    seen = true;
  }
  constexpr void read_part() {
    const bool packed = is_packed(codec.format);
    const auto named = std::find(kRoundingNames.begin(), kRoundingNames.end(), part);
    const auto mode = std::find(kModeNames.begin(), kModeNames.end(), part);
    if (part.starts_with("block")) {
      once(has_scaling_, packed, "block");
      codec.block = 0;
      for (int block = kSmallestBlock; block <= kLargestBlock; block *= 2) {
        if (spells(part.substr(5), block)) codec.block = block;
      }
      if (codec.block == 0) refuse(SpecMistake::kNoBlock);
    } else if (part == kRowName || part == kRank1Name) {
      once(has_scaling_, packed, "block, row or rank1");
      codec.scaling = part == kRowName ? Scaling::kRows : Scaling::kRank1;
      codec.block = 0;  // the tensor says it
      apart = part;
    } else if (part == kFp32StepName) {
      once(has_width_, packed, "step of its own");
      codec.step_bits = 32;
      apart = part;
    } else if (named != kRoundingNames.end()) {
      once(has_rounding_, codec.format.map != Map::kFp32, "rounding");
      codec.rounding = static_cast<Rounding>(named - kRoundingNames.begin());
      if (!can_round(codec.format.map, codec.rounding)) refuse(SpecMistake::kRounding);
    } else if (mode != kModeNames.end()) {
      once(has_mode_, packed, "step");
      codec.step_mode = static_cast<StepMode>(mode - kModeNames.begin());
      // The compiler has no tables to see it; the specs that it reads are read at run time too.
      if (!std::is_constant_evaluated() && codec.step_mode == StepMode::kSticky &&
          !has_sticky_steps(codec.format)) {
        refuse(SpecMistake::kSticky);
      }
    } else {
      refuse(SpecMistake::kNoPart);
    }
    // The part's steps are not what this format or mode is made for.
    if (apart.empty()) return;
    if (has_range(codec.format.map)) refuse(SpecMistake::kRangeInStep);
    if (codec.step_mode == StepMode::kSticky) refuse(SpecMistake::kStickyApart);
  }

  bool has_scaling_ = false, has_rounding_ = false, has_mode_ = false, has_width_ = false;
};

}  // namespace lpmm
