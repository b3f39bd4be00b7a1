#include "kernels/packed.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "kernels/cpu/tile.h"
#include "kernels/maps.h"

namespace lpmm::kernels {
namespace {

// Every usable set, best first.
const std::vector<const TileKernels*>& kernel_sets() {
  static const std::vector<const TileKernels*> kSets = [] {
    std::vector<const TileKernels*> sets = simd_tile_kernels();
    sets.push_back(&scalar_tile_kernels());
    return sets;
  }();
  return kSets;
}

std::atomic<const TileKernels*>& chosen_kernels() {
  static std::atomic<const TileKernels*> chosen{kernel_sets().front()};
  return chosen;
}

}  // namespace

const TileKernels& tile_kernels() {
  return *chosen_kernels().load(std::memory_order_relaxed);
}

namespace {

constexpr std::int64_t kBlocksPerTile = kTile / 64;
using Steps = std::array<std::uint16_t, kBlocksPerTile>;

// The temporaries of one thread.
struct Scratch {
  alignas(64) std::array<std::array<float, kTile>, kRoles> values;
  alignas(64) std::array<std::uint32_t, kTile / 2> words;
  // What a role held before an update, for the ledger.
  alignas(64) std::array<float, kTile> old_values, stored_values;
  alignas(64) std::array<std::int32_t, kTile> old_numbers, numbers;
  alignas(64) std::array<std::uint8_t, 4 * kTile> old_codes;
  Steps old_steps;
};

Scratch& scratch() {
  thread_local Scratch s;
  return s;
}

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

TileView tile_of(const RoleView& role, std::int64_t first, std::int64_t count) {
  TileView t;
  t.codec = role.codec;
  t.codes = role.codes + code_bytes(role.codec.format, first);
  t.first = first;
  t.count = count;
  t.padded = groups_of(count) * kGroup;
  if (is_packed(role.codec.format)) {
    const int shift = std::countr_zero(static_cast<unsigned>(role.codec.block));  // blocks are powers of two
    t.table = map_table(role.codec.format);
    t.steps = role.steps + (first >> shift);
    t.blocks = (count + role.codec.block - 1) >> shift;
  }
  return t;
}

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

// Fetches the codes of the tile after this one, so that they are in cache when their turn comes.
void prefetch_next(const RoleView& role, std::int64_t at, std::int64_t n) {
  const std::int64_t begin = at + n;
  const std::int64_t end = std::min(role.elements, begin + n);
  if (begin >= end) return;
  const std::int64_t to = code_bytes(role.codec.format, end);
  for (std::int64_t b = code_bytes(role.codec.format, begin); b < to; b += 64) {
    __builtin_prefetch(role.codes + b);
  }
}

void zero_padding(float* values, const TileView& t) {
  std::fill(values + t.count, values + t.padded, 0.0F);
}

// The steps as the loops may read them: with blocks of half a group, padding may reach into a block that the
// tensor does not have.
const std::uint16_t* padded_steps(const TileView& t, Steps& room) {
  if (t.blocks * t.codec.block >= t.padded) return t.steps;
  std::copy_n(t.steps, t.blocks, room.begin());
  room[static_cast<std::size_t>(t.blocks)] = 0;
  return room.data();
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

// NaN to 0 and the rest into the range a format can hold.
void make_storable(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (values[i] != values[i]) values[i] = 0.0F;
    values[i] = std::clamp(values[i], -kMaxMagnitude, kMaxMagnitude);
  }
}

void encode_plain(const TileView& t, const float* values, const std::uint32_t* words) {
  if (t.codec.format.map == Map::kFp32) {
    std::memcpy(t.codes, values, static_cast<std::size_t>(4 * t.count));
  } else {
    tile_kernels().to_bf16(values, takes_draws(t.codec.rounding) ? words : nullptr, t.count,
                           reinterpret_cast<std::uint16_t*>(t.codes));
  }
}

// Chooses the steps with choose(largest, old_step) and encodes. Values that are not storable are made so, and
// the answer is false.
template <class Choose>
bool encode_tile(const TileView& t, float* values, const Noise& noise, Scratch& s, const Choose& choose) {
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
    kernels.draw(rounding_noise(t.codec.rounding, noise), t.first / kGroup, t.padded / kGroup,
                 s.words.data());
  }
  if (!is_packed(t.codec.format)) {
    encode_plain(t, values, s.words.data());
    return storable;
  }
  for (std::int64_t b = 0; b < t.blocks; ++b) {
    t.steps[b] = choose(bits_float(largest[static_cast<std::size_t>(b)]), t.steps[b]);
  }
  Steps room;
  kernels.encode(t.codec, t.table, values, padded_steps(t, room), s.words.data(), t.padded, t.codes);
  return storable;
}

bool encode_tile(const TileView& t, float* values, const Noise& noise, Scratch& s) {
  return encode_tile(t, values, noise, s,
                     [&](float largest, std::uint16_t old) { return next_step(t.codec, largest, old); });
}

// ---- the ledger's counts ---------------------------------------------------------------------------------
// The codes as numbers: what a linear map with step 1 reads; unsigned maps then count from 0.
void read_codes(const TileView& t, std::int32_t* numbers, float* room) {
  Steps ones;
  ones.fill(float_to_bf16(1.0F));
  Codec plain = t.codec;
  plain.format.map = Map::kLinear;
  tile_kernels().decode(plain, {}, t.codes, ones.data(), t.padded, room);
  const std::int32_t mask = has_signed_codes(t.codec.format.map) ? -1 : (1 << t.codec.format.bits) - 1;
  for (std::int64_t i = 0; i < t.padded; ++i) numbers[i] = static_cast<std::int32_t>(room[i]) & mask;
}

// A map as the ledger reads it: numbers from first to last, each with its entry.
struct Entries {
  const float* values;  // null: linear, the number itself
  std::int32_t first, last;

  explicit Entries(const TileView& t)
      : values(t.codec.format.map == Map::kLinear ? nullptr : t.table.values),
        first(has_signed_codes(t.codec.format.map) ? -code_limit(t.codec.format.bits) : 0),
        last(first < 0 ? -first : t.table.entries - 1) {}

  // The distance from the entry of `number` to its neighbour on the side of `wanted`, or where it is the last
  // one there on the other side.
  double gap_beside(std::int32_t number, float step, float wanted) const {
    if (values == nullptr) return step;
    const float here = values[number - first];
    std::int32_t next = number + (wanted >= here * step ? 1 : -1);
    next += next < first ? 2 : next > last ? -2 : 0;
    return std::abs(static_cast<double>(values[next - first]) - static_cast<double>(here)) * step;
  }
};

void remember(const TileView& t, Scratch& s) {
  std::memcpy(s.old_codes.data(), t.codes, t.code_size());
  if (t.steps != nullptr) std::memcpy(s.old_steps.data(), t.steps, t.step_size());
}

void count_change(ChangeStats& stats, float old, float wanted, float stored, bool same) {
  const double change = static_cast<double>(wanted) - old;
  const double error = static_cast<double>(stored) - wanted;
  stats.true_change_squared += change * change;
  stats.change_error_squared += error * error;
  stats.increments += change != 0 ? 1 : 0;
  stats.underflows += change != 0 && same ? 1 : 0;
}

// Compares what was remembered with what is stored now; `wanted` are the fp32 values that were encoded.
ChangeStats count_changes(const TileView& t, const float* wanted, Scratch& s) {
  TileView old = t;
  old.codes = s.old_codes.data();
  old.steps = t.steps == nullptr ? nullptr : s.old_steps.data();
  const float *before = s.old_values.data(), *stored = s.stored_values.data();
  ChangeStats stats;
  stats.elements = t.count;
  if (!is_packed(t.codec.format)) {
    decode_tile(old, s.old_values.data());
    decode_tile(t, s.stored_values.data());
    for (std::int64_t i = 0; i < t.count; ++i) {
      count_change(stats, before[i], wanted[i], stored[i], stored[i] == before[i]);
    }
    return stats;
  }
  const std::int32_t *old_numbers = s.old_numbers.data(), *numbers = s.numbers.data();
  // The rooms of the values serve the codes first.
  read_codes(old, s.old_numbers.data(), s.old_values.data());
  read_codes(t, s.numbers.data(), s.stored_values.data());
  decode_tile(old, s.old_values.data());
  decode_tile(t, s.stored_values.data());
  const Entries entries(t);
  for (std::int64_t b = 0; b < t.blocks; ++b) {
    const bool same_step = t.steps[b] == old.steps[b];
    const float step = bf16_to_float(t.steps[b]);
    const std::int64_t end = std::min(t.count, (b + 1) * t.codec.block);
    for (std::int64_t i = b * t.codec.block; i < end; ++i) {
      const std::int32_t number = numbers[i];
      count_change(stats, before[i], wanted[i], stored[i], same_step && number == old_numbers[i]);
      stats.saturated += step != 0 && (number <= entries.first || number >= entries.last) ? 1 : 0;
      if (step != 0 && wanted[i] != before[i]) {
        ++stats.packed_increments;
        stats.change_in_gaps += std::abs(static_cast<double>(wanted[i]) - before[i]) /
                                entries.gap_beside(number, step, wanted[i]);
      }
    }
  }
  return stats;
}

void apply_rule(const Rule& rule, std::array<std::array<float, kTile>, kRoles>& v, std::int64_t count) {
  if (const Sgd* sgd = std::get_if<Sgd>(&rule)) {
    tile_kernels().apply_sgd(*sgd, v[0].data(), v[1].data(), v[2].data(), count);
  } else {
    tile_kernels().apply_adam(std::get<Adam>(rule), v[0].data(), v[1].data(), v[2].data(), v[3].data(),
                              count);
  }
}

bool feeds_back(const Rule& rule) {
  return std::visit([](const auto& r) { return r.feedback != 0; }, rule);
}

// The parameter's rounding error goes into the momentum that is stored next.
void feed_back(const Rule& rule, const TileView& parameter, Scratch& s) {
  const float *wanted = s.values[0].data(), *stored = s.stored_values.data();
  float* m = s.values[2].data();
  decode_tile(parameter, s.stored_values.data());
  if (const Sgd* sgd = std::get_if<Sgd>(&rule)) {
    tile_kernels().feed_back_sgd(*sgd, wanted, stored, m, parameter.padded);
  } else {
    tile_kernels().feed_back_adam(std::get<Adam>(rule), wanted, stored, m, s.values[3].data(),
                                  parameter.padded);
  }
}

void empty_tile(const TileView& t) {
  if (t.steps != nullptr) {
    std::memset(t.steps, 0, t.step_size());
  } else {
    std::memset(t.codes, 0, t.code_size());
  }
}

double sum_in_order(const std::vector<double>& parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

void sum_in_order(const std::vector<ChangeStats>& parts, ChangeStats* sum) {
  for (const ChangeStats& part : parts) *sum += part;
}

}  // namespace

bool encode(Pool& pool, const RoleView& dst, std::int64_t first, std::int64_t count, const float* src,
            const Noise& noise) {
  std::atomic<bool> storable{true};
  for_each_tile(pool, Cut(count, dst.codec.block), first, count,
                [&](std::size_t, std::int64_t at, std::int64_t n) {
                  Scratch& s = scratch();
                  const TileView t = tile_of(dst, at, n);
                  float* values = s.values[0].data();
                  std::memcpy(values, src + (at - first), static_cast<std::size_t>(4 * n));
                  zero_padding(values, t);
                  if (!encode_tile(t, values, noise, s)) storable.store(false, std::memory_order_relaxed);
                });
  return storable;
}

void decode(Pool& pool, const RoleView& src, std::int64_t first, std::int64_t count, float* dst) {
  for_each_tile(pool, Cut(count, src.codec.block), first, count,
                [&](std::size_t, std::int64_t at, std::int64_t n) {
                  float* values = scratch().values[0].data();
                  decode_tile(tile_of(src, at, n), values);
                  std::memcpy(dst + (at - first), values, static_cast<std::size_t>(4 * n));
                });
}

void decode_bf16(Pool& pool, const RoleView& src, std::int64_t first, std::int64_t count,
                 std::uint16_t* dst) {
  for_each_tile(pool, Cut(count, src.codec.block), first, count,
                [&](std::size_t, std::int64_t at, std::int64_t n) {
                  float* values = scratch().values[0].data();
                  decode_tile(tile_of(src, at, n), values);
                  tile_kernels().to_bf16(values, nullptr, n, dst + (at - first));
                });
}

void decode_rows(Pool& pool, const RoleView& src, std::int64_t width, const std::int32_t* rows,
                 std::int64_t count, float* dst) {
  const std::int64_t unit = std::max<std::int64_t>(kGroup, src.codec.block);
  pool.for_each(count, [&](std::int64_t i, int) {
    const std::int64_t first = rows[i] * width, end = first + width;
    std::int64_t n = 0;
    for (std::int64_t at = first / unit * unit; at < end; at += n) {
      n = std::min(kTile, src.elements - at);
      n = std::min(n, (end - at + unit - 1) / unit * unit);
      float* values = scratch().values[0].data();
      decode_tile(tile_of(src, at, n), values);
      const std::int64_t from = std::max(first, at), to = std::min(end, at + n);
      std::memcpy(dst + i * width + (from - first), values + (from - at),
                  static_cast<std::size_t>(4 * (to - from)));
    }
  });
}

FoldResult fold(Pool& pool, const RoleView& accumulator, std::int64_t first, std::int64_t count,
                const float* contribution, const FoldArgs& args) {
  const bool in_momentum = is_stream_of(args.noise.stream, Role::kMomentum);
  const Cut cut(count, accumulator.codec.block);
  const auto runs = static_cast<std::size_t>(cut.runs());
  std::vector<double> squares(args.want_square_sum ? static_cast<std::size_t>(cut.tiles) : 0);
  std::vector<ChangeStats> stats(args.stats != nullptr ? runs : 0);
  std::atomic<bool> finite{true};
  for_each_tile(pool, cut, first, count, [&](std::size_t run, std::int64_t at, std::int64_t n) {
    Scratch& s = scratch();
    const TileKernels& kernels = tile_kernels();
    const TileView t = tile_of(accumulator, at, n);
    prefetch_next(accumulator, at, n);
    float* sum = s.values[0].data();
    float* addend = s.values[1].data();
    decode_tile(t, sum);
    std::memcpy(addend, contribution + (at - first), static_cast<std::size_t>(4 * n));
    zero_padding(addend, t);
    kernels.add_scaled(sum, addend, args.scale, t.padded);
    if (args.want_square_sum) squares[cut.index(at - first)] = kernels.square_sum(sum, t.padded);
    if (args.stats != nullptr) remember(t, s);
    const auto choose = [&](float largest, std::uint16_t old) {
      return in_momentum ? next_step(t.codec, largest, old) : next_accumulator_step(t.codec, largest, old);
    };
    if (!encode_tile(t, sum, args.noise, s, choose)) finite.store(false, std::memory_order_relaxed);
    if (args.stats != nullptr) stats[run] += count_changes(t, sum, s);
  });
  if (args.stats != nullptr) sum_in_order(stats, args.stats);
  return {finite, sum_in_order(squares)};
}

double square_sum(Pool& pool, const RoleView& src, std::int64_t first, std::int64_t count) {
  const Cut cut(count, src.codec.block);
  std::vector<double> squares(static_cast<std::size_t>(cut.tiles));
  for_each_tile(pool, cut, first, count, [&](std::size_t, std::int64_t at, std::int64_t n) {
    const TileView t = tile_of(src, at, n);
    float* values = scratch().values[0].data();
    decode_tile(t, values);
    squares[cut.index(at - first)] = tile_kernels().square_sum(values, t.padded);
  });
  return sum_in_order(squares);
}

void clear(Pool& pool, const RoleView& accumulator) {
  const Cut cut(accumulator.elements, accumulator.codec.block);
  for_each_tile(pool, cut, 0, accumulator.elements, [&](std::size_t, std::int64_t at, std::int64_t n) {
    empty_tile(tile_of(accumulator, at, n));
  });
}

bool update(Pool& pool, const Rule& rule, const UpdateArgs& args) {
  const std::array<const RoleView*, kRoles> roles = {&args.parameter, &args.accumulator, &args.momentum,
                                                     &args.variance};
  const std::int64_t elements = args.parameter.elements;
  const auto accumulator = static_cast<std::size_t>(Role::kAccumulator);
  int block = 0;
  for (const RoleView* role : roles) {
    if (role->codes != nullptr) block = std::max(block, role->codec.block);
  }
  const Cut cut(elements, block);
  std::array<std::vector<ChangeStats>, kRoles> stats;
  if (args.stats != nullptr) stats.fill(std::vector<ChangeStats>(static_cast<std::size_t>(cut.runs())));
  const bool with_feedback = feeds_back(rule);
  std::atomic<bool> storable{true};
  for_each_tile(pool, cut, 0, elements, [&](std::size_t run, std::int64_t at, std::int64_t n) {
    Scratch& s = scratch();
    std::array<TileView, kRoles> views;
    const std::int64_t padded = groups_of(n) * kGroup;
    for (std::size_t r = 0; r < kRoles; ++r) {
      if (roles[r]->codes == nullptr) {  // the rule does not read it, but for the gradient
        if (r == accumulator) std::fill_n(s.values[r].data(), padded, 0.0F);
        continue;
      }
      views[r] = tile_of(*roles[r], at, n);
      prefetch_next(*roles[r], at, n);
      decode_tile(views[r], s.values[r].data());
    }
    apply_rule(rule, s.values, padded);
    for (std::size_t r = 0; r < kRoles; ++r) {
      if (roles[r]->codes == nullptr) continue;
      if (r == accumulator) {
        empty_tile(views[r]);
        continue;
      }
      Noise noise = args.noise;
      noise.stream = noise_stream(static_cast<Role>(r));
      float* values = s.values[r].data();
      zero_padding(values, views[r]);
      if (args.stats != nullptr) remember(views[r], s);
      if (!encode_tile(views[r], values, noise, s)) storable.store(false, std::memory_order_relaxed);
      if (args.stats != nullptr) stats[r][run] += count_changes(views[r], values, s);
      if (r == 0 && with_feedback) feed_back(rule, views[0], s);
    }
  });
  if (args.stats != nullptr) {
    for (std::size_t r = 0; r < kRoles; ++r) {
      if (roles[r]->codes != nullptr && r != accumulator) sum_in_order(stats[r], &args.stats[r]);
    }
  }
  return storable;
}

const char* const* simd_levels(int* count) {
  static const std::vector<const char*> kNames = [] {
    std::vector<const char*> names;
    for (const TileKernels* set : kernel_sets()) names.push_back(set->name);
    return names;
  }();
  *count = static_cast<int>(kNames.size());
  return kNames.data();
}

void use_simd_level(const char* name) {
  const std::string_view wanted = name;
  for (const TileKernels* set : kernel_sets()) {
    if (wanted.empty() || wanted == set->name) {
      chosen_kernels().store(set, std::memory_order_relaxed);
      return;
    }
  }
  throw std::invalid_argument(fmt::format("no SIMD level '{}' here", wanted));
}

const char* simd_level() {
  return tile_kernels().name;
}

}  // namespace lpmm::kernels
