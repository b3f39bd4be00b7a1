// The steps of rows and columns of a tensor that a job is about to store: a pass over its new values for the
// maxima, steps from them, and, when the job is done, steps to their place. Bodies as in update_body.h.
#pragma once

#include "kernels/cuda/packed/update_body.h"

namespace lpmm::kernels::cuda {

LPMM_HD bool has_next_steps(const Slot& slot) {
  return is_packed(slot.codec.format) && !has_blocks(slot.codec);
}

// One element tells its rows and columns. Maxima lie where the steps will, as bits.
template <class JobType>
struct RaiseSteps {
  JobType job;
  LPMM_HD void operator()(std::int64_t i) const {
    float values[kMaxStores] = {};
    job.peek(job.first + i, values);
    for (int s = 0; s < job.stores; ++s) {
      const Slot& slot = job.slots[s];
      if (!has_next_steps(slot)) continue;
      auto* const largest = reinterpret_cast<std::uint32_t*>(slot.next_steps);
      raise_steps(
          slot.codec,
          [&](std::int64_t at, std::uint32_t bits) {
            // Most find theirs reached already; one that is read too late is only raised once more.
            if (bits > *static_cast<const volatile std::uint32_t*>(largest + at))
              raise_to(largest + at, bits);
          },
          job.first + i, abs_bits(values[s]));
    }
  }
};
struct ChooseStep {
  Codec codec;
  float* steps;
  LPMM_HD void operator()(std::int64_t i) const { steps[i] = covering_step(codec, steps[i]); }
};
struct StoreStep {
  Slot slot;
  LPMM_HD void operator()(std::int64_t i) const { store_step(slot.codec, slot.steps, i, slot.next_steps[i]); }
};

}  // namespace lpmm::kernels::cuda
