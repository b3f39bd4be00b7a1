// The loops over one tile, once per instruction set. All work on fp32 buffers that lie in L1 or L2.
//
// Buffers are 64-byte aligned; `count` is a multiple of the packing group, values past the tensor's end are
// 0. Every set gives the same bits as the scalar one, which is kernels/formats/element.h in loops.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/packed/fused.h"
#include "kernels/formats/codec.h"
#include "kernels/noise.h"
#include "kernels/peaks.h"

namespace lpmm::kernels {

// One of the versions of a tile that are summed.
struct PackedVersion {
  const std::uint8_t* codes;
  const std::uint16_t* steps;
};
inline constexpr int kVersionsAtOnce = 4;

struct TileKernels {
  const char* name;

  // The lines of rounding's draws, from group first_group of the tensor on (kernels/noise.h).
  void (*lines)(const Noise& noise, std::int64_t first_group, std::int64_t groups, NoiseLine* lines);
  // The draws of dropout. words[64*g + 16*w + lane] = word w of the Philox call of that lane in group
  // first_group + g: draw d of the lane is its half d % 2 in word d / 2.
  void (*draw)(const Noise& noise, std::int64_t first_group, std::int64_t groups, std::uint32_t* words);

  // A tile: `codes` of whole groups, with a step for each block that they touch. Packed formats only; values
  // of any alignment.
  void (*decode)(const Codec& codec, MapTable table, const std::uint8_t* codes, const std::uint16_t* steps,
                 std::int64_t count, float* values);
  // The sum of one version or of kVersionsAtOnce, as a tree; it is added to what is there if `adds` says so.
  void (*decode_versions)(const Codec& codec, MapTable table, std::span<const PackedVersion> versions,
                          std::int64_t count, bool adds, float* sum);
  void (*decode_bf16)(const Codec& codec, MapTable table, const std::uint8_t* codes,
                      const std::uint16_t* steps, std::int64_t count,
                      std::uint16_t* values);  // rounded to nearest
  // `lines` of the same groups; not read under round-to-nearest.
  void (*encode)(const Codec& codec, MapTable table, const float* values, const std::uint16_t* steps,
                 const NoiseLine* lines, std::int64_t count, std::uint8_t* codes);

  // Bits of the largest magnitude of each block, and of the smallest that is not 0; 0 where all are.
  void (*largest)(const float* values, std::int64_t count, std::int64_t block, std::uint32_t* bits);
  void (*smallest)(const float* values, std::int64_t count, std::int64_t block, std::uint32_t* bits);
  // Peaks, held in `codes`, of updates beside their parameters; of ratios, which are then both.
  void (*raise_peaks)(Peak peak, const float* values, const float* beside, std::int64_t count,
                      std::uint8_t* codes);

  void (*add_scaled)(float* sum, const float* addend, float scale,
                     std::int64_t count);  // addend of any alignment
  // One sum for each piece, in the order of kernels/sums.h; values of any alignment.
  void (*square_sums)(const float* values, std::int64_t count, double* sums);
  // Any count and alignment, from a group's first element on. Stochastic with `lines`, else to nearest.
  void (*to_bf16)(const float* values, const NoiseLine* lines, std::int64_t count, std::uint16_t* out);
  void (*from_bf16)(const std::uint16_t* values, std::int64_t count, float* out);

  // The fused loop for this codec; null where none is compiled for it, or for this set.
  FusedFold (*fused_fold)(const Codec& codec);
};

// Dropout's draw of an element among the words of its tile.
inline std::uint32_t draw_of(const std::uint32_t* words, std::int64_t element) {
  const std::int64_t lane = element % kGroup;
  return words[64 * (element / kGroup) + 16 * (lane / 32) + lane % 16] >> (16 * (lane / 16 % 2)) & 0xFFFFU;
}
inline std::uint32_t draw_of(const NoiseLine* lines, std::int64_t element) {
  return lines[element / kGroup].draw(static_cast<std::uint32_t>(element % kGroup));
}
inline std::uint16_t round_to_bf16(float value, const NoiseLine* lines, std::int64_t element) {
  return lines == nullptr ? float_to_bf16(value) : float_to_bf16_stochastic(value, draw_of(lines, element));
}

const TileKernels& tile_kernels();  // the set in use
const TileKernels& scalar_tile_kernels();

}  // namespace lpmm::kernels
