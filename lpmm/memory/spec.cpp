#include "lpmm/memory/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/maps.h"
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
  return fmt::format("blockN with N = {}; {}; moving or sticky", alternatives(blocks),
                     alternatives(kRoundingNames));
}

// "bad spec: why\n  text\n     ^^^\n  expected ..."
[[noreturn]] void fail(std::string_view text, std::size_t at, std::size_t length, const std::string& why,
                       const std::string& expected) {
  throw UsageError(fmt::format("bad spec: {} at character {}\n  {}\n  {}{}\n  expected {}", why, at + 1, text,
                               std::string(at, ' '), std::string(std::max<std::size_t>(length, 1), '^'),
                               expected));
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

Spec parse_spec(std::string_view text) {
  if (text.size() > 100) throw UsageError(fmt::format("bad spec: {} characters long", text.size()));
  const std::size_t name_length = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, name_length);
  const auto& formats = all_formats();
  const auto found =
      std::find_if(formats.begin(), formats.end(), [&](Format f) { return to_string(f) == name; });
  if (found == formats.end()) {
    fail(text, 0, name_length, name.empty() ? "no format" : fmt::format("unknown format \"{}\"", name),
         format_choices());
  }
  Spec spec{*found, 128, Rounding::kStochastic, StepMode::kMoving};
  if (!is_packed(spec.format)) spec.block = 0;
  if (spec.format.map == Map::kFp32) spec.rounding = Rounding::kNearest;

  bool has_block = false, has_rounding = false, has_mode = false;
  for (std::size_t at = name_length; at < text.size();) {
    ++at;  // the colon
    const std::size_t length = std::min(text.find(':', at), text.size()) - at;
    const std::string_view part = text.substr(at, length);
    const auto once = [&](bool& seen, bool allowed, const char* what) {
      if (!allowed) {
        fail(text, at, length, fmt::format("{} has no {}", name, what),
             spec.format.map == Map::kFp32 ? "nothing after fp32" : alternatives(kCommonRoundings));
      }
      if (seen) fail(text, at, length, fmt::format("a second {}", what), "each part once");
      seen = true;
    };
    if (part.starts_with("block")) {
      once(has_block, is_packed(spec.format), "block");
      spec.block = 0;
      for (int block = kSmallestBlock; block <= kLargestBlock; block *= 2) {
        if (part.substr(5) == std::to_string(block)) spec.block = block;
      }
      if (spec.block == 0) fail(text, at, length, fmt::format("no such block \"{}\"", part), part_choices());
    } else if (const auto named = std::find(kRoundingNames.begin(), kRoundingNames.end(), part);
               named != kRoundingNames.end()) {
      once(has_rounding, spec.format.map != Map::kFp32, "rounding");
      spec.rounding = static_cast<Rounding>(named - kRoundingNames.begin());
      if (spec.rounding == Rounding::kUpdate && !is_zero_free(spec.format.map)) {
        fail(text, at, length, fmt::format("ur rounds 1 / sqrt of a value, and {} has 0", name),
             alternatives(kCommonRoundings));
      }
    } else if (part == "moving" || part == "sticky") {
      once(has_mode, is_packed(spec.format), "step");
      spec.step_mode = part == "moving" ? StepMode::kMoving : StepMode::kSticky;
      if (spec.step_mode == StepMode::kSticky && !has_sticky_steps(spec.format)) {
        fail(text, at, length,
             fmt::format("{} has no sticky step: its second largest value is about half its range", name),
             "moving");
      }
    } else {
      fail(text, at, length, part.empty() ? "an empty part" : fmt::format("unknown part \"{}\"", part),
           part_choices());
    }
    at += length;
  }
  return spec;
}

std::string to_string(const Spec& spec) {
  std::string text = to_string(spec.format);
  if (is_packed(spec.format)) text += fmt::format(":block{}", spec.block);
  if (spec.format.map != Map::kFp32) text += fmt::format(":{}", to_string(spec.rounding));
  if (spec.step_mode == StepMode::kSticky) text += ":sticky";
  return text;
}

double bits_per_element(const Spec& spec, std::int64_t elements) {
  const std::int64_t bytes = code_bytes(spec.format, elements) + step_bytes(spec, elements);
  return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
}

}  // namespace lpmm
