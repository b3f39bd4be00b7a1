// One tile of a packed tensor, as the kernels of kernels/packed.h work on it: decode to fp32, change, encode.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "kernels/cpu/tile.h"
#include "kernels/formats/maps.h"
#include "kernels/packed.h"
#include "kernels/sums.h"
#include "kernels/threads/pool.h"

namespace lpmm::kernels {

constexpr std::int64_t kBlocksPerTile = kTile / 64;
using Steps = std::array<std::uint16_t, 2 * kBlocksPerTile>;  // bf16, or fp32 in halves

// The temporaries of one thread.
struct Scratch {
  alignas(64) RoleArray<std::array<float, kTile>> values;
  alignas(64) std::array<NoiseLine, kTile / kGroup> lines;
  alignas(64) std::array<float, kTile> steps;  // of elements, and then quotients by them
  // The contents of a role before an update, for the ledger.
  alignas(64) std::array<float, kTile> old_values, stored_values, step_before;
  alignas(64) std::array<std::int32_t, kTile> old_numbers, numbers;
  alignas(64) std::array<std::uint8_t, 4 * kTile> old_codes;
  std::array<bool, kTile> is_still;  // elements whose update is exactly 0, where a parameter has two terms
  Steps old_steps;
  // Sums of a tile that wait for others, in lines of a cache: as many as the tree over them has levels.
  struct alignas(64) Line {
    float values[16];
  };
  std::vector<Line> waiting;
};

Scratch& scratch();

// One role in one tile.
struct TileView {
  Codec codec;
  MapTable table;
  std::uint8_t* codes = nullptr;
  std::uint16_t* steps = nullptr;     // from the first block's on; all of the tensor's where they are of rows
  const float* next_steps = nullptr;  // steps of rows that are chosen, but not yet in memory
  std::int64_t first = 0;
  std::int64_t count = 0;   // elements of the tensor
  std::int64_t padded = 0;  // rounded up to whole groups: what the loops run over
  std::int64_t blocks = 0;  // 0 where steps are of rows

  std::size_t code_size() const { return static_cast<std::size_t>(code_bytes(codec.format, count)); }
  std::size_t step_size() const { return static_cast<std::size_t>(codec.step_bits / 8 * blocks); }
};

TileView tile_of(const RoleView& role, std::int64_t first, std::int64_t count);

// The division of a range: tiles of a piece (all roles' fp32 values in L1), or one block if that is larger;
// threads take runs of tiles.
struct Cut {
  std::int64_t tile;
  std::int64_t tiles;
  std::int64_t run;

  Cut(std::int64_t count, int block)
      : tile(block > kUnit ? block : kUnit),
        tiles(count / tile + (count % tile != 0 ? 1 : 0)),
        run(std::clamp<std::int64_t>(tiles / 64, 1, 64)) {}
  std::int64_t runs() const { return (tiles + run - 1) / run; }
};

// Runs body(run, first, count) for each tile of [first, first + count); the tiles of a run come in order.
// Leaves out the elements that fused(run, first, count) has done of the rest of a run: as many as it returns.
template <class Fused, class Body>
void for_each_tile(Pool& pool, const Cut& cut, std::int64_t first, std::int64_t count, const Fused& fused,
                   const Body& body) {
  pool.for_each(cut.runs(), [&](std::int64_t of_run, int) {
    const auto run = static_cast<std::size_t>(of_run);
    const std::int64_t begin = of_run * cut.run * cut.tile;
    const std::int64_t end = std::min(count, begin + cut.run * cut.tile);
    for (std::int64_t at = begin; at < end;) {
      at += fused(run, first + at, end - at);
      if (at == end) break;
      const std::int64_t n = std::min(cut.tile, end - at);
      body(run, first + at, n);
      at += n;
    }
  });
}
template <class Body>
void for_each_tile(Pool& pool, const Cut& cut, std::int64_t first, std::int64_t count, const Body& body) {
  for_each_tile(
      pool, cut, first, count, [](std::size_t, std::int64_t, std::int64_t) { return std::int64_t{0}; }, body);
}

// The part of a row's or column's values that the elements of a tile have.
void spread_tile(const RoleView& role, Extent extent, std::int64_t columns, std::int64_t first,
                 std::int64_t count, float* values);

// Sets what lies between the tensor's end and that of the last group to 0.
void zero_padding(float* values, const TileView& t);
// The step of each element of a tile whose values are divided first; 0 behind the tensor's end.
void fill_steps(const TileView& t, float* steps);
// Makes values storable where they are not, and the answer then is false.
bool make_tile_storable(const TileView& t, float* values);
// The codes as numbers, as if steps were 1.
void decode_without_steps(const Codec& codec, const TileView& t, float* values);
void decode_tile(const TileView& t, float* values);
int versions_at_once(const Codec& codec);
// Sums the tile of one view, or of versions_at_once() views, or adds that to what is there.
void decode_tiles(std::span<const RoleView> views, std::int64_t first, std::int64_t count, float* sum,
                  bool adds = false);
void decode_tile(const TileView& t, std::uint16_t* values);  // to bf16; whole groups
// Chooses the steps and encodes. Values that are not storable are made so, and the answer is false.
enum class StepRule : std::uint8_t { kUpdate, kAccumulator };  // next_step or next_accumulator_step
bool encode_tile(const TileView& t, float* values, const Noise& noise, Scratch& s,
                 StepRule rule = StepRule::kUpdate);
// The same of values that may not be changed, in whole groups: false, and nothing is stored, where they are
// not storable.
bool encode_if_storable(const TileView& t, const float* values, const Noise& noise, Scratch& s);
void empty_tile(const TileView& t);

// For the ledger: keeps what a role holds, and then compares it with what is stored; `wanted` are the fp32
// values that were encoded. For elements that `is_still`, if not null, marks, the old value was wanted: what
// rounding moves between two terms is no update.
void remember(const TileView& t, Scratch& s);
ChangeStats count_changes(const TileView& t, const float* wanted, Scratch& s, const bool* is_still = nullptr);

inline void sum_in_order(const std::vector<ChangeStats>& parts, ChangeStats* sum) {
  for (const ChangeStats& part : parts) *sum += part;
}

}  // namespace lpmm::kernels
