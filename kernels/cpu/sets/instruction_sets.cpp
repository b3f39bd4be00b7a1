#include "kernels/cpu/sets/instruction_sets.h"

#include <fmt/format.h>
#include <hwy/detect_targets.h>

#include <atomic>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "kernels/cpu_packed.h"

namespace lpmm::kernels {

#if HWY_TARGETS & HWY_AVX3
namespace N_AVX3 {
InstructionSet instruction_set();
}
#endif
#if HWY_TARGETS & HWY_AVX2
namespace N_AVX2 {
InstructionSet instruction_set();
}
#endif
#if HWY_TARGETS & HWY_NEON
namespace N_NEON {
InstructionSet instruction_set();
}
#endif

namespace {

// Asked of the compiler's library, so that packed memory needs none of Highway's.
#if HWY_ARCH_X86
bool has_avx2() {  // lzcnt and f16c too: every processor with the others has them
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
}
[[maybe_unused]] bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd");
}
#endif

std::atomic<const InstructionSet*>& chosen_set() {
  static std::atomic<const InstructionSet*> chosen{&instruction_sets().front()};
  return chosen;
}

}  // namespace

std::span<const InstructionSet> instruction_sets() {
  static const std::vector<InstructionSet> kSets = [] {
    std::vector<InstructionSet> sets;
#if HWY_TARGETS & HWY_AVX3
    if (has_avx512()) sets.push_back(N_AVX3::instruction_set());
#endif
#if HWY_TARGETS & HWY_AVX2
    if (has_avx2()) sets.push_back(N_AVX2::instruction_set());
#endif
#if HWY_TARGETS & HWY_NEON  // no loop uses its AES, so that every 64-bit ARM runs it
    sets.push_back(N_NEON::instruction_set());
#endif
    sets.push_back({&scalar_tile_kernels(), &scalar_rule_loops()});
    return sets;
  }();
  return kSets;
}

const TileKernels& tile_kernels() {
  return *chosen_set().load(std::memory_order_relaxed)->tile;
}
const RuleLoops& rule_loops() {
  return *chosen_set().load(std::memory_order_relaxed)->rules;
}

std::span<const char* const> simd_levels() {
  static const std::vector<const char*> kNames = [] {
    std::vector<const char*> names;
    for (const InstructionSet& set : instruction_sets()) names.push_back(set.tile->name);
    return names;
  }();
  return kNames;
}

void use_simd_level(const char* name) {
  const std::string_view wanted = name;
  for (const InstructionSet& set : instruction_sets()) {
    if (wanted.empty() || wanted == set.tile->name) {
      chosen_set().store(&set, std::memory_order_relaxed);
      return;
    }
  }
  throw std::invalid_argument(fmt::format("no SIMD level '{}' here", wanted));
}

const char* simd_level() {
  return tile_kernels().name;
}

}  // namespace lpmm::kernels
