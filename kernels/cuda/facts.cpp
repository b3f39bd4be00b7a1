#include "kernels/cuda/facts.h"

namespace lpmm::kernels {

std::string why_no_gpu(const GpuFacts& f) {
  constexpr int kOldest = 8;  // compute capability: earlier ones have no bf16
  switch (f.asked) {
    case GpuFacts::Asked::kNone:
      return "there is no NVIDIA GPU, or CUDA_VISIBLE_DEVICES hides it";
    case GpuFacts::Asked::kOldDriver:
      return f.has_driver
                 ? "the NVIDIA driver is older than the CUDA that this lpmm was built with; update it"
                 : "no NVIDIA driver is installed";
    case GpuFacts::Asked::kFailed:
      return f.error;
    case GpuFacts::Asked::kFound:
      break;
  }
  const std::string version = std::to_string(f.major) + "." + std::to_string(f.minor);
  if (f.major < kOldest) return f.name + " has compute capability " + version + ", but 8.0 is needed";
  if (!f.has_code) {
    return "this lpmm was built for other GPUs than " + f.name +
           "; build it with -DCMAKE_CUDA_ARCHITECTURES=" + std::to_string(f.major) + std::to_string(f.minor);
  }
  return "";
}

}  // namespace lpmm::kernels
