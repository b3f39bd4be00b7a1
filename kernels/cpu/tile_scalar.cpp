// The specification in loops, and what every faster set is compared with.
#include "kernels/cpu/tile.h"
#include "kernels/formats/element.h"
#include "kernels/sums.h"

namespace lpmm::kernels {
namespace {

void lines(const Noise& noise, std::int64_t first_group, std::int64_t groups, NoiseLine* out) {
  for (std::int64_t g = 0; g < groups; ++g) {
    out[g] = noise_line(noise, static_cast<std::uint32_t>(first_group + g));
  }
}

void draw(const Noise& noise, std::int64_t first_group, std::int64_t groups, std::uint32_t* words) {
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::uint32_t lane = 0; lane < 16; ++lane) {
      const std::uint32_t group = noise.first_group + static_cast<std::uint32_t>(first_group + g);
      const PhiloxWords w = noise_words(noise, 16 * group + lane);
      for (std::uint32_t i = 0; i < 4; ++i) words[64 * g + 16 * i + lane] = w.x[i];
    }
  }
}

float value_at(const Codec& codec, MapTable table, const std::uint8_t* codes, const std::uint16_t* steps,
               std::int64_t i) {
  const Scale scale = scale_of(codec.format, table, steps[i / codec.block]);
  return decode_code(codec.format, scale.table, load_code(codes, codec.format, i), scale.step);
}

void decode(const Codec& codec, MapTable table, const std::uint8_t* codes, const std::uint16_t* steps,
            std::int64_t count, float* values) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = value_at(codec, table, codes, steps, i);
}

void decode_versions(const Codec& codec, MapTable table, std::span<const PackedVersion> versions,
                     std::int64_t count, bool adds, float* sum) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = [&](std::size_t k) {
      return value_at(codec, table, versions[k].codes, versions[k].steps, i);
    };
    const float all = versions.size() == 1 ? value(0) : (value(0) + value(1)) + (value(2) + value(3));
    sum[i] = adds ? sum[i] + all : all;
  }
}

void encode(const Codec& codec, MapTable table, const float* values, const std::uint16_t* steps,
            const NoiseLine* lines, std::int64_t count, std::uint8_t* codes) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Scale scale = scale_of(codec.format, table, steps[i / codec.block]);
    const std::uint32_t draw = takes_draws(codec.rounding) ? draw_of(lines, i) : 0;
    store_code(codes, codec.format, i,
               scale.step == 0.0F
                   ? static_cast<std::uint32_t>(table.zero)
                   : encode_value(codec.format, scale.table, codec.rounding, values[i], scale.step, draw));
  }
}

void largest(const float* values, std::int64_t count, std::int64_t block, std::uint32_t* bits) {
  for (std::int64_t first = 0; first < count; first += block) {
    std::uint32_t most = 0;
    for (std::int64_t i = first; i < first + block && i < count; ++i) {
      const std::uint32_t magnitude = abs_bits(values[i]);
      most = magnitude > most ? magnitude : most;
    }
    bits[first / block] = most;
  }
}

void smallest(const float* values, std::int64_t count, std::int64_t block, std::uint32_t* bits) {
  for (std::int64_t first = 0; first < count; first += block) {
    std::uint32_t most = 0;
    for (std::int64_t i = first; i < first + block && i < count; ++i) {
      const std::uint32_t of_value = inverted(abs_bits(values[i]));
      most = of_value > most ? of_value : most;
    }
    bits[first / block] = inverted(most);
  }
}

void raise_peaks(Peak peak, const float* values, const float* beside, std::int64_t count,
                 std::uint8_t* codes) {
  const auto of = [&](std::int64_t i) {
    return peak == Peak::kUpdate ? update_peak(values[i], beside[i]) : ratio_peak(values[i]);
  };
  for (std::int64_t group = 0; group < count; group += kGroup, codes += kPeakBytes) {
    for (int i = 0; i < kPeakBytes; ++i) {
      codes[i] = raised_peaks(codes[i], false, of(group + i), of(group + kPeakBytes + i));
    }
  }
}

void add_scaled(float* sum, const float* addend, float scale, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += scale * addend[i];
}

void decode_bf16(const Codec& codec, MapTable table, const std::uint8_t* codes, const std::uint16_t* steps,
                 std::int64_t count, std::uint16_t* values) {
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = float_to_bf16(value_at(codec, table, codes, steps, i));
  }
}

void square_sums(const float* values, std::int64_t count, double* sums) {
  for (std::int64_t first = 0; first < count; first += kUnit) {
    double groups[kUnitGroups] = {};
    const std::int64_t here = groups_of(count - first) < kUnitGroups ? groups_of(count - first) : kUnitGroups;
    for (std::int64_t g = 0; g < here; ++g) {
      double lanes[kSumLanes] = {};
      const float* of_group = values + first + g * kGroup;
      for (int i = 0; i < kGroup; ++i) lanes[i % kSumLanes] += static_cast<double>(of_group[i]) * of_group[i];
      groups[g] = sum_of_lanes(lanes);
    }
    sums[first / kUnit] = sum_as_tree(groups, here);
  }
}

void to_bf16(const float* values, const NoiseLine* lines, std::int64_t count, std::uint16_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = round_to_bf16(values[i], lines, i);
}

void from_bf16(const std::uint16_t* values, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = bf16_to_float(values[i]);
}

}  // namespace

const TileKernels& scalar_tile_kernels() {
  static constexpr TileKernels kScalar = {"scalar",    lines,       draw,    decode,    decode_versions,
                                          decode_bf16, encode,      largest, smallest,  raise_peaks,
                                          add_scaled,  square_sums, to_bf16, from_bf16, nullptr};
  return kScalar;
}

}  // namespace lpmm::kernels
