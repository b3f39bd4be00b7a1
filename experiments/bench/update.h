// Benchmarks of the packed model memory, for `lpmm bench update` and `bench codec`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/formats/format.h"
#include "lpmm/base/progress.h"

namespace lpmm {

struct UpdateBenchOptions {
  std::string optimizer;  // the name of a rule; one that has a momentum to set has 0.9
  std::string preset;     // its specs and, where it has that with this optimizer, its error feedback
  std::int64_t elements = 0;
  std::vector<std::string> settings;  // "memory.momentum=SPEC": keys of [optimizer] and [memory] besides
  bool watches = false;  // times updates that the watch measures besides, without peaks and with them
  int slots = 0;         // not 0: measures updates by sums as well
};
struct UpdateBenchResult {
  double elements_per_second = 0;       // best of the repetitions
  double packed_bytes_per_element = 0;  // stored, all roles, steps included
  double copy_gb_per_second = 0;
  double fp32_roofline_ratio = 0;     // against copy bandwidth / what fp32 reads and writes
  std::int64_t peak_extra_bytes = 0;  // resident memory during the updates, above the tensors
  // Elements whose update the watch measures; 0: not timed.
  double watched_per_second = 0, watched_with_peaks_per_second = 0;
  // By a gradient of fp32, and whole steps by the sum of as many packed accumulators as there are slots.
  double by_fp32_per_second = 0, by_slots_per_second = 0;
};
// Times whole update steps over one tensor in memory filled tile by tile. Throws UsageError for an unknown
// optimizer or preset, settings that a config may not have, gradients that are applied at once, no elements,
// or an update that the watch cannot measure.
UpdateBenchResult bench_update(const UpdateBenchOptions& options, Device& device,
                               const ProgressCall& progress = {});

// One kernel over all elements, and the bytes that it reads and writes against those that a copy moves in the
// same time.
struct CodecSpeed {
  double elements_per_second = 0;
  double copy_ratio = 0;
};
// Steps of rows are those of a matrix of up to 1,024 rows.
struct CodecBenchRow {
  Codec codec;
  CodecSpeed encode, decode;  // from and to fp32
  CodecSpeed decode_bf16;     // panel after panel into the same room, as training reads a weight
  // Folding an fp32 contribution into what is stored, as the second microbatch does; 0 where no gradient is
  // stored so.
  CodecSpeed fold;
};
std::vector<CodecBenchRow> bench_codec(const std::vector<Codec>& codecs, std::int64_t elements,
                                       Device& device, const ProgressCall& progress = {});

}  // namespace lpmm
