// The loop behind the table of cycles: one thread updates 2 Mi elements again and again, so that `perf
// record` sees the update and little else. Built against the kernels of the program:
//   g++ -O2 -std=c++20 -I. experiments/results/update/cycles.cpp build/kernels/liblpmm_kernels.a -lhwy -lfmt
//   \
//     -ldnnl -fopenmp -o cycles && perf record ./cycles avx512 compact sgd
// Prints elements per second, the best of many, and time-stamp ticks per element (2.6 GHz where it was run,
// at 3.65 GHz of the core).
#include <x86intrin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu.h"

using namespace lpmm;
using namespace lpmm::kernels;

namespace {

Codec packed(Map map, int bits, int block = 128, StepMode mode = StepMode::kMoving,
             Rounding rounding = Rounding::kStochastic) {
  return {{map, static_cast<std::uint8_t>(bits)}, block, rounding, mode};
}

RoleArray<Codec> codecs_of(const std::string& preset) {
  const StepMode sticky = StepMode::kSticky;
  const Rounding qr = Rounding::kQuasiStochastic;
  const Codec int8 = packed(Map::kLinear, 8), int8_sticky = packed(Map::kLinear, 8, 128, sticky);
  const Codec soft4 = packed(Map::kSoftsign, 4);
  if (preset == "lpmm") {
    return {{packed(Map::kLinear, 12, 256, sticky), int8, packed(Map::kLinear, 8, 256),
             packed(Map::kSquareRoot, 8, 128, sticky)}};
  }
  if (preset == "compact") return {{int8_sticky, int8, int8, packed(Map::kSquareRoot, 8, 128, sticky)}};
  if (preset == "min") return {{int8_sticky, soft4, soft4, packed(Map::kSquareRoot, 4, 128, sticky)}};
  return {{packed(Map::kLinear, 7, 128, sticky, qr), packed(Map::kSoftsign, 3),
           packed(Map::kSoftsign, 4, 128, StepMode::kMoving, qr), packed(Map::kSquareRoot, 2)}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  use_simd_level(argv[1]);
  const RoleArray<Codec> codecs = codecs_of(argv[2]);
  const bool is_sgd = std::string(argv[3]) == "sgd";
  constexpr std::int64_t kElements = 1 << 21;
  CpuDevice device(1);
  RuleStep step{.learning_rate = 1e-3, .weight_decay = 1e-4, .update = 1000};
  step.error_feedback = is_sgd && codecs[Role::kParameter].format.bits <= 8;
  Sgd::Settings sgd;
  sgd.momentum = 0.9;
  const Rule rule = is_sgd ? Rule(Sgd::make(sgd, step)) : Rule(AdamW::make(AdamW::Settings(), step));

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(kElements);
  RoleArray<std::vector<std::uint8_t>> codes;
  RoleArray<std::vector<std::uint16_t>> steps;
  UpdateArgs args;
  for (const Role role : kEveryElementRole) {
    if (role == Role::kVariance && is_sgd) continue;
    codes[role].resize(static_cast<std::size_t>(code_bytes(codecs[role].format, kElements)) + 64);
    steps[role].resize(static_cast<std::size_t>(blocks_of(kElements, codecs[role].block)));
    const auto at = reinterpret_cast<std::uintptr_t>(codes[role].data());
    args.roles[role] = {codecs[role], codes[role].data() + (64 - at % 64) % 64, steps[role].data(),
                        kElements};
    for (float& x : values) {
      x = normal(random) * (role == Role::kParameter ? 0.05F : 0.01F);
      if (role == Role::kVariance) x = x * x;
    }
    device.encode({args.roles[role], 0, kElements, values.data(), {}});
  }
  const std::vector<std::uint16_t> gradient = steps[Role::kAccumulator];  // an update empties it
  double best = 1e9;
  std::uint64_t ticks = ~std::uint64_t{0};
  for (std::uint32_t i = 0; i < 600; ++i) {
    args.noise = {1, 0, i, 0};
    steps[Role::kAccumulator] = gradient;
    args.roles[Role::kAccumulator].steps = steps[Role::kAccumulator].data();
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t from = __rdtsc();
    const TensorUpdate tensor{rule, args};
    device.update({&tensor, 1});
    ticks = std::min<std::uint64_t>(ticks, __rdtsc() - from);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("%s %s %s: %.3f G elements/s, %.2f ticks per element\n", argv[1], argv[2], argv[3],
              kElements / best / 1e9, static_cast<double>(ticks) / kElements);
}
