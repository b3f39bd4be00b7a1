#include "kernels/cpu_packed.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <vector>

#include "kernels/cpu/packed/next_steps.h"
#include "kernels/cpu/packed/tile_view.h"

namespace lpmm::kernels::cpu {
namespace {

NextSteps steps_for(Pool& pool, const RoleView& dst, const float* src) {
  NextSteps next(dst);
  for_each_tile(pool, Cut(dst.elements, 0), 0, dst.elements,
                [&](std::size_t, std::int64_t at, std::int64_t n) {
                  const TileView t = tile_of(dst, at, n);
                  float* values = scratch().values[Role::kParameter].data();
                  std::memcpy(values, src + at, static_cast<std::size_t>(4 * n));
                  zero_padding(values, t);
                  make_tile_storable(t, values);
                  next.raise(t, values);
                });
  next.choose();
  return next;
}

// The fp32 values of a gradient, `count` from element `at` on: where they are, or widened to `room`.
const float* floats_of(const Values& gradient, std::int64_t at, std::int64_t count, float* room) {
  if (gradient.type == ValueType::kFp32) return static_cast<const float*>(gradient.data) + at;
  tile_kernels().from_bf16(static_cast<const std::uint16_t*>(gradient.data) + at, count, room);
  return room;
}

}  // namespace

void encode(Pool& pool, const EncodeArgs& args) {
  const RoleView& dst = args.dst;
  const NextSteps next = has_blocks(dst.codec) ? NextSteps() : steps_for(pool, dst, args.src);
  std::atomic<bool> all{true};
  for_each_tile(pool, Cut(args.count, piece_of_blocks(dst.codec)), args.first, args.count,
                [&](std::size_t, std::int64_t at, std::int64_t n) {
                  Scratch& s = scratch();
                  TileView t = tile_of(dst, at, n);
                  t.next_steps = next.data();
                  const float* from = args.src + (at - args.first);
                  if (t.count == t.padded && encode_if_storable(t, from, args.noise, s)) return;
                  float* values = s.values[Role::kParameter].data();
                  std::memcpy(values, from, static_cast<std::size_t>(4 * n));
                  zero_padding(values, t);
                  if (!encode_tile(t, values, args.noise, s)) all.store(false, std::memory_order_relaxed);
                });
  next.store();
  if (args.storable != nullptr) *args.storable = all;
}

void decode(Pool& pool, const RoleView& src, std::int64_t first, std::int64_t count, float* dst) {
  for_each_tile(pool, Cut(count, kTile), first, count, [&](std::size_t, std::int64_t at, std::int64_t n) {
    const TileView t = tile_of(src, at, n);
    float* to = dst + (at - first);
    if (t.count == t.padded) return decode_tile(t, to);
    float* values = scratch().values[Role::kParameter].data();
    decode_tile(t, values);
    std::memcpy(to, values, static_cast<std::size_t>(4 * n));
  });
}

void decode_bf16(Pool& pool, const RoleView& src, std::int64_t first, std::int64_t count,
                 std::uint16_t* dst) {
  for_each_tile(pool, Cut(count, kTile), first, count, [&](std::size_t, std::int64_t at, std::int64_t n) {
    const TileView t = tile_of(src, at, n);
    std::uint16_t* to = dst + (at - first);
    if (t.count == t.padded) return decode_tile(t, to);
    float* values = scratch().values[Role::kParameter].data();
    decode_tile(t, values);
    tile_kernels().to_bf16(values, nullptr, n, to);
  });
}

void decode_rows(Pool& pool, const DecodeRowsArgs& args) {
  const RoleView& src = args.src;
  const std::int64_t width = args.width;
  const std::int64_t unit = std::max<std::int64_t>(kGroup, piece_of_blocks(src.codec));
  pool.for_each(args.count, [&](std::int64_t i, int) {
    const std::int64_t row = args.rows[i] * width - args.src_first;
    const std::int64_t first = std::max<std::int64_t>(0, row), end = std::min(row + width, src.elements);
    std::int64_t n = 0;
    for (std::int64_t at = first / unit * unit; at < end; at += n) {
      n = std::min(kTile, src.elements - at);
      n = std::min(n, (end - at + unit - 1) / unit * unit);
      float* values = scratch().values[Role::kParameter].data();
      decode_tile(tile_of(src, at, n), values);
      const std::int64_t from = std::max(first, at), to = std::min(end, at + n);
      std::memcpy(args.dst + i * width + (from - row), values + (from - at),
                  static_cast<std::size_t>(4 * (to - from)));
    }
  });
}

void decode_sum(Pool& pool, std::span<const RoleView> views, float* dst) {
  const RoleView& any = views.front();
  const Cut cut(any.elements, piece_of_blocks(any.codec));
  const std::int64_t lines = groups_of(std::min(cut.tile, any.elements)) * kGroup / 16;
  // As many as a tree over so many has sums of two or more that wait for another.
  const int levels = std::max(0, static_cast<int>(std::bit_width(views.size())) - 2);
  for_each_tile(pool, cut, 0, any.elements, [&](std::size_t, std::int64_t at, std::int64_t n) {
    // They are small enough for L1, but for blocks that are larger than a unit.
    std::vector<Scratch::Line>& waiting = scratch().waiting;
    waiting.resize(std::max(waiting.size(), static_cast<std::size_t>(levels * lines)));
    const auto room = [&](int i) {
      return i == 0 ? dst + at : waiting[static_cast<std::size_t>((i - 1) * lines)].values;
    };
    const auto some = [&](int i, int count) {
      return views.subspan(static_cast<std::size_t>(i), static_cast<std::size_t>(count));
    };
    const auto load = [&](int i, int count, int to) { decode_tiles(some(i, count), at, n, room(to)); };
    const auto load_more = [&](int i, int count, int to, int /*free*/) {
      decode_tiles(some(i, count), at, n, room(to), true);
    };
    const auto add = [&](int to, int from) {
      tile_kernels().add_scaled(room(to), room(from), 1, groups_of(n) * kGroup);
    };
    add_as_tree(0, static_cast<int>(views.size()), versions_at_once(any.codec), 0, 1, load, load_more, add);
  });
}

void fold(Pool& pool, const Fold& fold) {
  const RoleView& accumulator = fold.accumulator;
  const Values& gradient = fold.gradient;
  const FoldArgs& args = fold.args;
  const std::int64_t first = fold.first, count = gradient.count;
  const bool in_momentum = is_stream_of(args.noise.stream, Role::kMomentum);
  const TileKernels& kernels = tile_kernels();
  const Cut cut(count, piece_of_blocks(accumulator.codec));
  std::vector<double> squares(args.want_square_sum ? static_cast<std::size_t>(units_of(count)) : 0);
  std::vector<ChangeStats> stats(args.stats != nullptr ? static_cast<std::size_t>(cut.runs()) : 0);
  std::atomic<bool> finite{true};
  const auto sums_from = [&](std::int64_t at) {
    return args.want_square_sum ? squares.data() + (at - first) / kUnit : nullptr;
  };
  const FusedFold fused = kernels.fused_fold != nullptr && args.stats == nullptr
                              ? kernels.fused_fold(accumulator.codec)
                              : nullptr;
  const auto fold_fused = [&](std::size_t, std::int64_t at, std::int64_t n) {
    if (fused == nullptr) return std::int64_t{0};
    const std::int64_t most = gradient.type == ValueType::kFp32 ? n : kTile;  // that are widened at once
    std::int64_t done = 0;
    for (std::int64_t ready = 0; done == ready && done < n;) {
      const std::int64_t now = std::min(most, n - done);
      float* room = scratch().values[Role::kAccumulator].data();
      const float* addend = floats_of(gradient, at + done - first, now, room);
      done += fused(accumulator, at + done, now, addend, args, sums_from(at + done));
      ready += now;
    }
    return done;
  };
  const auto fold_tile = [&](std::size_t run, std::int64_t at, std::int64_t n) {
    Scratch& s = scratch();
    const TileView t = tile_of(accumulator, at, n);
    float* sum = s.values[Role::kParameter].data();
    decode_tile(t, sum);
    float* room = s.values[Role::kAccumulator].data();
    const float* addend = floats_of(gradient, at - first, n, room);
    if (t.count != t.padded) {
      if (addend != room) std::memcpy(room, addend, static_cast<std::size_t>(4 * n));
      zero_padding(room, t);
      addend = room;
    }
    kernels.add_scaled(sum, addend, args.scale, t.padded);
    if (args.want_square_sum) kernels.square_sums(sum, t.padded, sums_from(at));
    if (args.stats != nullptr) remember(t, s);
    const StepRule rule = in_momentum ? StepRule::kUpdate : StepRule::kAccumulator;
    if (!encode_tile(t, sum, args.noise, s, rule)) finite.store(false, std::memory_order_relaxed);
    if (args.stats != nullptr) stats[run] += count_changes(t, sum, s);
  };
  for_each_tile(pool, cut, first, count, fold_fused, fold_tile);
  if (args.stats != nullptr) sum_in_order(stats, args.stats);
  if (fold.result != nullptr) *fold.result = {finite, sum_as_tree(squares.data(), std::ssize(squares))};
}

void square_sum(Pool& pool, const RoleView& src, std::int64_t first, std::int64_t count, double* sum) {
  std::vector<double> squares(static_cast<std::size_t>(units_of(count)));
  for_each_tile(pool, Cut(count, piece_of_blocks(src.codec)), first, count,
                [&](std::size_t, std::int64_t at, std::int64_t n) {
                  const TileView t = tile_of(src, at, n);
                  const auto* values = reinterpret_cast<const float*>(t.codes);
                  if (t.codec.format.map != Map::kFp32 || t.count != t.padded) {
                    float* room = scratch().values[Role::kParameter].data();
                    decode_tile(t, room);
                    values = room;
                  }
                  tile_kernels().square_sums(values, t.padded, squares.data() + (at - first) / kUnit);
                });
  *sum = sum_as_tree(squares.data(), std::ssize(squares));
}

void clear(Pool& pool, const RoleView& accumulator) {
  for_each_tile(
      pool, Cut(accumulator.elements, kTile), 0, accumulator.elements,
      [&](std::size_t, std::int64_t at, std::int64_t n) { empty_tile(tile_of(accumulator, at, n)); });
}

}  // namespace lpmm::kernels::cpu
