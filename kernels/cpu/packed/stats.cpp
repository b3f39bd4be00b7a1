// The underflow ledger's counts.
#include <cmath>
#include <cstring>

#include "kernels/cpu/packed/tile_view.h"

namespace lpmm::kernels {
namespace {

// The codes as numbers: what a linear map with step 1 reads; unsigned maps then count from 0.
void read_codes(const TileView& t, std::int32_t* numbers, float* room) {
  Codec linear = t.codec;
  linear.format.map = Map::kLinear;
  decode_without_steps(linear, t, room);
  const std::int32_t mask = has_signed_codes(t.codec.format.map) ? -1 : (1 << t.codec.format.bits) - 1;
  for (std::int64_t i = 0; i < t.padded; ++i) numbers[i] = static_cast<std::int32_t>(room[i]) & mask;
}

// A map as the ledger reads it: numbers from first to last, each with its entry.
struct Entries {
  const float* values;  // null: linear, the number itself
  std::int32_t first, last;

  Entries(const TileView& t, const MapTable& of_block)
      : values(t.codec.format.map == Map::kLinear ? nullptr : of_block.values),
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

void count_change(ChangeStats& stats, float old, float wanted, float stored, bool same) {
  const double change = static_cast<double>(wanted) - old;
  const double error = static_cast<double>(stored) - wanted;
  stats.true_change_squared += change * change;
  stats.change_error_squared += error * error;
  stats.error_along_wanted += error * wanted;
  stats.wanted_squared += static_cast<double>(wanted) * wanted;
  stats.increments += change != 0 ? 1 : 0;
  stats.underflows += change != 0 && same ? 1 : 0;
}

}  // namespace

void remember(const TileView& t, Scratch& s) {
  std::memcpy(s.old_codes.data(), t.codes, t.code_size());
  if (t.blocks > 0) std::memcpy(s.old_steps.data(), t.steps, t.step_size());
}

ChangeStats count_changes(const TileView& t, const float* encoded, Scratch& s, const bool* is_still) {
  TileView old = t;
  old.codes = s.old_codes.data();
  if (t.blocks > 0) old.steps = s.old_steps.data();
  old.next_steps = nullptr;
  const float *before = s.old_values.data(), *stored = s.stored_values.data();
  const auto wanted = [=](std::int64_t i) {
    return is_still != nullptr && is_still[i] ? before[i] : encoded[i];
  };
  ChangeStats stats;
  stats.elements = t.count;
  if (!is_packed(t.codec.format)) {
    decode_tile(old, s.old_values.data());
    decode_tile(t, s.stored_values.data());
    for (std::int64_t i = 0; i < t.count; ++i) {
      count_change(stats, before[i], wanted(i), stored[i], stored[i] == before[i]);
    }
    return stats;
  }
  const std::int32_t *old_numbers = s.old_numbers.data(), *numbers = s.numbers.data();
  // The rooms of the values serve the codes first.
  read_codes(old, s.old_numbers.data(), s.old_values.data());
  read_codes(t, s.numbers.data(), s.stored_values.data());
  decode_tile(old, s.old_values.data());
  decode_tile(t, s.stored_values.data());
  const auto count = [&](std::int64_t i, float step, bool same_step, const Entries& entries) {
    const std::int32_t number = numbers[i];
    count_change(stats, before[i], wanted(i), stored[i], same_step && number == old_numbers[i]);
    stats.saturated += step != 0 && (number <= entries.first || number >= entries.last) ? 1 : 0;
    if (step != 0 && wanted(i) != before[i]) {
      ++stats.packed_increments;
      stats.change_in_gaps +=
          std::abs(static_cast<double>(wanted(i)) - before[i]) / entries.gap_beside(number, step, wanted(i));
    }
  };
  if (divides_first(t.codec)) {
    fill_steps(old, s.step_before.data());
    fill_steps(t, s.steps.data());
    const Entries entries(t, t.table);
    for (std::size_t i = 0; i < static_cast<std::size_t>(t.count); ++i) {
      count(static_cast<std::int64_t>(i), s.steps[i], s.steps[i] == s.step_before[i], entries);
    }
    return stats;
  }
  for (std::int64_t b = 0; b < t.blocks; ++b) {
    const bool same_step = t.steps[b] == old.steps[b];
    const auto [step, table] = scale_of(t.codec.format, t.table, t.steps[b]);
    const Entries entries(t, table);
    const std::int64_t end = std::min(t.count, (b + 1) * t.codec.block);
    for (std::int64_t i = b * t.codec.block; i < end; ++i) count(i, step, same_step, entries);
  }
  return stats;
}

}  // namespace lpmm::kernels
