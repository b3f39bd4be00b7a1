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
constexpr std::string_view kRowName = "row", kRank1Name = "rank1", kFp32StepName = "step32";
constexpr int kUsualBlock = 128;
constexpr std::array<std::string_view, 3> kModeNames = {"moving", "sticky", "floored"};  // by StepMode

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

namespace {

// A spec while it is read, and the part that is being read.
struct SpecParser {
  explicit SpecParser(std::string_view whole) : text(whole) {}

  std::string_view text, name;
  Spec spec;
  std::size_t at = 0, length = 0;
  bool has_scaling = false, has_rounding = false, has_mode = false, has_width = false;
  std::string_view apart;  // the part by which steps are not one bf16 number a block

  [[noreturn]] void refuse(const std::string& why, const std::string& expected) const {
    fail(text, at, length, why, expected);
  }

  void read_format() {
    length = std::min(text.find(':'), text.size());
    name = text.substr(0, length);
    const auto& formats = all_formats();
    const auto found =
        std::find_if(formats.begin(), formats.end(), [&](Format f) { return to_string(f) == name; });
    if (found == formats.end()) {
      refuse(name.empty() ? "no format" : fmt::format("unknown format \"{}\"", name), format_choices());
    }
    spec = {*found, kUsualBlock, Rounding::kStochastic, StepMode::kMoving};
    if (!is_packed(spec.format)) spec.block = 0;
    if (spec.format.map == Map::kFp32) spec.rounding = Rounding::kNearest;
  }

  void once(bool& seen, bool allowed, std::string_view what) const {
    if (!allowed) {
      refuse(fmt::format("{} has no {}", name, what),
             spec.format.map == Map::kFp32 ? "nothing after fp32" : alternatives(kCommonRoundings));
    }
    if (seen) refuse(fmt::format("a second {}", what), "each part once");
    seen = true;
  }

  // The part's steps are not what this format or mode is made for.
  void check_apart() const {
    if (apart.empty()) return;
    if (has_range(spec.format.map)) {
      refuse(fmt::format("{} keeps the range of a block in its step", name), "blockN, and a step of 16 bits");
    }
    if (spec.step_mode == StepMode::kSticky) {
      refuse(fmt::format("{} and sticky: such steps are chosen afresh at every write", apart), "moving");
    }
  }

  void read_part(std::string_view part) {
    const bool packed = is_packed(spec.format);
    const auto named = std::find(kRoundingNames.begin(), kRoundingNames.end(), part);
    const auto mode = std::find(kModeNames.begin(), kModeNames.end(), part);
    if (part.starts_with("block")) {
      once(has_scaling, packed, "block");
      spec.block = 0;
      for (int block = kSmallestBlock; block <= kLargestBlock; block *= 2) {
        if (part.substr(5) == std::to_string(block)) spec.block = block;
      }
      if (spec.block == 0) refuse(fmt::format("no such block \"{}\"", part), part_choices());
    } else if (part == kRowName || part == kRank1Name) {
      once(has_scaling, packed, "block, row or rank1");
      spec.scaling = part == kRowName ? Scaling::kRows : Scaling::kRank1;
      spec.block = 0;  // the tensor says it
      apart = part;
    } else if (part == kFp32StepName) {
      once(has_width, packed, "step of its own");
      spec.step_bits = 32;
      apart = part;
    } else if (named != kRoundingNames.end()) {
      once(has_rounding, spec.format.map != Map::kFp32, "rounding");
      spec.rounding = static_cast<Rounding>(named - kRoundingNames.begin());
      if (!can_round(spec.format.map, spec.rounding)) {
        refuse(fmt::format("{} rounds for 1 / sqrt of a value, and {} has 0", part, name),
               alternatives(kCommonRoundings));
      }
    } else if (mode != kModeNames.end()) {
      once(has_mode, packed, "step");
      spec.step_mode = static_cast<StepMode>(mode - kModeNames.begin());
      if (spec.step_mode == StepMode::kSticky && !has_sticky_steps(spec.format)) {
        refuse(fmt::format("{} has no sticky step: its second largest value is about half its range", name),
               "moving");
      }
    } else {
      refuse(part.empty() ? "an empty part" : fmt::format("unknown part \"{}\"", part), part_choices());
    }
    check_apart();
  }
};

}  // namespace

Spec parse_spec(std::string_view text) {
  if (text.size() > 100) throw UsageError(fmt::format("bad spec: {} characters long", text.size()));
  SpecParser parser(text);
  parser.read_format();
  for (std::size_t end = parser.length; end < text.size();) {
    parser.at = end + 1;  // behind the colon
    end = std::min(text.find(':', parser.at), text.size());
    parser.length = end - parser.at;
    parser.read_part(text.substr(parser.at, parser.length));
  }
  if (parser.spec.step_mode == StepMode::kFloored && parser.spec.step_bits != 32) {
    parser.refuse("floored steps of 16 bits", "floored with step32");
  }
  return parser.spec;
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
