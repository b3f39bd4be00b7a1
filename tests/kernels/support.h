// Helpers that the kernel tests share: formats, packed tensors on the heap, seeded values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cpu_packed.h"
#include "kernels/formats/maps.h"
#include "tests/normal_values.h"

namespace lpmm::kernels {

// The kernels with a result, as functions that return it.
inline bool encode(PackedDevice& device, const RoleView& dst, std::int64_t first, std::int64_t count,
                   const float* src, const Noise& noise) {
  bool storable = false;
  device.encode({dst, first, count, src, noise, &storable});
  device.synchronize();
  return storable;
}
inline FoldResult fold(PackedDevice& device, const RoleView& accumulator, std::int64_t first,
                       const Values& gradient, const FoldArgs& args) {
  FoldResult result;
  const Fold fold = {accumulator, first, gradient, args, &result};
  device.fold({&fold, 1});
  device.synchronize();
  return result;
}
inline FoldResult fold(PackedDevice& device, const RoleView& accumulator, std::int64_t first,
                       std::int64_t count, const float* gradient, const FoldArgs& args) {
  return fold(device, accumulator, first, {gradient, static_cast<std::size_t>(count)}, args);
}
inline double square_sum(PackedDevice& device, const RoleView& src, std::int64_t first, std::int64_t count) {
  double sum = 0;
  device.square_sum(src, first, count, &sum);
  device.synchronize();
  return sum;
}
inline bool update(PackedDevice& device, const Rule& rule, const UpdateArgs& args) {
  bool storable = false;
  const TensorUpdate tensor{rule, args, &storable};
  device.update({&tensor, 1});
  device.synchronize();
  return storable;
}

inline std::vector<Format> packed_formats() {
  std::vector<Format> formats;
  for (const Format f : all_formats()) {
    if (is_packed(f)) formats.push_back(f);
  }
  return formats;
}

inline const std::vector<Format>& stored_formats() {
  return all_formats();
}

inline Codec codec_of(Format f, int block = 128, Rounding rounding = Rounding::kStochastic,
                      StepMode mode = StepMode::kMoving) {
  return {f, is_packed(f) ? block : 0, rounding, mode};
}

// The code patterns a format may hold, in ascending order of value.
inline std::vector<std::uint32_t> codes_of(Format f) {
  std::vector<std::uint32_t> codes;
  const std::int32_t limit = code_limit(f.bits);
  if (has_signed_codes(f.map)) {
    for (std::int32_t k = -limit; k <= limit; ++k) {
      codes.push_back(static_cast<std::uint32_t>(k) & ((1U << f.bits) - 1U));
    }
  } else {
    for (int c = 0; c < map_table(f).entries; ++c) codes.push_back(static_cast<std::uint32_t>(c));
  }
  return codes;
}

// A tensor stored as one role. Bytes past its end are guarded.
class Packed {
 public:
  Packed(Codec codec, std::int64_t elements)
      : codes_(static_cast<std::size_t>(code_bytes(codec.format, elements)) + 128, 0xA5),
        steps_(static_cast<std::size_t>(step_bytes(codec, elements) / 2) + 1, 0) {
    steps_.back() = 0xA5A5;
    view_ = {codec, aligned(), steps_.data(), elements};
    std::memset(view_.codes, 0, static_cast<std::size_t>(code_bytes(codec.format, elements)));
  }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  const RoleView& view() const { return view_; }
  std::vector<std::uint8_t> codes() const {
    return {view_.codes, view_.codes + code_bytes(view_.codec.format, view_.elements)};
  }
  std::vector<std::uint16_t> steps() const { return {steps_.begin(), steps_.end() - 1}; }
  std::uint32_t code(std::int64_t i) const { return load_code(view_.codes, view_.codec.format, i); }
  bool intact() const {
    return *(view_.codes + code_bytes(view_.codec.format, view_.elements)) == 0xA5 && steps_.back() == 0xA5A5;
  }
  bool operator==(const Packed& o) const { return codes() == o.codes() && steps() == o.steps(); }

 private:
  std::uint8_t* aligned() {
    const auto at = reinterpret_cast<std::uintptr_t>(codes_.data());
    return codes_.data() + (64 - at % 64) % 64;
  }
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint16_t> steps_;
  RoleView view_;
};

inline std::vector<float> decoded(PackedDevice& device, const Packed& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.view().elements));
  device.decode(tensor.view(), 0, tensor.view().elements, values.data());
  return values;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

// Adds tensors: neighbours, then neighbours of those.
inline std::vector<float> added_as_tree(std::vector<std::vector<float>> terms) {
  for (std::size_t width = 1; width < terms.size(); width *= 2) {
    for (std::size_t i = 0; i + width < terms.size(); i += 2 * width) {
      std::transform(terms[i].begin(), terms[i].end(), terms[i + width].begin(), terms[i].begin(),
                     std::plus<>());
    }
  }
  return terms[0];
}

}  // namespace lpmm::kernels
