// Memory of a device, or an error that says what to do.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/device.h"

namespace lpmm {

// Throws RunError where there is no memory: `what` names it, `advice` says what to use instead. No bytes are
// no memory: null.
DeviceMemory allocate(Device& device, std::int64_t bytes, const std::string& what, const char* advice);

}  // namespace lpmm
