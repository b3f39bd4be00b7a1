// Weights that lie somewhere, for whoever writes them down in another layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/memory/policy.h"
#include "lpmm/program/published_facts.h"

namespace lpmm {

class WeightSource {
 public:
  using PanelBody = std::function<void(std::int64_t first, std::span<const float> values)>;
  virtual ~WeightSource() = default;

  virtual const std::string& path() const = 0;  // for messages
  virtual std::vector<TensorInfo> infos() const = 0;
  // All values of the tensor at this place of infos() in order, panel by panel.
  virtual void read(std::size_t tensor, PackedDevice& device, const PanelBody& body) const = 0;
  // The facts that their publisher stated besides, as the run kept them.
  virtual PublishedFacts facts() const { return {}; }
  // Writes a file of what this holds; it appears whole or not at all. Throws UsageError for a place inside
  // what is read, or for what is no ordinary file.
  virtual void write(const std::string& output, const Metadata& metadata,
                     std::span<const SafetensorsSource> sources) const = 0;
};

}  // namespace lpmm
