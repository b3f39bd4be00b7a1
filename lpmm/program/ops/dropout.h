// Dropout: Srivastava et al. 2014.
#pragma once

#include "kernels/sequence.h"
#include "lpmm/program/builder.h"

namespace lpmm {

// x with each value 0 with that probability, the others scaled to keep the mean; in training only.
Value dropout(ProgramBuilder& b, Value x, double probability);

// Dropout of one op: the same elements forward and backward, for the noise is that of op, step and
// microbatch.
class OpDropout {
 public:
  // `ordinal`: the builder's next_draws().
  OpDropout(std::uint32_t ordinal, double probability);
  // None outside of training.
  kernels::Dropout of(const RunState& run) const;

 private:
  std::uint32_t ordinal_, threshold_;
  float scale_;
};

}  // namespace lpmm
