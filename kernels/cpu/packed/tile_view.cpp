#include "kernels/cpu/packed/tile_view.h"

#include <bit>
#include <cstring>

namespace lpmm::kernels {
namespace {

// The steps as the loops may read them: with blocks of half a group, padding may reach into a block that the
// tensor does not have.
const std::uint16_t* padded_steps(const TileView& t, Steps& room) {
  if (t.blocks * t.codec.block >= t.padded) return t.steps;
  std::copy_n(t.steps, t.blocks, room.begin());
  room[static_cast<std::size_t>(t.blocks)] = 0;
  return room.data();
}

// NaN to 0 and the rest into the range a format can hold.
void make_storable(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (values[i] != values[i]) values[i] = 0.0F;
    values[i] = std::clamp(values[i], -kMaxMagnitude, kMaxMagnitude);
  }
}

void encode_plain(const TileView& t, const float* values, const NoiseLine* lines) {
  if (t.codec.format.map == Map::kFp32) {
    std::memcpy(t.codes, values, static_cast<std::size_t>(4 * t.count));
  } else {
    tile_kernels().to_bf16(values, takes_draws(t.codec.rounding) ? lines : nullptr, t.count,
                           reinterpret_cast<std::uint16_t*>(t.codes));
  }
}

}  // namespace

Scratch& scratch() {
  thread_local Scratch s;
  return s;
}

TileView tile_of(const RoleView& role, std::int64_t first, std::int64_t count) {
  const Codec& codec = role.codec;
  const bool packed = is_packed(codec.format);
  const int shift =
      packed ? std::countr_zero(static_cast<unsigned>(codec.block)) : 0;  // it is a power of two
  // Built in place: reading the table back from a copy would wait for the stores.
  return {codec,
          map_table(codec.format),
          role.codes + code_bytes(codec.format, first),
          packed ? role.steps + (first >> shift) : nullptr,
          first,
          count,
          groups_of(count) * kGroup,
          packed ? (count + codec.block - 1) >> shift : 0};
}

void zero_padding(float* values, const TileView& t) {
  std::fill(values + t.count, values + t.padded, 0.0F);
}

void decode_tile(const TileView& t, float* values) {
  if (is_packed(t.codec.format)) {
    Steps room;
    tile_kernels().decode(t.codec, t.table, t.codes, padded_steps(t, room), t.padded, values);
  } else if (t.codec.format.map == Map::kFp32) {
    std::memcpy(values, t.codes, static_cast<std::size_t>(4 * t.count));
  } else {
    tile_kernels().from_bf16(reinterpret_cast<const std::uint16_t*>(t.codes), t.count, values);
  }
  zero_padding(values, t);
}

bool encode_tile(const TileView& t, float* values, const Noise& noise, Scratch& s, StepRule rule) {
  const TileKernels& kernels = tile_kernels();
  const std::int64_t block = t.blocks == 0 ? kTile : t.codec.block;
  const std::int64_t blocks = std::max<std::int64_t>(t.blocks, 1);
  std::array<std::uint32_t, kBlocksPerTile> largest;
  kernels.largest(values, t.padded, block, largest.data());
  bool storable = true;
  for (std::int64_t b = 0; b < blocks; ++b) {
    storable = storable && is_storable(largest[static_cast<std::size_t>(b)]);
  }
  if (!storable) {
    make_storable(values, t.padded);
    kernels.largest(values, t.padded, block, largest.data());
  }
  if (takes_draws(t.codec.rounding) && t.codec.format.map != Map::kFp32) {
    kernels.lines(rounding_noise(t.codec.rounding, noise), t.first / kGroup, t.padded / kGroup,
                  s.lines.data());
  }
  if (!is_packed(t.codec.format)) {
    encode_plain(t, values, s.lines.data());
    return storable;
  }
  for (std::int64_t b = 0; b < t.blocks; ++b) {
    const float most = bits_float(largest[static_cast<std::size_t>(b)]);
    t.steps[b] = rule == StepRule::kUpdate ? next_step(t.codec, most, t.steps[b])
                                           : next_accumulator_step(t.codec, most, t.steps[b]);
  }
  Steps room;
  kernels.encode(t.codec, t.table, values, padded_steps(t, room), s.lines.data(), t.padded, t.codes);
  return storable;
}

void empty_tile(const TileView& t) {
  if (t.steps != nullptr) {
    std::memset(t.steps, 0, t.step_size());
  } else {
    std::memset(t.codes, 0, t.code_size());
  }
}

}  // namespace lpmm::kernels
