#include "kernels/formats/maps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace lpmm {
namespace {

// Decade i has multiplier 10^(i - decades + 1) and 2^i cells of [0.1, 1] when signed, 2^(i+1) when not; a
// cell gives its midpoint, and its negative when signed. 0 and 1 complete the map.
std::vector<float> dynamic_map(int bits, bool with_sign) {
  const int decades = bits - 1;
  std::vector<float> map = {0.0F, 1.0F};
  for (int i = 0; i < decades; ++i) {
    const int cells = 1 << (with_sign ? i : i + 1);
    const double scale = std::pow(10.0, i - decades + 1);
    for (int cell = 0; cell < cells; ++cell) {
      const double value = scale * (0.1 + 0.9 * (cell + 0.5) / cells);
      map.push_back(static_cast<float>(value));
      if (with_sign) map.push_back(static_cast<float>(-value));
    }
  }
  std::sort(map.begin(), map.end());
  return map;
}

// As published: 8 levels above 0 and 7 below, at quantiles that are spaced evenly on each side.
constexpr std::array<float, 16> kNormalFloat4 = {
    -1.0F,      -0.6961928F, -0.52507305F, -0.3949175F, -0.28444138F, -0.18477343F, -0.091050036F, 0.0F,
    0.0795803F, 0.1609302F,  0.2461123F,   0.33791524F, 0.44070983F,  0.562617F,    0.72295684F,   1.0F};

// The e4m3 number of a pattern with its sign apart: subnormals below 2^-6, 448 the last that is no NaN.
constexpr int kLargestE4m3 = 0x7E;
float e4m3(int signed_pattern) {
  const int pattern = std::abs(signed_pattern), exponent = pattern >> 3, mantissa = pattern & 7;
  const float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                    : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return signed_pattern < 0 ? -value : value;
}

// The maps of a log format, range after range; behind them the codes per octave of each range, then the
// smallest value of each. Range i has most^(i / 31) octaves: from 1 to one for each code, which is as far as
// few bits are better than a smallest value that is too large.
std::vector<float> log_maps(int bits) {
  const int codes = 1 << bits;
  const double most = std::min(codes, 40);
  std::vector<float> map, codes_per_octave, least;
  for (int range = 0; range < kRanges; ++range) {
    const double octaves = std::pow(most, range / (kRanges - 1.0));
    for (int k = 0; k < codes; ++k) {
      map.push_back(static_cast<float>(std::exp2(-octaves * (codes - 1 - k) / (codes - 1))));
    }
    codes_per_octave.push_back(static_cast<float>((codes - 1) / octaves));
    least.push_back(map[map.size() - static_cast<std::size_t>(codes)]);
  }
  map.insert(map.end(), codes_per_octave.begin(), codes_per_octave.end());
  map.insert(map.end(), least.begin(), least.end());
  return map;
}

std::vector<float> build(Format f) {
  const int levels = 1 << f.bits;
  std::vector<float> map;
  switch (f.map) {
    case Map::kDynamic:
      return dynamic_map(f.bits, true);
    case Map::kDynamicUnsigned:
      return dynamic_map(f.bits, false);
    case Map::kDynamicNoZero:
      map = dynamic_map(f.bits, false);
      map[0] = map[1] / 2.0F;
      return map;
    case Map::kLinearNoZero:
      for (int i = 1; i <= levels; ++i) map.push_back(static_cast<float>(i) / static_cast<float>(levels));
      return map;
    case Map::kSquareRoot:
      for (int i = 1; i <= levels; ++i) {
        const float root = static_cast<float>(i) / static_cast<float>(levels);
        map.push_back(root * root);
      }
      return map;
    case Map::kSquareRootWithZero:
      for (int i = 0; i < levels; ++i) {
        const double root = i / (levels - 1.0);
        map.push_back(static_cast<float>(root * root));
      }
      return map;
    case Map::kLog:
      return log_maps(f.bits);
    case Map::kSoftsign: {
      const int limit = code_limit(f.bits);
      for (int i = -limit; i <= limit; ++i)
        map.push_back(static_cast<float>(i) / static_cast<float>(2 * limit - std::abs(i)));
      return map;
    }
    case Map::kNormalFloat:
      return {kNormalFloat4.begin(), kNormalFloat4.end()};
    case Map::kE4m3:
      for (int i = -kLargestE4m3; i <= kLargestE4m3; ++i) map.push_back(e4m3(i) / e4m3(kLargestE4m3));
      return map;
    case Map::kLinear:
    case Map::kUlp:
    case Map::kBf16:
    case Map::kFp32:
      break;  // no table
  }
  return map;
}

// A zone that no value reaches, and one that puts every value on the entry of zero.
constexpr Zone kBeyond = {std::numeric_limits<float>::infinity(), 0.0F, 0.0F, 0.0F, 0};
constexpr Zone kNothing = {0.0F, 0.0F, 0.0F, 0.0F, 0};

// Zones of a dynamic map whose magnitudes ascend in `magnitudes`: from the first entry of one decade to the
// first of the next (zone 0: from the smallest entry of all). A decade's cells are equal but for the last.
std::vector<Zone> dynamic_zones(Format f, const float* magnitudes) {
  const int decades = f.bits - 1;
  const float origin = magnitudes[0];
  std::vector<Zone> zones = {{origin, 1.0F / (magnitudes[1] - origin), 1.0F, 1.0F, 0}};
  int number = 1;
  for (int i = 0; i < decades; ++i) {
    const int cells = 1 << (is_signed(f.map) ? i : i + 1);
    const double scale = cells / 0.9 * std::pow(10.0, decades - 1 - i);
    zones.push_back({magnitudes[number], static_cast<float>(scale), static_cast<float>(cells - 1),
                     i + 1 == decades ? 2.0F : 1.0F / 3.0F, number});
    number += cells;
  }
  return zones;
}

// Zones of any table whose magnitudes ascend: runs of cells that are equal to 1e-5 of their width, which is
// finer than positions are rounded.
std::vector<Zone> runs_of_cells(const std::vector<double>& magnitudes) {
  const auto width = [&](std::size_t cell) { return magnitudes[cell + 1] - magnitudes[cell]; };
  std::vector<Zone> zones;
  for (std::size_t first = 0, end = 0; first + 1 < magnitudes.size(); first = end) {
    for (end = first; end + 1 < magnitudes.size(); ++end) {
      if (std::abs(width(end) - width(first)) > 1e-5 * width(first)) break;
    }
    const auto cells = static_cast<double>(end - first);
    zones.push_back({static_cast<float>(magnitudes[first]),
                     static_cast<float>(cells / (magnitudes[end] - magnitudes[first])),
                     static_cast<float>(cells), 0.0F, static_cast<std::int32_t>(first)});
  }
  if (zones.empty()) zones.push_back(kNothing);
  return zones;
}

struct Tables {
  std::vector<float> values;  // padded to 2^bits
  std::vector<Zone> zones;
  int entries = 0;
  std::int32_t zero = 0;
};

void add_side(Tables& t, std::vector<Zone> zones) {
  if (zones.size() > kZones) throw std::logic_error("a map of more zones than kernels/formats/codec.h holds");
  zones.resize(kZones, kBeyond);
  t.zones.insert(t.zones.end(), zones.begin(), zones.end());
}

void build_zones(Format f, Tables& t) {
  const auto zero = is_signed(f.map) ? std::find(t.values.begin(), t.values.end(), 0.0F) : t.values.begin();
  t.zero = static_cast<std::int32_t>(zero - t.values.begin());
  if (coding_of(f.map) == Coding::kDynamic) {
    std::vector<Zone> zones = dynamic_zones(f, &*zero);
    add_side(t, zones);
    zones.back().stretch = 0.0F;  // 1 has no negative
    add_side(t, is_signed(f.map) ? zones : std::vector<Zone>{kNothing});
    return;
  }
  add_side(t, runs_of_cells({zero, t.values.end()}));
  std::vector<double> negative;
  for (auto at = zero + 1; at != t.values.begin();) negative.push_back(std::abs(*--at));
  add_side(t, runs_of_cells(negative));
}

Tables build_tables(Format f) {
  Tables t;
  t.values = build(f);
  const Coding coding = coding_of(f.map);
  if (has_range(coding)) {
    t.entries = 1 << f.bits;
    return t;
  }
  t.entries = static_cast<int>(t.values.size());
  if (coding == Coding::kDynamic || coding == Coding::kZones) build_zones(f, t);
  t.values.resize(std::size_t{1} << f.bits, t.values.back());
  return t;
}

}  // namespace

const std::vector<Format>& all_formats() {
  static const std::vector<Format> kFormats = [] {
    std::vector<Format> formats;
    for (const MapRow& row : kMaps) {
      for (std::uint8_t bits = 0; bits <= kMostBits; ++bits) {
        if (format_exists({row.map, bits})) formats.push_back({row.map, bits});
      }
    }
    return formats;
  }();
  return kFormats;
}

std::string to_string(Format format) {
  const MapRow& row = row_of(format.map);
  return std::string(row.name) + (row.names_width ? std::to_string(format.bits) : "");
}

bool has_sticky_steps(Format f) {
  const MapTable table = map_table(f);
  if (table.values == nullptr || has_range(f.map)) return true;
  return table.values[table.entries - 2] >= kStickySlack &&
         (!is_signed(f.map) || -table.values[1] >= kStickySlack);
}

MapTable map_table(Format f) {
  static const auto kBuilt = [] {
    std::array<Tables, kTables> tables;
    for (const Format format : all_formats()) {
      if (const int number = table_number(format); number >= 0)
        tables[static_cast<std::size_t>(number)] = build_tables(format);
    }
    return tables;
  }();
  const int number = table_number(f);
  if (number < 0) return {};
  const Tables& t = kBuilt[static_cast<std::size_t>(number)];
  return {t.values.data(), t.entries, t.zones.empty() ? nullptr : t.zones.data(), t.zero, 0.0F};
}

}  // namespace lpmm
