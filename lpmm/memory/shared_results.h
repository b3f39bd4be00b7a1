// Room for the results of the kernels of one step.
#pragma once

#include <cstdint>
#include <iterator>
#include <new>
#include <vector>

#include "kernels/packed_device.h"
#include "lpmm/base/error.h"

namespace lpmm {

// Results that a device writes and the host reads, once it has synchronized.
template <class Result>
class SharedResults {
 public:
  explicit SharedResults(PackedDevice& device) : device_(device) {}
  // Forgets all of them; the device must have done its work.
  void clear() { used_ = 0; }
  // A fresh one. It stays where it is until clear().
  Result* next() {
    if (used_ == std::ssize(blocks_) * kBlock) {
      blocks_.push_back(device_.allocate_shared(kBlock * static_cast<std::int64_t>(sizeof(Result))));
      if (blocks_.back() == nullptr) throw RunError("no memory for the results of a step");
    }
    auto* block = reinterpret_cast<Result*>(blocks_[static_cast<std::size_t>(used_ / kBlock)].get());
    return new (block + used_++ % kBlock) Result;
  }

 private:
  static constexpr std::int64_t kBlock = 256;
  PackedDevice& device_;
  std::vector<DeviceMemory> blocks_;
  std::int64_t used_ = 0;
};

}  // namespace lpmm
