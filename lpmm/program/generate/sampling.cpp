#include "lpmm/program/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/noise.h"
#include "lpmm/base/error.h"

namespace lpmm {

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::int64_t position) {
  if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); })) {
    throw RunError("the model's logits are NaN: its parameters are broken");
  }
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  };
  if (options.temperature == 0) return *std::min_element(ids.begin(), ids.end(), likelier);
  std::sort(ids.begin(), ids.end(), likelier);
  if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < ids.size()) {
    ids.resize(static_cast<std::size_t>(options.top_k));
  }
  std::vector<double> sums;  // running, of unnormalised probabilities
  double sum = 0;
  for (const std::int32_t id : ids) {
    sum += std::exp((static_cast<double>(logit(id)) - logit(ids[0])) / options.temperature);
    sums.push_back(sum);
  }
  const auto reaches = [&](double share) {
    const auto at = std::lower_bound(sums.begin(), sums.end(), share * sums.back());
    return std::min(static_cast<std::size_t>(at - sums.begin()), sums.size() - 1);
  };
  sums.resize(reaches(options.top_p) + 1);
  const Noise noise{options.seed, 0, static_cast<std::uint32_t>(position),
                    static_cast<std::uint32_t>(Stream::kSample)};
  const PhiloxWords words = noise_words(noise, static_cast<std::uint32_t>(position >> 32));
  return ids[reaches((words.x[0] + 0.5) * 0x1p-32)];
}

}  // namespace lpmm
