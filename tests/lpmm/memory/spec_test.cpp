#include "lpmm/memory/spec.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/formats/maps.h"
#include "kernels/formats/scales.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/policy.h"
#include "lpmm/memory/rules.h"

namespace lpmm {
namespace {

Role role_of(const std::string& name) {
  for (const Role role : kEveryElementRole) {
    if (to_string(role) == name) return role;
  }
  throw std::invalid_argument(name);
}

std::string error_of(std::string_view text) {
  try {
    parse_spec(text);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Spec, EverySpecRoundTrips) {
  std::size_t formats = 0;
  for (const MapRow& row : kMaps) formats += static_cast<std::size_t>(std::popcount(row.widths));
  EXPECT_EQ(all_formats().size(), formats);
  std::map<std::string, Spec> texts;
  for (const Format format : all_formats()) {
    EXPECT_TRUE(format_exists(format));
    for (int block = 64; block <= 4096; block *= 2) {
      for (std::size_t r = 0; r < kRoundingNames.size(); ++r) {
        const auto rounding = static_cast<Rounding>(r);
        if (!can_round(format.map, rounding)) continue;
        for (const StepMode mode : {StepMode::kMoving, StepMode::kSticky}) {
          Spec spec{format, block, rounding, mode};
          if (!is_packed(format)) spec.block = 0, spec.step_mode = StepMode::kMoving;
          if (format.map == Map::kFp32) spec.rounding = Rounding::kNearest;
          if (!has_sticky_steps(format)) spec.step_mode = StepMode::kMoving;
          const std::string text = to_string(spec);
          EXPECT_EQ(parse_spec(text), spec) << text;
          EXPECT_EQ(texts.emplace(text, spec).first->second, spec) << "two specs are " << text;
        }
      }
    }
  }
}

TEST(Spec, StepsOfRowsAndInFp32RoundTrip) {
  std::map<std::string, Spec> texts;
  for (const Format format : all_formats()) {
    for (const Scaling scaling : {Scaling::kBlocks, Scaling::kRows, Scaling::kRank1}) {
      for (const std::uint8_t step_bits : {std::uint8_t{16}, std::uint8_t{32}}) {
        Spec spec{format, 64, Rounding::kStochastic, StepMode::kMoving, scaling, step_bits};
        if (scaling != Scaling::kBlocks) spec.block = 0;
        if (!divides_first(spec)) continue;
        const std::string text = to_string(spec);
        if (!is_packed(format)) {
          EXPECT_NE(error_of(to_string(format) + ":step32").find("has no step of its own"),
                    std::string::npos);
          EXPECT_NE(error_of(to_string(format) + ":row").find("has no block, row or rank1"),
                    std::string::npos);
        } else if (has_range(format.map)) {
          EXPECT_NE(error_of(text).find("keeps the range of a block in its step"), std::string::npos) << text;
        } else {
          EXPECT_EQ(parse_spec(text), spec) << text;
          EXPECT_EQ(texts.emplace(text, spec).first->second, spec) << "two specs are " << text;
        }
      }
    }
  }
  EXPECT_EQ(to_string(parse_spec("lin04:rn:step32:rank1")), "lin04:rank1:step32:rn");
  EXPECT_EQ(to_string(parse_spec("de8:step32")), "de8:block128:step32:sr");
  EXPECT_EQ(to_string(parse_spec("de4:floored:step32")), "de4:block128:step32:sr:floored");
}

// tests/golden/make_peer_codes.py
TEST(Spec, CodesOfPeersAreThoseOfTheirLibraries) {
  std::ifstream file(LPMM_SOURCE_DIR "/tests/golden/peer_codes.json");
  for (const auto& stored : nlohmann::json::parse(file)) {
    const Spec spec = make_policy(stored["preset"].get<std::string>()).specs[role_of(stored["role"])];
    const std::vector<float> values = stored["values"];
    const std::vector<std::int64_t> codes = stored["codes"];
    std::int64_t apart = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto block = static_cast<std::size_t>(spec.block), first = i / block * block;
      float largest = 0;
      for (std::size_t k = first; k < first + block; ++k) largest = std::max(largest, std::abs(values[k]));
      const std::uint32_t code =
          encode_quotient(spec, map_table(spec.format), values[i], covering_step(spec, largest), 0);
      const bool is_signed = has_signed_codes(spec.format.map);
      const std::int64_t ours = is_signed ? sign_extend(code, spec.format.bits) : std::int64_t{code};
      EXPECT_LE(std::abs(ours - codes[i]), spec.format.map == Map::kSoftsign ? 1 : 0)
          << to_string(spec) << " at " << i << ", " << values[i];
      apart += ours != codes[i] ? 1 : 0;
    }
    EXPECT_LE(apart, 1) << to_string(spec) << ": softsign is nearest in the value here, on the curve there";
  }
}

// Bits count every step: a vector has blocks, and what is not yet of a tensor is taken for a square matrix.
TEST(Spec, StepsOfRowsAreCounted) {
  const Spec rank1 = parse_spec("de4:rank1:rn");
  EXPECT_EQ(bits_per_element(parse_spec("de8:block256:step32:rn"), 4096), 8 + 32.0 / 256);
  EXPECT_EQ(bits_per_element(rank1, 128 * 128), 4 + 16.0 * 256 / (128 * 128));
  EXPECT_EQ(bits_per_element(fit_spec(rank1, {32, 512}), 32 * 512), 4 + 16.0 * 544 / (32 * 512));
  EXPECT_EQ(bits_per_element(fit_spec(parse_spec("de4:row:step32:rn"), {32, 512}), 32 * 512), 4 + 32.0 / 512);
  EXPECT_EQ(to_string(fit_spec(rank1, {1, 999, true})), "de4:block128:rn");
  EXPECT_EQ(bits_per_element(rank1, 0), 0);
}

TEST(Spec, OmittedPartsHaveDefaults) {
  EXPECT_EQ(to_string(parse_spec("int8")), "int8:block128:sr");
  EXPECT_EQ(to_string(parse_spec("int12:sticky")), "int12:block128:sr:sticky");
  EXPECT_EQ(to_string(parse_spec("ude8:block256:rn:moving")), "ude8:block256:rn");
  EXPECT_EQ(to_string(parse_spec("de04:rn:block64")), "de04:block64:rn");
  EXPECT_EQ(to_string(parse_spec("bf16")), "bf16:sr");
  EXPECT_EQ(to_string(parse_spec("fp32")), "fp32");
}

TEST(Spec, MistakesShowPlaceAndAlternatives) {
  struct Case {
    const char *text, *why, *expected;
    std::size_t at;
  };
  for (const Case& c : {
           Case{"", "no format", "int2 to int16", 1},
           Case{"int1", "unknown format \"int1\"", "int2 to int16", 1},
           Case{"int17:sr", "unknown format \"int17\"", "int2 to int16", 1},
           Case{"de8x", "unknown format", "soft6, soft8", 1},
           Case{" int8", "unknown format", "bf16, fp32", 1},
           Case{"INT8", "unknown format", "bf16, fp32", 1},
           Case{"int8:", "an empty part", "rn, sr, qr, ur or ar", 6},
           Case{"int8::rn", "an empty part", "rn, sr, qr, ur or ar", 6},
           Case{"int8:ur", "ur rounds for 1 / sqrt of a value, and int8 has 0", "rn, sr or qr", 6},
           Case{"int8:ar", "ar rounds for 1 / sqrt of a value, and int8 has 0", "rn, sr or qr", 6},
           Case{"ude8:block64:ur", "ude8 has 0", "rn, sr or qr", 14},
           Case{"log07:sr", "unknown format \"log07\"", "log06, log08", 1},
           Case{"int8:block100", "no such block \"block100\"", "64, 128, 256", 6},
           Case{"int8:block32", "no such block", "64, 128, 256", 6},
           Case{"int8:block8192", "no such block", "64, 128, 256", 6},
           Case{"int8:block", "no such block", "64, 128, 256", 6},
           Case{"int8:block-128", "no such block", "64, 128, 256", 6},
           Case{"int8:block0128", "no such block", "64, 128, 256", 6},
           Case{"int8:block99999999999999999999", "no such block", "64, 128, 256", 6},
           Case{"int8:sr:blok128", "unknown part \"blok128\"", "blockN", 9},
           Case{"int8:sr:rn", "a second rounding", "once", 9},
           Case{"int8:block64:block64", "a second block", "once", 14},
           Case{"int8:sticky:moving", "a second step", "once", 13},
           Case{"bf16:block128", "bf16 has no block", "rn, sr or qr", 6},
           Case{"sqrt02:sticky", "sqrt02 has no sticky step", "moving", 8},
           Case{"soft3:sr:sticky", "soft3 has no sticky step", "moving", 10},
           Case{"int8:block64:row", "a second block, row or rank1", "once", 14},
           Case{"int8:rank1:row", "a second block, row or rank1", "once", 12},
           Case{"int8:step32:step32", "a second step of its own", "once", 13},
           Case{"int8:step16", "unknown part \"step16\"", "step32", 6},
           Case{"int8:rank2", "unknown part \"rank2\"", "row or rank1", 6},
           Case{"int8:row:sticky", "row and sticky", "moving", 10},
           Case{"int8:sticky:step32", "step32 and sticky", "moving", 13},
           Case{"de4:rn:floored", "floored steps of 16 bits", "step32", 8},
           Case{"log04:block64:step32", "log04 keeps the range", "blockN", 15},
           Case{"bf16:rn:sticky", "bf16 has no step", "rn, sr or qr", 9},
           Case{"fp32:rn", "fp32 has no rounding", "nothing", 6},
       }) {
    const std::string error = error_of(c.text);
    EXPECT_NE(error.find(c.why), std::string::npos) << c.text << ": " << error;
    EXPECT_NE(error.find(c.expected), std::string::npos) << error;
    EXPECT_NE(error.find("at character " + std::to_string(c.at) + "\n"), std::string::npos) << error;
    EXPECT_NE(error.find("\n  " + std::string(c.at - 1, ' ') + "^"), std::string::npos) << error;
  }
  EXPECT_NE(error_of(std::string(1000, 'x')).find("1000 characters"), std::string::npos);
}

// A map's formats as lists name them: all, or where there are many the first and the last.
std::vector<std::string> listed_formats(const MapRow& row) {
  std::vector<std::string> names;
  for (const Format format : all_formats()) {
    if (format.map == row.map) names.push_back(to_string(format));
  }
  return names.size() > 6 ? std::vector{names.front(), names.back()} : names;
}

TEST(Spec, ChoicesAreTheTable) {
  const std::string formats = ", " + format_choices() + ",";
  const std::string maps = map_choices([](const MapRow& m) { return m.is_signed; });
  EXPECT_TRUE(formats.starts_with(", int2 to int16, de4, de5,")) << formats;
  EXPECT_TRUE(maps.starts_with("int, de, soft") && maps.ends_with("bf16 or fp32")) << maps;
  for (const MapRow& row : kMaps) {
    const auto names = listed_formats(row);
    for (const std::string& name : names) {
      EXPECT_TRUE(formats.find(" " + name + ",") != std::string::npos ||
                  formats.find(fmt::format(", {} to {},", names.front(), names.back())) != std::string::npos)
          << name << " is not in " << formats;
    }
    const std::string name = names.size() == 1 ? names[0] : std::string(row.name);
    EXPECT_EQ(fmt::format(" {},", maps).find(fmt::format(" {}", name)) != std::string::npos, row.is_signed)
        << name;
    EXPECT_FALSE(row.values.empty() || row.use.empty()) << row.name;
  }
  EXPECT_EQ(map_choices([](const MapRow& m) { return m.map == Map::kSoftsign; }), "soft");
  EXPECT_EQ(map_choices([](const MapRow&) { return false; }), "");
}

// A format that README.md's table of formats does not name is one that nobody finds.
TEST(Spec, ReadmeNamesEveryFormat) {
  std::ifstream file(LPMM_SOURCE_DIR "/README.md");
  std::set<std::string> named;  // the words in `code` in rows of tables
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('|')) continue;
    for (std::size_t at = 0; (at = line.find('`', at)) != std::string::npos;) {
      const std::size_t end = std::min(line.find('`', at + 1), line.size());
      named.insert(line.substr(at + 1, end - at - 1));
      at = std::min(end + 1, line.size());
    }
  }
  for (const MapRow& row : kMaps) {
    for (const std::string& name : listed_formats(row)) {
      EXPECT_TRUE(named.contains(name)) << name << ": README.md's table of formats has no row for it";
    }
  }
}

TEST(Spec, DocumentsNameEveryRuleAndPreset) {
  const std::string readme = read_text(LPMM_SOURCE_DIR "/README.md", 1 << 20);
  const std::size_t list = readme.find("Optimizers: `");
  ASSERT_NE(list, std::string::npos);
  const std::string rules = readme.substr(list, readme.find('\n', list) - list);
  for (const std::string_view name : rule_names()) {
    EXPECT_NE(rules.find(fmt::format("`{}`", name)), std::string::npos)
        << name << ": README.md's list of optimizers lacks it";
  }
  const std::string inside = read_text(LPMM_SOURCE_DIR "/lpmm/memory/README.md", 1 << 20);
  for (const std::string_view name : preset_names()) {
    std::string row = fmt::format("\n| `{}` |", name);
    const RoleSpecs specs = make_policy(name).specs;
    for (const Role role : kEveryElementRole) row += fmt::format(" `{}` |", to_string(role, specs[role]));
    EXPECT_NE(inside.find(row + '\n'), std::string::npos)
        << "lpmm/memory/README.md's table of presets lacks the row" << row;
  }
}

TEST(Spec, BitsPerElementCountStepsAndPadding) {
  EXPECT_DOUBLE_EQ(bits_per_element(parse_spec("int12:block128"), 1 << 20), 12.125);
  EXPECT_DOUBLE_EQ(bits_per_element(parse_spec("int8:block256"), 1 << 20), 8.0625);
  EXPECT_DOUBLE_EQ(bits_per_element(parse_spec("fp32"), 7), 32);
  EXPECT_DOUBLE_EQ(bits_per_element(parse_spec("bf16"), 7), 16);
  EXPECT_DOUBLE_EQ(bits_per_element(parse_spec("int4:block64"), 1), 8.0 * (64 + 2));
  EXPECT_DOUBLE_EQ(bits_per_element(parse_spec("int4"), 0), 0);
}

}  // namespace
}  // namespace lpmm
