// Links between GPUs by NCCL, a library that is loaded when one is opened. It carries bytes alone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/packed_device.h"

struct CUstream_st;

namespace lpmm::kernels {

// A queue of a GPU beside the one that its kernels are in.
class SideQueue {
 public:
  virtual ~SideQueue() = default;
  virtual CUstream_st* stream() = 0;
  virtual DeviceLink::Mark mark() = 0;  // of the kernels' queue
  virtual void wait_for(const DeviceLink::Mark& mark) = 0;
  virtual bool is_done() = 0;  // all that is in it
  // Makes a call of the library, which may touch the GPU's memory.
  virtual void run(const std::function<void()>& call) = 0;
};

// As PackedDevice::link_name() and open_link().
std::string nccl_name();
std::unique_ptr<DeviceLink> open_nccl(std::string_view name, int rank, int ranks,
                                      std::unique_ptr<SideQueue> queue);
std::string nccl_version();  // "NCCL 2.28.9"; empty where it is not found

}  // namespace lpmm::kernels
