// The exact byte account of a run, by class.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/formats/format.h"

namespace lpmm {

struct Ledger {
  std::int64_t parameters = 0;              // count of parameters, exempt ones included
  RoleArray<std::int64_t> role_codes = {};  // bytes, packed tensors only
  RoleArray<std::int64_t> role_steps = {};  // bytes
  std::int64_t exempt = 0;                  // bytes of exempt tensors, all their roles
  std::int64_t averages = 0;                // bytes of averages of weights, packed tensors only
  std::int64_t peaks = 0;                   // bytes of what the watch keeps of each element
  std::int64_t buffers = 0;      // bytes of batch-norm statistics and of percentile clipping's histories
  std::int64_t activations = 0;  // bytes of the arena; not model memory
  std::int64_t workspace = 0;    // bytes; not model memory

  std::int64_t role_bytes(Role role) const { return role_codes[role] + role_steps[role]; }
  std::int64_t model_memory() const;  // roles + exempt + averages + peaks + buffers
  double bits_per_parameter() const;  // 8 * model_memory / parameters
};

}  // namespace lpmm
