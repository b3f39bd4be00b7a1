// Where work runs and the memory it works on lives. Every kernel is a member of a device: declared in the
// three headers below, implemented in the device's folder.
//
// The host is the only device today: a call has done its work when it returns.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/compute.h"
#include "kernels/packed.h"
#include "kernels/pool.h"
#include "kernels/sequence.h"

namespace lpmm {

class Device : public kernels::PackedKernels,
               public kernels::ComputeKernels,
               public kernels::SequenceKernels {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual std::string_view name() const = 0;
  // The library that multiplies matrices: "oneDNN 2.6.3, avx2", "Eigen 3.4.0".
  virtual const char* compute_library() const = 0;
  // Threads of the host, for what is done there: reading, drawing, encoding of initial values. Sizes of
  // scratch memory hold for at most that many.
  virtual Pool& host_pool() = 0;
  virtual int host_threads() const = 0;

 protected:
  Device() = default;
};

}  // namespace lpmm
