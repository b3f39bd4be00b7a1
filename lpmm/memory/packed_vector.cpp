#include "lpmm/memory/packed_vector.h"

#include <fmt/format.h>

#include "lpmm/base/error.h"

namespace lpmm {

// Two dimensions, because 1-D tensors are exempt from packing.
PackedVector::PackedVector(std::span<const float> values, std::string_view preset,
                           const OptimizerConfig& optimizer, std::uint64_t seed, int threads)
    : pool_(threads),
      memory_({{"weights", {1, static_cast<std::int64_t>(values.size())}}}, make_policy(preset, optimizer),
              optimizer, seed, 1, pool_) {
  memory_.initialize(0, 0, values);
}

PackedVector::operator std::vector<float>() const {
  std::vector<float> values(static_cast<std::size_t>(size()));
  memory_.decode(0, 0, values);
  return values;
}

void PackedVector::step(std::span<const float> gradient, double learning_rate) {
  if (static_cast<std::int64_t>(gradient.size()) != size()) {
    throw UsageError(fmt::format("a gradient of {} elements for {} weights", gradient.size(), size()));
  }
  memory_.begin_step(++step_);
  memory_.fold(0, 0, gradient, 0);
  if (!memory_.commit(learning_rate).applied) {
    throw RunError(fmt::format("step {}: a gradient is NaN, infinite or above 2^120", step_));
  }
}

}  // namespace lpmm
