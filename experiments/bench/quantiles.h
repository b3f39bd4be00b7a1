// Time and rank error of the ways to find quantiles, for `lpmm bench quantiles`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/device.h"
#include "lpmm/base/progress.h"

namespace lpmm {

struct QuantileBenchRow {
  std::string_view method;
  std::int64_t values = 0;
  double nanoseconds_per_value = 0;            // best of the repetitions
  double processor_nanoseconds_per_value = 0;  // CPU time of all threads, unaffected by other programs
  double speed_against_sort = 0;               // relative to std::sort of these values, on one host thread
  // The largest distance, as a share of all ranks, from where a quantile is wanted to the ranks of its value.
  double rank_error = 0;
};
// Measures 256 quantiles, at shares from 1/512 to 511/512, of `smallest` to `largest` normal values, by
// factors of 4. Sorts run on one thread of the host; the rest runs on the device, where the values lie.
// Throws RunError if there is not enough memory.
std::vector<QuantileBenchRow> bench_quantiles(std::int64_t smallest, std::int64_t largest, Device& device,
                                              const ProgressCall& progress = {});

}  // namespace lpmm
