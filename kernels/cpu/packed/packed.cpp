#include "kernels/packed.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "kernels/cpu/packed/tile_view.h"

namespace lpmm::kernels {

bool encode(Pool& pool, const RoleView& dst, std::int64_t first, std::int64_t count, const float* src,
            const Noise& noise) {
  std::atomic<bool> storable{true};
  for_each_tile(pool, Cut(count, dst.codec.block), first, count,
                [&](std::size_t, std::int64_t at, std::int64_t n) {
                  Scratch& s = scratch();
                  const TileView t = tile_of(dst, at, n);
                  float* values = s.values[Role::kParameter].data();
                  std::memcpy(values, src + (at - first), static_cast<std::size_t>(4 * n));
                  zero_padding(values, t);
                  if (!encode_tile(t, values, noise, s)) storable.store(false, std::memory_order_relaxed);
                });
  return storable;
}

void decode(Pool& pool, const RoleView& src, std::int64_t first, std::int64_t count, float* dst) {
  for_each_tile(pool, Cut(count, src.codec.block), first, count,
                [&](std::size_t, std::int64_t at, std::int64_t n) {
                  float* values = scratch().values[Role::kParameter].data();
                  decode_tile(tile_of(src, at, n), values);
                  std::memcpy(dst + (at - first), values, static_cast<std::size_t>(4 * n));
                });
}

void decode_bf16(Pool& pool, const RoleView& src, std::int64_t first, std::int64_t count,
                 std::uint16_t* dst) {
  for_each_tile(pool, Cut(count, src.codec.block), first, count,
                [&](std::size_t, std::int64_t at, std::int64_t n) {
                  float* values = scratch().values[Role::kParameter].data();
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
      float* values = scratch().values[Role::kParameter].data();
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
    float* sum = s.values[Role::kParameter].data();
    float* addend = s.values[Role::kAccumulator].data();
    decode_tile(t, sum);
    std::memcpy(addend, contribution + (at - first), static_cast<std::size_t>(4 * n));
    zero_padding(addend, t);
    kernels.add_scaled(sum, addend, args.scale, t.padded);
    if (args.want_square_sum) squares[cut.index(at - first)] = kernels.square_sum(sum, t.padded);
    if (args.stats != nullptr) remember(t, s);
    const StepRule rule = in_momentum ? StepRule::kUpdate : StepRule::kAccumulator;
    if (!encode_tile(t, sum, args.noise, s, rule)) finite.store(false, std::memory_order_relaxed);
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
    float* values = scratch().values[Role::kParameter].data();
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

}  // namespace lpmm::kernels
