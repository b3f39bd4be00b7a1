// Room for the results of the kernels of one step.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "kernels/device.h"
#include "lpmm/base/error.h"

namespace lpmm {

// Results that a device writes and the host reads.
class FoldResults {
 public:
  explicit FoldResults(Device& device) : device_(device) {}
  void clear() { used_ = 0; }
  kernels::FoldResult* next() {
    if (used_ == std::ssize(blocks_) * kBlock) {
      blocks_.push_back(
          device_.allocate_shared(kBlock * static_cast<std::int64_t>(sizeof(kernels::FoldResult))));
      if (blocks_.back() == nullptr) throw RunError("no memory for the results of folds");
    }
    auto* block =
        reinterpret_cast<kernels::FoldResult*>(blocks_[static_cast<std::size_t>(used_ / kBlock)].get());
    return block + used_++ % kBlock;
  }

 private:
  static constexpr std::int64_t kBlock = 256;
  Device& device_;
  std::vector<DeviceMemory> blocks_;
  std::int64_t used_ = 0;
};

}  // namespace lpmm
