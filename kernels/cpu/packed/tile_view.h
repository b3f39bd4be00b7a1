// One tile of a packed tensor, as the kernels of kernels/packed.h work on it: decode to fp32, change, encode.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "kernels/cpu/tile.h"
#include "kernels/maps.h"
#include "kernels/packed.h"

namespace lpmm::kernels {

constexpr std::int64_t kBlocksPerTile = kTile / 64;
using Steps = std::array<std::uint16_t, kBlocksPerTile>;

// The temporaries of one thread.
struct Scratch {
  alignas(64) RoleArray<std::array<float, kTile>> values;
  alignas(64) std::array<NoiseLine, kTile / kGroup> lines;
  // What a role held before an update, for the ledger.
  alignas(64) std::array<float, kTile> old_values, stored_values;
  alignas(64) std::array<std::int32_t, kTile> old_numbers, numbers;
  alignas(64) std::array<std::uint8_t, 4 * kTile> old_codes;
  Steps old_steps;
};

Scratch& scratch();

// One role in one tile.
struct TileView {
  Codec codec;
  MapTable table;
  std::uint8_t* codes = nullptr;
  std::uint16_t* steps = nullptr;
  std::int64_t first = 0;
  std::int64_t count = 0;   // elements of the tensor
  std::int64_t padded = 0;  // rounded up to whole groups: what the loops run over
  std::int64_t blocks = 0;

  std::size_t code_size() const { return static_cast<std::size_t>(code_bytes(codec.format, count)); }
  std::size_t step_size() const { return static_cast<std::size_t>(2 * blocks); }
};

TileView tile_of(const RoleView& role, std::int64_t first, std::int64_t count);

// How a range is cut: tiles of 1,024 elements (all roles' fp32 values in L1), or one block where that is
// larger; threads take runs of tiles. Both depend on the range and the blocks alone, and so does every sum.
struct Cut {
  std::int64_t tile;
  std::int64_t tiles;
  std::int64_t run;

  Cut(std::int64_t count, int block)
      : tile(sum_tile(block)),
        tiles(count / tile + (count % tile != 0 ? 1 : 0)),
        run(std::clamp<std::int64_t>(tiles / 64, 1, 64)) {}
  std::int64_t runs() const { return (tiles + run - 1) / run; }
  std::size_t index(std::int64_t offset) const { return static_cast<std::size_t>(offset / tile); }
};

// Runs body(run, first, count) for each tile of [first, first + count); the tiles of a run come in order.
template <class Body>
void for_each_tile(Pool& pool, const Cut& cut, std::int64_t first, std::int64_t count, const Body& body) {
  pool.for_each(cut.runs(), [&](std::int64_t item, int) {
    const auto run = static_cast<std::size_t>(item);
    for (std::int64_t t = item * cut.run; t < std::min(cut.tiles, (item + 1) * cut.run); ++t) {
      body(run, first + t * cut.tile, std::min(cut.tile, count - t * cut.tile));
    }
  });
}

// Sets what lies between the tensor's end and that of the last group to 0.
void zero_padding(float* values, const TileView& t);
void decode_tile(const TileView& t, float* values);
// Chooses the steps and encodes. Values that are not storable are made so, and the answer is false.
enum class StepRule : std::uint8_t { kUpdate, kAccumulator };  // next_step or next_accumulator_step
bool encode_tile(const TileView& t, float* values, const Noise& noise, Scratch& s,
                 StepRule rule = StepRule::kUpdate);
void empty_tile(const TileView& t);

// For the ledger: keeps what a role holds, and then compares it with what is stored; `wanted` are the fp32
// values that were encoded.
void remember(const TileView& t, Scratch& s);
ChangeStats count_changes(const TileView& t, const float* wanted, Scratch& s);

inline double sum_in_order(const std::vector<double>& parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}
inline void sum_in_order(const std::vector<ChangeStats>& parts, ChangeStats* sum) {
  for (const ChangeStats& part : parts) *sum += part;
}

}  // namespace lpmm::kernels
