// A vector of weights with its optimizer, packed: for a loop of your own that holds its weights in one fp32
// vector. Whole models use ModelMemory, which hands out ranges of tensors and takes gradients range by range.
// A vector is used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu_packed.h"
#include "lpmm/memory/model_memory.h"

namespace lpmm {

class PackedVector {
 public:
  // Packs `values` by a preset of make_policy, error feedback included. Throws UsageError or RunError as
  // ModelMemory does. It lies in the host's memory and has threads of its own, as CpuPackedDevice takes them;
  // the result does not depend on them.
  PackedVector(std::span<const float> values, std::string_view preset, const OptimizerConfig& optimizer,
               std::uint64_t seed = 1, int threads = 0);
  // The same in the memory of a device, which outlives the vector. `values` are the host's.
  PackedVector(std::span<const float> values, std::string_view preset, const OptimizerConfig& optimizer,
               PackedDevice& device, std::uint64_t seed = 1);

  std::int64_t size() const { return memory_.info(0).elements(); }
  // The weights decoded to fp32, without a compensation, as forward reads them: a temporary, gone with the
  // expression that asked for it.
  operator std::vector<float>() const;  // NOLINT(google-explicit-constructor): it stands in for the vector
  // One update by a gradient in the device's memory, at the optimizer's learning rate or another. Throws
  // RunError where the gradient is not finite, and UsageError where the learning rate is negative, NaN or
  // infinite; the weights are then as before.
  void step(const kernels::Values& gradient, std::optional<double> learning_rate = {});

  // One safetensors file of codes, steps and state. A vector of the same size, preset, optimizer and seed
  // that loads it goes on to the bit; the learning rate may be another. load() throws RunError naming the
  // file and what differs, with both values, where it is not such a file; the vector is then as before. Files
  // of November 2026 and earlier do not say their optimizer: of them the states' specs must fit.
  void save(const std::string& path) const;
  void load(const std::string& path);

  const ModelMemory& memory() const { return memory_; }

 private:
  PackedVector(std::span<const float> values, std::string_view preset, const OptimizerConfig& optimizer,
               std::unique_ptr<PackedDevice> own, PackedDevice* device, std::uint64_t seed);
  std::unique_ptr<PackedDevice> own_;  // null where it is the caller's
  ModelMemory memory_;
};

}  // namespace lpmm
