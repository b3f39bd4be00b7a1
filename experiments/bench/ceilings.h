// The speed limits of a device, measured in the run that they judge, by a plain copy and a plain product.
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace lpmm {

// Throws RunError where so many bytes do not fit into what the device, or the host, has left: it is not to be
// found out by touching them.
void check_available(Device& device, std::int64_t bytes);
// Zeroed memory of a benchmark, that fits.
DeviceMemory benchmark_memory(Device& device, std::int64_t bytes);

// Bytes per second, read plus written, of a plain copy that moves about as many as what is judged by it, the
// best of five. On the host it is made in a process of its own, `lpmm bench copy`; throws RunError where
// that cannot be started or prints none.
inline constexpr std::int64_t kLeastCopied = std::int64_t{1} << 28, kMostCopied = std::int64_t{1} << 31;
double copy_bandwidth(Device& device, std::int64_t bytes);
// The bandwidth that `lpmm bench copy` measures with so many threads.
double host_copy_bandwidth(int threads, std::int64_t bytes);

// Operations per second, a product and a sum being two, of a product of square matrices of bf16; the best of
// five.
double product_speed(Device& device);

}  // namespace lpmm
