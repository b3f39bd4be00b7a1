// The facts that the CUDA runtime reports of a machine, and what they mean for training on it.
#pragma once

#include <string>

namespace lpmm::kernels {

struct GpuFacts {
  enum class Asked { kFound, kNone, kOldDriver, kFailed };
  Asked asked = Asked::kFound;  // kNone: no device; kFailed: `error` says why
  std::string error = {};
  bool has_driver = true;
  std::string name = {};     // of the device
  int major = 0, minor = 0;  // its compute capability
  bool has_code = true;      // this program has kernels for it
};

// One line on why it cannot be used; empty where it can.
std::string why_no_gpu(const GpuFacts& facts);

}  // namespace lpmm::kernels
