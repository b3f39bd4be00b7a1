#include "kernels/maps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
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
    case Map::kSoftsign: {
      const int limit = code_limit(f.bits);
      for (int i = -limit; i <= limit; ++i)
        map.push_back(static_cast<float>(i) / static_cast<float>(2 * limit - std::abs(i)));
      return map;
    }
    case Map::kLinear:
    case Map::kBf16:
    case Map::kFp32:
      break;
  }
  return map;
}

}  // namespace

bool format_exists(Format f) {
  if (f.map == Map::kLinear) return f.bits >= 2 && f.bits <= 16;
  if (f.map == Map::kBf16) return f.bits == 16;
  if (f.map == Map::kFp32) return f.bits == 32;
  return f.bits == 4 || f.bits == 8 || (f.bits == 3 && !is_dynamic(f.map)) ||
         (f.bits == 2 && (f.map == Map::kLinearNoZero || f.map == Map::kSquareRoot));
}

int table_number(Format f) {
  if (!is_packed(f) || f.map == Map::kLinear || !format_exists(f)) return -1;
  return 4 * (static_cast<int>(f.map) - 1) + (f.bits == 8 ? 3 : f.bits - 2);
}

namespace {

// Zones of the map whose magnitudes ascend in `magnitudes`. Padded with zones no value reaches.
std::vector<DynamicZone> build_zones(Format f, const float* magnitudes) {
  const int decades = f.bits - 1;
  const float origin = magnitudes[0];
  std::vector<DynamicZone> zones = {{origin, 1.0F / (magnitudes[1] - origin), 1.0F, 1.0F, 0}};
  int number = 1;
  for (int i = 0; i < decades; ++i) {
    const int cells = 1 << (f.map == Map::kDynamic ? i : i + 1);
    const double scale = cells / 0.9 * std::pow(10.0, decades - 1 - i);
    zones.push_back({magnitudes[number], static_cast<float>(scale), static_cast<float>(cells - 1),
                     i + 1 == decades ? 2.0F : 1.0F / 3.0F, number});
    number += cells;
  }
  zones.resize(kDynamicZones, {std::numeric_limits<float>::infinity(), 0.0F, 0.0F, 0.0F, 0});
  return zones;
}

struct Tables {
  std::vector<float> values;
  std::vector<DynamicZone> zones;
};

Tables build_tables(Format f) {
  Tables t = {build(f), {}};
  if (is_dynamic(f.map)) {
    t.zones = build_zones(f, t.values.data() + zero_code(f));
  }
  return t;
}

}  // namespace

bool has_sticky_steps(Format f) {
  const MapTable table = map_table(f);
  return table.values == nullptr || table.values[table.entries - 2] >= kStickySlack;
}

MapTable map_table(Format f) {
  static const auto kTables = [] {
    std::array<Tables, kTableMaps> tables;
    for (int map = 0; map < static_cast<int>(Map::kBf16); ++map) {
      for (const std::uint8_t bits : kTableBits) {
        const Format format{static_cast<Map>(map), bits};
        if (const int number = table_number(format); number >= 0)
          tables[static_cast<std::size_t>(number)] = build_tables(format);
      }
    }
    return tables;
  }();
  const int number = table_number(f);
  if (number < 0) return {};
  const Tables& t = kTables[static_cast<std::size_t>(number)];
  return {t.values.data(), static_cast<int>(t.values.size()), t.zones.empty() ? nullptr : t.zones.data()};
}

}  // namespace lpmm
