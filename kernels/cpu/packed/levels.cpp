// The instruction sets, and which one is in use.
#include <fmt/format.h>

#include <atomic>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "kernels/cpu/packed/rule_loops.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu_packed.h"

namespace lpmm::kernels {
namespace {

struct Level {
  const TileKernels* tile;
  const RuleLoops* rules;
};

// Every usable one, best first.
const std::vector<Level>& usable_levels() {
  static const std::vector<Level> kLevels = [] {
    const std::vector<const TileKernels*> tiles = simd_tile_kernels();
    const std::vector<const RuleLoops*> rules = simd_rule_loops();
    std::vector<Level> levels;
    for (std::size_t i = 0; i < tiles.size(); ++i) levels.push_back({tiles[i], rules.at(i)});
    levels.push_back({&scalar_tile_kernels(), &scalar_rule_loops()});
    return levels;
  }();
  return kLevels;
}

std::atomic<const Level*>& chosen_level() {
  static std::atomic<const Level*> chosen{&usable_levels().front()};
  return chosen;
}

}  // namespace

const TileKernels& tile_kernels() {
  return *chosen_level().load(std::memory_order_relaxed)->tile;
}
const RuleLoops& rule_loops() {
  return *chosen_level().load(std::memory_order_relaxed)->rules;
}

const char* const* simd_levels(int* count) {
  static const std::vector<const char*> kNames = [] {
    std::vector<const char*> names;
    for (const Level& level : usable_levels()) names.push_back(level.tile->name);
    return names;
  }();
  *count = static_cast<int>(kNames.size());
  return kNames.data();
}

void use_simd_level(const char* name) {
  const std::string_view wanted = name;
  for (const Level& level : usable_levels()) {
    if (wanted.empty() || wanted == level.tile->name) {
      chosen_level().store(&level, std::memory_order_relaxed);
      return;
    }
  }
  throw std::invalid_argument(fmt::format("no SIMD level '{}' here", wanted));
}

const char* simd_level() {
  return tile_kernels().name;
}

}  // namespace lpmm::kernels
