// The next token from a model's logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lpmm {

// The order is that of transformers: the penalty, the temperature, top-k, top-p, min-p. Each looks at the
// probabilities that the ones before it left.
struct SamplingOptions {
  double temperature = 1;  // 0: always the most likely token
  std::int64_t top_k = 0;  // only among the k most likely; 0: all
  double top_p = 1;        // only among the most likely that together reach this probability
  std::uint64_t seed = 1;
  double min_p = 0;  // only those that have this share of the most likely one's probability
  // Logits of tokens that came before: positive ones are divided by it, negative ones multiplied.
  double repetition_penalty = 1;
};

// Throws UsageError that names the value that is impossible, and its range.
void check_sampling(const SamplingOptions& options);

struct Candidate {
  std::int32_t id = 0;
  double probability = 0;
};

// The tokens that may be drawn, the most likely first, among equals the smaller id; their probabilities sum
// to 1. `before`: the tokens that the penalty is for. Throws RunError where a logit is NaN or infinity.
std::vector<Candidate> candidates(std::span<const float> logits, const SamplingOptions& options,
                                  std::span<const std::int32_t> before = {});

// Draws one of them: a pure function of logits, options, `before` and `position`, which keys the draw.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::int64_t position, std::span<const std::int32_t> before = {});

}  // namespace lpmm
