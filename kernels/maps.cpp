#include "kernels/maps.h"

#include <algorithm>
#include <array>
#include <cmath>
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

// 16 significant bits, so that the product with a bf16 step is exact.
float round_to_16_bits(double x) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(mantissa, 16)), exponent - 16));
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
      for (int i = -limit; i <= limit; ++i) map.push_back(round_to_16_bits(i / (2.0 * limit - std::abs(i))));
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
  return f.bits == 4 || f.bits == 8;
}

MapTable map_table(Format f) {
  static const auto kTables = [] {
    std::array<std::array<std::vector<float>, 2>, 7> tables;
    for (int map = 0; map < 7; ++map) {
      tables[static_cast<std::size_t>(map)] = {build({static_cast<Map>(map), 4}),
                                               build({static_cast<Map>(map), 8})};
    }
    return tables;
  }();
  if (!is_packed(f) || f.map == Map::kLinear || !format_exists(f)) return {};
  const auto& table = kTables[static_cast<std::size_t>(f.map)][f.bits == 8 ? 1 : 0];
  return {table.data(), static_cast<int>(table.size())};
}

}  // namespace lpmm
