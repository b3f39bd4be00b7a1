#include "lpmm/program/generate/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/noise.h"
#include "lpmm/base/error.h"

namespace lpmm {
namespace {

void penalize(std::vector<float>& logits, double penalty, std::span<const std::int32_t> before) {
  std::vector<bool> seen(logits.size());
  for (const std::int32_t id : before) {
    if (id >= 0 && static_cast<std::size_t>(id) < seen.size()) seen[static_cast<std::size_t>(id)] = true;
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!seen[i]) continue;
    const double x = logits[i];
    logits[i] = static_cast<float>(x < 0 ? x * penalty : x / penalty);
  }
}

// The first of the most likely ones that together reach `share` of all.
std::size_t reaching(const std::vector<Candidate>& all, double share) {
  double whole = 0, sum = 0;
  for (const Candidate& one : all) whole += one.probability;
  for (std::size_t i = 0; i < all.size(); ++i) {
    sum += all[i].probability;
    if (sum >= share * whole) return i;
  }
  return all.size() - 1;
}

void check_between(const char* name, double value, double least, double most) {
  if (value >= least && value <= most) return;  // not where it is NaN
  throw UsageError(fmt::format("{} is {}; it is a number from {} to {}", name, value, least, most));
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  check_between("temperature", options.temperature, 0, 1e6);
  check_between("top_p", options.top_p, 0, 1);
  check_between("min_p", options.min_p, 0, 1);
  check_between("repetition_penalty", options.repetition_penalty, 1e-3, 1e3);
  if (options.top_k < 0) {
    throw UsageError(fmt::format("top_k is {}; it is a number of tokens, or 0 for all", options.top_k));
  }
}

std::vector<Candidate> candidates(std::span<const float> logits, const SamplingOptions& options,
                                  std::span<const std::int32_t> before) {
  const auto is_broken = [](float x) { return !(x < std::numeric_limits<float>::infinity()); };
  if (logits.empty() || std::any_of(logits.begin(), logits.end(), is_broken)) {
    throw RunError("the model's logits are NaN or infinite: its parameters are broken");
  }
  std::vector<float> all(logits.begin(), logits.end());
  if (options.repetition_penalty != 1) penalize(all, options.repetition_penalty, before);
  std::vector<std::int32_t> ids(all.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](std::int32_t id) { return all[static_cast<std::size_t>(id)]; };
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  };
  if (options.temperature == 0) return {{*std::min_element(ids.begin(), ids.end(), likelier), 1}};
  const std::size_t most = options.top_k > 0 ? static_cast<std::size_t>(options.top_k) : ids.size();
  const std::size_t kept = std::min(most, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kept), ids.end(), likelier);
  ids.resize(kept);
  std::vector<Candidate> drawn;
  for (const std::int32_t id : ids) {
    const double over = static_cast<double>(logit(id)) - static_cast<double>(logit(ids[0]));
    drawn.push_back({id, std::exp(over / options.temperature)});
  }
  drawn.resize(reaching(drawn, options.top_p) + 1);
  // The most likely one has 1 here.
  while (drawn.back().probability < options.min_p) drawn.pop_back();
  double sum = 0;
  for (const Candidate& one : drawn) sum += one.probability;
  for (Candidate& one : drawn) one.probability /= sum;
  return drawn;
}

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::int64_t position, std::span<const std::int32_t> before) {
  const std::vector<Candidate> drawn = candidates(logits, options, before);
  const Noise noise{options.seed, 0, static_cast<std::uint32_t>(position),
                    static_cast<std::uint32_t>(Stream::kSample)};
  const PhiloxWords words = noise_words(noise, static_cast<std::uint32_t>(position >> 32));
  return drawn[reaching(drawn, (words.x[0] + 0.5) * 0x1p-32)].id;
}

}  // namespace lpmm
