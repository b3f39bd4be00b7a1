#include "experiments/bench/ceilings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/formats/codec.h"
#include "lpmm/base/error.h"
#include "lpmm/base/host.h"
#include "lpmm/base/process.h"
#include "lpmm/memory/device_memory.h"

namespace lpmm {
namespace {

template <class Body>
double best_seconds(Device& device, const Body& body) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    device.synchronize();
    const auto start = std::chrono::steady_clock::now();
    body();
    device.synchronize();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

void check_available(Device& device, std::int64_t bytes) {
  const std::int64_t available = device.own_bytes() ? device.available_memory().value() : available_memory();
  if (bytes > available) {
    throw RunError(fmt::format("bench: {} bytes are needed at once, {} are available; use fewer elements",
                               bytes, available));
  }
}

DeviceMemory benchmark_memory(Device& device, std::int64_t bytes) {
  check_available(device, bytes);
  DeviceMemory memory = allocate(device, bytes, "a benchmark", "fewer elements (--elements)");
  device.fill_with_zeros(memory.get(), bytes);  // touched memory counts as taken at the next call
  return memory;
}

double host_copy_bandwidth(int threads, std::int64_t bytes) {
  CpuDevice device(threads);
  const DeviceMemory from = benchmark_memory(device, bytes);
  const DeviceMemory to = benchmark_memory(device, bytes);
  const std::int64_t parts = device.host_threads(), part = bytes / parts;
  const auto each_part = [&](auto&& body) {
    device.host_pool().for_each(parts, [&](std::int64_t i, int) {
      const std::int64_t at = i * part, end = i + 1 == parts ? bytes : at + part;
      body(at, static_cast<std::size_t>(end - at));
    });
  };
  each_part([&](std::int64_t at, std::size_t count) {
    std::memset(from.get() + at, 1, count);
    std::memset(to.get() + at, 2, count);
  });
  const double seconds = best_seconds(device, [&] {
    each_part(
        [&](std::int64_t at, std::size_t count) { std::memcpy(to.get() + at, from.get() + at, count); });
  });
  return 2.0 * static_cast<double>(bytes) / seconds;
}

double copy_bandwidth(Device& device, std::int64_t bytes) {
  bytes = std::clamp(bytes / 2, kLeastCopied, kMostCopied);
  if (!device.own_bytes()) {
    const std::string text =
        output_of({own_program(), "bench", "copy", "--threads", std::to_string(device.host_threads()),
                   "--bytes", std::to_string(bytes)});
    const double bandwidth = std::strtod(text.c_str(), nullptr) * 1e9;
    if (!(bandwidth > 0)) throw RunError(fmt::format("bench: the copy benchmark printed '{}'", text));
    return bandwidth;
  }
  const DeviceMemory from = benchmark_memory(device, bytes);
  const DeviceMemory to = benchmark_memory(device, bytes);
  const double seconds = best_seconds(device, [&] { device.copy(to.get(), from.get(), bytes); });
  return 2.0 * static_cast<double>(bytes) / seconds;
}

double product_speed(Device& device) {
  const std::int64_t n = device.own_bytes() ? 8192 : 1024;
  const DeviceMemory a = benchmark_memory(device, 2 * n * n);
  const DeviceMemory b = benchmark_memory(device, 2 * n * n);
  const DeviceMemory c = benchmark_memory(device, 4 * n * n);
  // Zeros would need less power, and clocks would be higher than in training.
  std::vector<std::uint16_t> values(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    values[static_cast<std::size_t>(i)] = float_to_bf16(
        noise_uniform(noise_draw({1, 0, 0, static_cast<std::uint32_t>(Stream::kTest)}, i)) - 0.5F);
  }
  for (std::int64_t row = 0; row < n; ++row) {
    device.upload(a.get() + 2 * row * n, values.data(), 2 * n);
    std::rotate(values.begin(), values.begin() + 1, values.end());
    device.upload(b.get() + 2 * row * n, values.data(), 2 * n);
  }
  const DeviceMemory scratch =
      benchmark_memory(device, device.matmul_scratch_bytes({.m = n, .n = n, .type = ValueType::kBf16}));
  const double seconds = best_seconds(device, [&] {
    device.matmul({.m = n,
                   .n = n,
                   .k = n,
                   .type = ValueType::kBf16,
                   .a = a.get(),
                   .a_stride = n,
                   .b = b.get(),
                   .b_stride = n,
                   .c = c.get(),
                   .c_stride = n},
                  scratch.get());
  });
  const auto side = static_cast<double>(n);
  return 2 * side * side * side / seconds;
}

}  // namespace lpmm
