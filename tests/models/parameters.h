// Counts the parameters of a model.
#pragma once

#include <cstdint>

#include "lpmm/program/family.h"

namespace lpmm {

inline std::int64_t parameters(const Model& model) {
  std::int64_t sum = 0;
  for (const TensorInfo& t : model.tensors()) sum += t.elements();
  return sum;
}

}  // namespace lpmm
