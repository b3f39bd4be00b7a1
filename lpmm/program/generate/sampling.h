// The next token from a model's logits.
#pragma once

#include <cstdint>
#include <span>

namespace lpmm {

struct SamplingOptions {
  double temperature = 1;  // 0: always the most likely token
  std::int64_t top_k = 0;  // only among the k most likely; 0: all
  double top_p = 1;        // only among the most likely that together reach this probability
  std::uint64_t seed = 1;
};

// A pure function of logits, options and `position`, which keys the draw. Among equals the smaller id comes
// first. Throws RunError where a logit is NaN.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::int64_t position);

}  // namespace lpmm
