// Values of either type, one by one.
#pragma once

#include <cstdint>

#include "kernels/formats/codec.h"
#include "kernels/matrix.h"

namespace lpmm::kernels {

inline float get(ValueType type, const void* p, std::int64_t i) {
  return type == ValueType::kFp32 ? static_cast<const float*>(p)[i]
                                  : bf16_to_float(static_cast<const std::uint16_t*>(p)[i]);
}
inline void put(ValueType type, void* p, std::int64_t i, float v) {
  if (type == ValueType::kFp32) {
    static_cast<float*>(p)[i] = v;
  } else {
    static_cast<std::uint16_t*>(p)[i] = float_to_bf16(v);
  }
}

}  // namespace lpmm::kernels
