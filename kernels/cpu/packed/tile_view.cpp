#include "kernels/cpu/packed/tile_view.h"

#include <bit>
#include <cstring>

#include "kernels/formats/compensation.h"

namespace lpmm::kernels {
namespace {

// The steps as the loops may read them: with blocks of half a group, padding may reach into a block that the
// tensor does not have.
const std::uint16_t* padded_steps(const TileView& t, const std::uint16_t* steps, Steps& room) {
  if (t.blocks * t.codec.block >= t.padded) return steps;
  std::copy_n(steps, t.blocks, room.begin());
  room[static_cast<std::size_t>(t.blocks)] = 0;
  return room.data();
}

// NaN to 0 and the rest into the range a format can hold.
void make_all_storable(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (values[i] != values[i]) values[i] = 0.0F;
    values[i] = std::clamp(values[i], -kMaxMagnitude, kMaxMagnitude);
  }
}

void encode_ulp8(const TileView& t, const float* values, const NoiseLine* lines) {
  for (std::int64_t i = 0; i < t.count; ++i) {
    t.codes[i] =
        lines == nullptr ? float_to_ulp8(values[i]) : float_to_ulp8_stochastic(values[i], draw_of(lines, i));
  }
}

using Largest = std::array<std::uint32_t, kBlocksPerTile>;  // bits, of each block

constexpr auto kOnes = [] {
  constexpr std::uint16_t kOne = 0x3F80;
  Steps ones{};
  ones.fill(kOne);
  return ones;
}();

bool find_largest(const TileView& t, const float* values, Largest& largest) {
  const std::int64_t block = t.blocks == 0 ? kTile : t.codec.block;
  const std::int64_t blocks = std::max<std::int64_t>(t.blocks, 1);
  tile_kernels().largest(values, t.padded, block, largest.data());
  return std::all_of(largest.begin(), largest.begin() + blocks,
                     [](std::uint32_t bits) { return is_storable(bits); });
}

// The same codec with blocks that any tile is made of.
Codec plain(Codec codec) {
  codec.block = kGroup;
  return codec;
}

void encode_quotients(const TileView& t, const float* values, const Largest& largest, Scratch& s) {
  for (std::int64_t b = 0; b < t.blocks; ++b) {
    store_step(t.codec, t.steps, b, covering_step(t.codec, bits_float(largest[static_cast<std::size_t>(b)])));
  }
  float* const quotients = s.steps.data();
  fill_steps(t, quotients);
  for (std::int64_t i = 0; i < t.padded; ++i) {
    quotients[i] = quotients[i] > 0.0F ? values[i] / quotients[i] : 0.0F;
  }
  tile_kernels().encode(plain(t.codec), t.table, quotients, kOnes.data(), s.lines.data(), t.padded, t.codes);
}

void encode_values(const TileView& t, const float* values, const Largest& largest, const Noise& noise,
                   Scratch& s, StepRule rule) {
  const TileKernels& kernels = tile_kernels();
  const bool takes = takes_draws(t.codec.rounding) && t.codec.format.map != Map::kFp32;
  if (takes) {
    kernels.lines(rounding_noise(t.codec.rounding, noise), t.first / kGroup, t.padded / kGroup,
                  s.lines.data());
  }
  if (t.codec.format.map == Map::kFp32) {
    std::memcpy(t.codes, values, static_cast<std::size_t>(4 * t.count));
    return;
  }
  if (t.codec.format.map == Map::kUlp) return encode_ulp8(t, values, takes ? s.lines.data() : nullptr);
  if (!is_packed(t.codec.format)) {
    kernels.to_bf16(values, takes ? s.lines.data() : nullptr, t.count,
                    reinterpret_cast<std::uint16_t*>(t.codes));
    return;
  }
  if (divides_first(t.codec)) return encode_quotients(t, values, largest, s);
  Largest smallest;
  if (has_range(t.codec.format.map)) kernels.smallest(values, t.padded, t.codec.block, smallest.data());
  for (std::int64_t b = 0; b < t.blocks; ++b) {
    const auto at = static_cast<std::size_t>(b);
    const float most = bits_float(largest[at]);
    if (has_range(t.codec.format.map)) {
      t.steps[b] = next_range(t.codec, t.table, most, bits_float(smallest[at]), t.steps[b]);
    } else {
      t.steps[b] = rule == StepRule::kUpdate ? next_step(t.codec, most, t.steps[b])
                                             : next_accumulator_step(t.codec, most, t.steps[b]);
    }
  }
  Steps room;
  kernels.encode(t.codec, t.table, values, padded_steps(t, t.steps, room), s.lines.data(), t.padded, t.codes);
}

}  // namespace

Scratch& scratch() {
  thread_local Scratch s;
  return s;
}

TileView tile_of(const RoleView& role, std::int64_t first, std::int64_t count) {
  const Codec& codec = role.codec;
  const bool in_blocks = is_packed(codec.format) && has_blocks(codec);
  const int shift =
      in_blocks ? std::countr_zero(static_cast<unsigned>(codec.block)) : 0;  // it is a power of two
  const std::int64_t before = in_blocks ? codec.step_bits / 16 * (first >> shift) : 0;  // halves of steps
  // Built in place: reading the table back from a copy would wait for the stores.
  return {codec,
          map_table(codec.format),
          role.codes + code_bytes(codec.format, first),
          is_packed(codec.format) ? role.steps + before : nullptr,
          nullptr,
          first,
          count,
          groups_of(count) * kGroup,
          in_blocks ? (count + codec.block - 1) >> shift : 0};
}

void fill_steps(const TileView& t, float* steps) {
  const Codec& c = t.codec;
  const auto step_at = [&](std::int64_t i) {
    return t.next_steps != nullptr ? t.next_steps[i] : load_step(c, t.steps, i);
  };
  const std::int64_t first = has_blocks(c) ? 0 : t.first;
  std::int64_t block = first / c.block, at = first % c.block;
  for (std::int64_t done = 0; done < t.count; ++block, at = 0) {
    const std::int64_t n = std::min(t.count - done, c.block - at);
    const float of_block = step_at(first_block_step(c) + block);
    std::fill_n(steps + done, n, of_block);
    if (c.scaling == Scaling::kRank1) {
      for (std::int64_t i = 0; i < n; ++i) steps[done + i] = std::min(of_block, step_at(at + i));
    }
    done += n;
  }
  std::fill(steps + t.count, steps + t.padded, 0.0F);
}

void decode_without_steps(const Codec& codec, const TileView& t, float* values) {
  tile_kernels().decode(plain(codec), t.table, t.codes, kOnes.data(), t.padded, values);
}

void zero_padding(float* values, const TileView& t) {
  std::fill(values + t.count, values + t.padded, 0.0F);
}

void decode_tile(const TileView& t, float* values) {
  if (divides_first(t.codec)) {
    float* const steps = scratch().steps.data();
    fill_steps(t, steps);
    decode_without_steps(t.codec, t, values);
    for (std::int64_t i = 0; i < t.padded; ++i) values[i] = steps[i] > 0.0F ? values[i] * steps[i] : 0.0F;
  } else if (is_packed(t.codec.format)) {
    Steps room;
    tile_kernels().decode(t.codec, t.table, t.codes, padded_steps(t, t.steps, room), t.padded, values);
  } else if (t.codec.format.map == Map::kFp32) {
    std::memcpy(values, t.codes, static_cast<std::size_t>(4 * t.count));
  } else if (t.codec.format.map == Map::kUlp) {
    std::transform(t.codes, t.codes + t.count, values, [](std::uint8_t code) { return ulp8_to_float(code); });
  } else {
    tile_kernels().from_bf16(reinterpret_cast<const std::uint16_t*>(t.codes), t.count, values);
  }
  zero_padding(values, t);
}

int versions_at_once(const Codec& codec) {
  return is_packed(codec.format) && !divides_first(codec) ? kVersionsAtOnce : 1;
}

void decode_tiles(std::span<const RoleView> views, std::int64_t first, std::int64_t count, float* sum,
                  bool adds) {
  const TileView t = tile_of(views.front(), first, count);
  const TileKernels& kernels = tile_kernels();
  if (versions_at_once(t.codec) > 1) {
    Steps rooms[kVersionsAtOnce];
    PackedVersion versions[kVersionsAtOnce];
    const std::ptrdiff_t codes = t.codes - views.front().codes, steps = t.steps - views.front().steps;
    for (std::size_t k = 0; k < views.size(); ++k) {
      versions[k] = {views[k].codes + codes, padded_steps(t, views[k].steps + steps, rooms[k])};
    }
    kernels.decode_versions(t.codec, t.table, {versions, views.size()}, t.padded, adds, sum);
    return zero_padding(sum, t);
  }
  if (!adds) return decode_tile(t, sum);
  float* const values = scratch().values[Role::kParameter].data();
  decode_tile(t, values);
  kernels.add_scaled(sum, values, 1, t.padded);
}

void decode_tile(const TileView& t, std::uint16_t* values) {
  if (divides_first(t.codec)) {
    float* const room = scratch().stored_values.data();
    decode_tile(t, room);
    tile_kernels().to_bf16(room, nullptr, t.padded, values);
  } else if (is_packed(t.codec.format)) {
    tile_kernels().decode_bf16(t.codec, t.table, t.codes, t.steps, t.padded, values);
  } else if (t.codec.format.map == Map::kFp32) {
    tile_kernels().to_bf16(reinterpret_cast<const float*>(t.codes), nullptr, t.count, values);
  } else if (t.codec.format.map == Map::kUlp) {
    std::transform(t.codes, t.codes + t.count, values,
                   [](std::uint8_t code) { return float_to_bf16(ulp8_to_float(code)); });
  } else {
    std::memcpy(values, t.codes, static_cast<std::size_t>(2 * t.count));
  }
}

void spread_tile(const RoleView& role, Extent extent, std::int64_t columns, std::int64_t first,
                 std::int64_t count, float* values) {
  const auto* of = reinterpret_cast<const float*>(role.codes);
  std::int64_t row = first / columns, column = first % columns;
  for (std::int64_t done = 0; done < count; ++row, column = 0) {
    const std::int64_t n = std::min(count - done, columns - column);
    if (extent == Extent::kRows) {
      std::fill_n(values + done, n, of[role.shares.place(row)]);
    } else {
      std::copy_n(of + column, n, values + done);
    }
    done += n;
  }
  std::fill(values + count, values + groups_of(count) * kGroup, 0.0F);
}

bool make_tile_storable(const TileView& t, float* values) {
  Largest largest;
  const bool storable = find_largest(t, values, largest);
  if (!storable) make_all_storable(values, t.padded);
  return storable;
}

bool encode_tile(const TileView& t, float* values, const Noise& noise, Scratch& s, StepRule rule) {
  Largest largest;
  const bool storable = find_largest(t, values, largest);
  if (!storable) {
    make_all_storable(values, t.padded);
    find_largest(t, values, largest);
  }
  encode_values(t, values, largest, noise, s, rule);
  return storable;
}

bool encode_if_storable(const TileView& t, const float* values, const Noise& noise, Scratch& s) {
  Largest largest;
  if (!find_largest(t, values, largest)) return false;
  encode_values(t, values, largest, noise, s, StepRule::kUpdate);
  return true;
}

void empty_tile(const TileView& t) {
  if (t.steps != nullptr) {
    std::memset(t.steps, 0, t.step_size());
  } else {
    std::memset(t.codes, 0, t.code_size());
  }
}

}  // namespace lpmm::kernels
