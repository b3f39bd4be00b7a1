// A device that trains networks: what works on packed memory (kernels/packed_device.h), and the kernels of
// networks, declared in the headers below and implemented in the device's folder. Threads of the host may
// share it; a convolution() is one thread's at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/compute.h"
#include "kernels/formats/quantiles.h"
#include "kernels/packed_device.h"
#include "kernels/sequence.h"

namespace lpmm {

// Elements of a weight, and logits, that exist unpacked at once: enough to keep a device busy. A vocabulary's
// rest that does not fill `columns` is a panel of its own: odd widths are slow on some devices.
struct PanelSizes {
  std::int64_t weights = std::int64_t{1} << 20, logits = std::int64_t{1} << 22, columns = 1;
};

class Device : public PackedDevice,
               public kernels::ComputeKernels,
               public kernels::SequenceKernels,
               public kernels::QuantileKernels {
 public:
  virtual PanelSizes panel_sizes() const { return {}; }
  Device& host() override = 0;
};

// The devices that a run may name. "auto" is the first of the others that is there, "cuda" or "cpu".
inline constexpr std::string_view kAutoDevice = "auto";
inline constexpr std::string_view kDeviceNames[] = {kAutoDevice, "cpu", "cuda", "cuda-emulated"};
// Threads of the host as in CpuDevice. Throws std::invalid_argument where there is no such device, and
// std::runtime_error where this program has it not built in.
std::unique_ptr<Device> make_device(std::string_view name, int threads);

// A device by name, as this program and this machine have it.
struct BackendInfo {
  std::string_view name;
  bool is_built = false;
  std::string why_not = {};  // empty where it can be used
  std::string device = {}, compute_capability = {};
  std::int64_t memory_bytes = 0;  // of its own; 0: the host's
  std::vector<std::string> libraries = {};
  bool is_available() const { return why_not.empty(); }
};
std::vector<BackendInfo> backends();

}  // namespace lpmm
