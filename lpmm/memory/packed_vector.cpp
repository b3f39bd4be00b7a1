#include "lpmm/memory/packed_vector.h"

#include <fmt/format.h>

#include "lpmm/base/error.h"

namespace lpmm {

constexpr MemoryFile kVectorFile = {"lpmm packed vector", "vector", false};

// Two dimensions, because 1-D tensors are exempt from packing.
PackedVector::PackedVector(std::span<const float> values, std::string_view preset,
                           const OptimizerConfig& optimizer, std::unique_ptr<PackedDevice> own,
                           PackedDevice* device, std::uint64_t seed)
    : own_(std::move(own)),
      memory_({{"weights", {1, static_cast<std::int64_t>(values.size())}}}, make_policy(preset, optimizer),
              optimizer, seed, 1, own_ ? *own_ : *device) {
  memory_.initialize(0, 0, values);
}
PackedVector::PackedVector(std::span<const float> values, std::string_view preset,
                           const OptimizerConfig& optimizer, PackedDevice& device, std::uint64_t seed)
    : PackedVector(values, preset, optimizer, nullptr, &device, seed) {}
PackedVector::PackedVector(std::span<const float> values, std::string_view preset,
                           const OptimizerConfig& optimizer, std::uint64_t seed, int threads)
    : PackedVector(values, preset, optimizer, std::make_unique<CpuPackedDevice>(threads), nullptr, seed) {}

PackedVector::operator std::vector<float>() const {
  std::vector<float> values(static_cast<std::size_t>(size()));
  memory_.read(0, 0, values);
  return values;
}

void PackedVector::step(const kernels::Values& gradient, std::optional<double> learning_rate) {
  if (gradient.count != size()) {
    throw UsageError(fmt::format("a gradient of {} elements for {} weights", gradient.count, size()));
  }
  Step step = memory_.begin_step({.learning_rate = learning_rate});
  step.fold(0, 0, gradient, 0);
  if (!std::move(step).commit().applied) {
    throw RunError(fmt::format("step {}: a gradient is NaN, infinite or above 2^120", memory_.last_step()));
  }
}

void PackedVector::save(const std::string& path) const {
  memory_.save(path, kVectorFile);
}
void PackedVector::load(const std::string& path) {
  memory_.load(path, kVectorFile);
}

}  // namespace lpmm
