#include "tests/lpmm/memory/oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/maps.h"
#include "lpmm/base/error.h"

namespace lpmm {
namespace {

using Stored = Oracle::Stored;
using Values = std::vector<float>;

Values decode_all(const Stored& s) {
  const Format f = s.codec.format;
  Values values(static_cast<std::size_t>(s.elements));
  for (std::int64_t e = 0; e < s.elements; ++e) {
    float& x = values[static_cast<std::size_t>(e)];
    if (f.map == Map::kFp32) {
      std::memcpy(&x, s.codes.data() + 4 * e, 4);
    } else if (f.map == Map::kBf16) {
      std::uint16_t b = 0;
      std::memcpy(&b, s.codes.data() + 2 * e, 2);
      x = bf16_to_float(b);
    } else {
      const float step = bf16_to_float(s.steps[static_cast<std::size_t>(e / s.codec.block)]);
      x = decode_code(f, map_table(f), load_code(s.codes.data(), f, e), step);
    }
  }
  return values;
}

void encode_element(Stored& s, std::int64_t e, float x, const Noise& noise) {
  const Format f = s.codec.format;
  const bool stochastic = takes_draws(s.codec.rounding);
  const std::uint32_t draw = stochastic ? noise_draw(rounding_noise(s.codec.rounding, noise), e) : 0;
  if (f.map == Map::kFp32) {
    std::memcpy(s.codes.data() + 4 * e, &x, 4);
  } else if (f.map == Map::kBf16) {
    const std::uint16_t b = stochastic ? float_to_bf16_stochastic(x, draw) : float_to_bf16(x);
    std::memcpy(s.codes.data() + 2 * e, &b, 2);
  } else {
    const float step = bf16_to_float(s.steps[static_cast<std::size_t>(e / s.codec.block)]);
    store_code(s.codes.data(), f, e,
               step == 0.0F ? static_cast<std::uint32_t>(map_table(f).zero)
                            : encode_value(f, map_table(f), s.codec.rounding, x, step, draw));
  }
}

// Steps by choose(largest magnitude of the block, old step), then codes. False where a value is not storable.
template <class Choose>
bool encode_all(Stored& s, const Values& values, const Noise& noise, const Choose& choose) {
  std::uint32_t largest_of_all = 0;
  for (const float x : values) largest_of_all = std::max(largest_of_all, abs_bits(x));
  if (!is_storable(largest_of_all)) return false;
  for (std::size_t b = 0; b < s.steps.size(); ++b) {
    const std::size_t block = static_cast<std::size_t>(s.codec.block);
    float largest = 0;
    for (std::size_t e = b * block; e < std::min(values.size(), (b + 1) * block); ++e) {
      largest = std::max(largest, std::fabs(values[e]));
    }
    s.steps[b] = choose(largest, s.steps[b]);
  }
  for (std::int64_t e = 0; e < s.elements; ++e) {
    encode_element(s, e, values[static_cast<std::size_t>(e)], noise);
  }
  // The last group is stored whole.
  if (is_packed(s.codec.format)) {
    for (std::int64_t e = s.elements; e < groups_of(s.elements) * kGroup; ++e) {
      store_code(s.codes.data(), s.codec.format, e,
                 static_cast<std::uint32_t>(map_table(s.codec.format).zero));
    }
  }
  return true;
}

bool encode_state(Stored& s, const Values& values, const Noise& noise) {
  return encode_all(s, values, noise,
                    [&](float largest, std::uint16_t old) { return next_step(s.codec, largest, old); });
}

// fp64: within a tile in 16 lanes that are added as a tree, then tile after tile.
double sum_of_squares(const Values& values, int block) {
  const auto size = static_cast<std::size_t>(kernels::sum_tile(block));
  double total = 0;
  for (std::size_t tile = 0; tile < values.size(); tile += size) {
    std::array<double, 16> lanes = {};
    for (std::size_t i = tile; i < std::min<std::size_t>(values.size(), tile + size); ++i) {
      lanes[i % 16] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    for (std::size_t width = 8; width > 0; width /= 2) {
      for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    }
    total += lanes[0];
  }
  return total;
}

void empty(Stored& s) {
  if (s.steps.empty()) std::fill(s.codes.begin(), s.codes.end(), std::uint8_t{0});
  std::fill(s.steps.begin(), s.steps.end(), std::uint16_t{0});
}

}  // namespace

Oracle::Oracle(std::span<const TensorInfo> tensors, const Policy& policy, const OptimizerConfig& optimizer,
               std::uint64_t seed, int microbatches)
    : optimizer_(optimizer), policy_(policy), seed_(seed), microbatches_(microbatches) {
  for (const TensorInfo& info : tensors) {
    Tensor& t = tensors_.emplace_back();
    t.name = info.name;
    const RoleSpecs specs = specs_for(policy, info);
    for (std::size_t r = 0; r < kRoles; ++r) {
      const Role role = static_cast<Role>(r);
      if (!has_role(policy, optimizer, info.name, role)) continue;
      const std::int64_t n = info.elements();
      t.roles[r] = {specs[r], n,
                    std::vector<std::uint8_t>(static_cast<std::size_t>(code_bytes(specs[r].format, n))),
                    std::vector<std::uint16_t>(static_cast<std::size_t>(blocks_of(n, specs[r].block)))};
    }
  }
}

std::size_t Oracle::place_of(Role role) const {
  if (role == Role::kAccumulator && policy_.accumulate_in_momentum) role = Role::kMomentum;
  return static_cast<std::size_t>(role);
}

const Stored& Oracle::stored(int tensor, Role role) const {
  return tensors_.at(static_cast<std::size_t>(tensor)).roles[place_of(role)];
}

Values Oracle::decode(int tensor, Role role) const {
  return decode_all(stored(tensor, role));
}

void Oracle::initialize(int tensor, std::span<const float> values) {
  const Noise noise{seed_, static_cast<std::uint32_t>(tensor), 0, noise_stream(Role::kParameter)};
  encode_state(tensors_.at(static_cast<std::size_t>(tensor)).roles[0], Values(values.begin(), values.end()),
               noise);
}

void Oracle::begin_step(std::uint32_t step) {
  step_ = step;
  failed_tensor_.clear();
  for (Tensor& t : tensors_) t.square_sum = -1;
}

// accumulator += contribution / K.
void Oracle::fold(int tensor, std::span<const float> gradient, int microbatch, int contribution,
                  bool is_last) {
  if (!failed_tensor_.empty()) return;
  Tensor& t = tensors_.at(static_cast<std::size_t>(tensor));
  Stored& accumulator = t.roles[place_of(Role::kAccumulator)];
  if (accumulator.codes.empty()) return;  // frozen
  Values sum = decode_all(accumulator);
  const auto scale = static_cast<float>(fold_weight(policy_, optimizer_, updates_ + 1, microbatches_));
  for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += scale * gradient[e];
  if (is_last && microbatch == microbatches_ - 1) t.square_sum = sum_of_squares(sum, accumulator.codec.block);
  const Noise noise{seed_, static_cast<std::uint32_t>(tensor), step_,
                    fold_stream(policy_, microbatch, contribution)};
  const bool storable = encode_all(accumulator, sum, noise, [&](float largest, std::uint16_t old) {
    return policy_.accumulate_in_momentum ? next_step(accumulator.codec, largest, old)
                                          : next_accumulator_step(accumulator.codec, largest, old);
  });
  if (!storable) failed_tensor_ = t.name;
}

StepReport Oracle::commit(double learning_rate) {
  StepReport report;
  report.failed_tensor = failed_tensor_;
  report.applied = failed_tensor_.empty();
  if (report.applied) {
    ++updates_;
    if (optimizer_.clip_norm > 0) {
      double total = 0;
      for (const Tensor& t : tensors_) {
        total +=
            t.square_sum >= 0 ? t.square_sum : sum_of_squares(decode_all(t.roles[1]), t.roles[1].codec.block);
      }
      report.gradient_norm = std::sqrt(total);
      report.clip_factor = std::min(1.0, optimizer_.clip_norm / (report.gradient_norm + 1e-6));
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      Tensor& t = tensors_[i];
      if (t.roles[place_of(Role::kAccumulator)].codes.empty()) continue;
      std::array<Values, kRoles> v;
      for (std::size_t r = 0; r < kRoles; ++r) {
        v[r] = decode_all(t.roles[r]);
        v[r].resize(v[0].size());
      }
      const Rule rule = make_rule(optimizer_, t.name, learning_rate, updates_, report.clip_factor,
                                  policy_.error_feedback, last_learning_rate_);
      std::visit(
          [&](const auto& r) {
            for (std::size_t e = 0; e < v[0].size(); ++e) r(v[0][e], v[1][e], v[2][e], v[3][e]);
          },
          rule);
      for (const Role role : {Role::kParameter, Role::kMomentum, Role::kVariance}) {
        const auto r = static_cast<std::size_t>(role);
        if (t.roles[r].codes.empty()) continue;
        const Noise noise{seed_, static_cast<std::uint32_t>(i), step_, noise_stream(role)};
        if (!encode_state(t.roles[r], v[r], noise)) throw RunError("tensor " + t.name + ": not finite");
        if (role != Role::kParameter) continue;
        const Values stored = decode_all(t.roles[r]);
        std::visit(
            [&](const auto& rule) {
              if (rule.feedback == 0) return;
              for (std::size_t e = 0; e < stored.size(); ++e) {
                v[2][e] = rule.feed_back(v[0][e] - stored[e], v[2][e], v[3][e]);
              }
            },
            rule);
      }
    }
    last_learning_rate_ = learning_rate;
  }
  if (policy_.accumulate_in_momentum && report.applied) return report;
  for (Tensor& t : tensors_) empty(t.roles[place_of(Role::kAccumulator)]);
  return report;
}

}  // namespace lpmm
