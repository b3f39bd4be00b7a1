#include "tests/lpmm/memory/oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/cpu.h"
#include "kernels/formats/compensation.h"
#include "kernels/formats/element.h"
#include "kernels/formats/maps.h"
#include "kernels/formats/scales.h"
#include "kernels/orthogonal.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/roles.h"

namespace lpmm {
namespace {

using Stored = Oracle::Stored;
using Values = std::vector<float>;

// The step of an element of a tensor whose steps are of rows, of rows and columns, or fp32.
float step_of(const Stored& s, std::int64_t e) {
  const std::int64_t row = e / s.codec.block, column = e % s.codec.block;
  if (s.codec.scaling != Scaling::kRank1) return load_step(s.codec, s.steps.data(), row);
  return std::min(load_step(s.codec, s.steps.data(), column),
                  load_step(s.codec, s.steps.data(), s.codec.block + row));
}

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
    } else if (divides_first(s.codec)) {
      x = decode_code(f, map_table(f), load_code(s.codes.data(), f, e), step_of(s, e));
    } else if (f.map == Map::kUlp) {
      x = ulp8_to_float(s.codes[static_cast<std::size_t>(e)]);
    } else {
      const Scale scale = scale_of(f, map_table(f), s.steps[static_cast<std::size_t>(e / s.codec.block)]);
      x = decode_code(f, scale.table, load_code(s.codes.data(), f, e), scale.step);
    }
  }
  return values;
}

void encode_element(Stored& s, std::int64_t e, float x, const Noise& noise) {
  const Format f = s.codec.format;
  const bool stochastic = takes_draws(s.codec.rounding);
  const std::uint32_t draw = stochastic ? rounding_draw(rounding_noise(s.codec.rounding, noise), e) : 0;
  if (f.map == Map::kFp32) {
    std::memcpy(s.codes.data() + 4 * e, &x, 4);
  } else if (f.map == Map::kBf16) {
    const std::uint16_t b = stochastic ? float_to_bf16_stochastic(x, draw) : float_to_bf16(x);
    std::memcpy(s.codes.data() + 2 * e, &b, 2);
  } else if (divides_first(s.codec)) {
    const float step = step_of(s, e);
    const float quotient = step > 0 ? x / step : 0.0F;
    store_code(s.codes.data(), f, e, encode_value(f, map_table(f), s.codec.rounding, quotient, 1.0F, draw));
  } else if (f.map == Map::kUlp) {
    s.codes[static_cast<std::size_t>(e)] = stochastic ? float_to_ulp8_stochastic(x, draw) : float_to_ulp8(x);
  } else {
    const Scale scale = scale_of(f, map_table(f), s.steps[static_cast<std::size_t>(e / s.codec.block)]);
    store_code(s.codes.data(), f, e,
               scale.step == 0.0F ? static_cast<std::uint32_t>(map_table(f).zero)
                                  : encode_value(f, scale.table, s.codec.rounding, x, scale.step, draw));
  }
}

void choose_apart(Stored& s, const Values& values) {
  const auto steps = static_cast<std::size_t>(steps_of(s.codec, s.elements));
  Values largest(steps, 0.0F);
  for (std::size_t e = 0; e < values.size(); ++e) {
    const auto block = static_cast<std::size_t>(s.codec.block);
    const bool by_column = s.codec.scaling == Scaling::kRank1;
    float& of_row = largest[e / block + (by_column ? block : 0)];
    of_row = std::max(of_row, std::fabs(values[e]));
    if (by_column) largest[e % block] = std::max(largest[e % block], std::fabs(values[e]));
  }
  for (std::size_t i = 0; i < steps; ++i) {
    store_step(s.codec, s.steps.data(), static_cast<std::int64_t>(i), covering_step(s.codec, largest[i]));
  }
}

// Steps by choose(largest magnitude of the block, old step), then codes. False where a value is not storable.
template <class Choose>
bool encode_all(Stored& s, const Values& values, const Noise& noise, const Choose& choose) {
  std::uint32_t largest_of_all = 0;
  for (const float x : values) largest_of_all = std::max(largest_of_all, abs_bits(x));
  if (!is_storable(largest_of_all)) return false;
  if (divides_first(s.codec)) choose_apart(s, values);
  for (std::size_t b = 0; b < s.steps.size() && !divides_first(s.codec); ++b) {
    const std::size_t block = static_cast<std::size_t>(s.codec.block);
    float largest = 0, smallest = 0;
    for (std::size_t e = b * block; e < std::min(values.size(), (b + 1) * block); ++e) {
      const float magnitude = std::fabs(values[e]);
      largest = std::max(largest, magnitude);
      if (magnitude > 0 && (smallest == 0 || magnitude < smallest)) smallest = magnitude;
    }
    s.steps[b] = has_range(s.codec.format.map)
                     ? next_range(s.codec, map_table(s.codec.format), largest, smallest, s.steps[b])
                     : choose(largest, s.steps[b]);
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

// fp64: of a group, 16 lanes that are added as a tree; then halves of the groups, the left one the larger
// power of two below their number.
double sum_of_squares(const Values& values, std::size_t first_group, std::size_t groups) {
  if (groups == 0) return 0;
  if (groups > 1) {
    const std::size_t left = std::bit_floor(groups - 1);
    return sum_of_squares(values, first_group, left) +
           sum_of_squares(values, first_group + left, groups - left);
  }
  std::array<double, 16> lanes = {};
  const std::size_t first = first_group * kGroup;
  for (std::size_t i = first; i < std::min<std::size_t>(values.size(), first + kGroup); ++i) {
    lanes[i % 16] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  for (std::size_t width = 8; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}
double sum_of_squares(const Values& values) {
  return sum_of_squares(values, 0, (values.size() + kGroup - 1) / kGroup);
}

// If gradients are accumulated in the momentum, the rule's own gradient is 0: there is no accumulator.
Elements<float> element(const RoleArray<Values>& v, std::size_t e) {
  Elements<float> x{};
  for (const Role role : kEveryRole) x[role] = v[role][e];
  return x;
}
void set_element(RoleArray<Values>& v, std::size_t e, const Elements<float>& x) {
  for (const Role role : kEveryRole) v[role][e] = x[role];
}

void apply_rule(const Rule& rule, RoleArray<Values>& v) {
  for (std::size_t e = 0; e < v[Role::kParameter].size(); ++e) {
    Elements<float> x = element(v, e);
    std::visit([&](const auto& r) { r(x); }, rule);
    set_element(v, e, x);
  }
}

// Products of matrices have bits of their own: those of the CPU, which tests/kernels/orthogonal_test.cpp
// holds against fp64.
void apply_orthogonal(Muon muon, RoleArray<Values>& v) {
  CpuDevice device(1);
  const Values parameter = v[Role::kParameter];
  muon.pass = Muon::Pass::kDirection;
  apply_rule(muon, v);
  const DeviceMemory workspace =
      device.allocate(kernels::orthogonal_workspace_bytes(device, muon.rows, muon.columns));
  Values& direction = v[Role::kAccumulator];
  direction = v[Role::kParameter];
  for (std::int64_t i = 0; i < muon.parts; ++i) {
    kernels::make_orthogonal(device, muon.rows, muon.columns, muon.iterations,
                             direction.data() + i * muon.rows * muon.columns, workspace.get(),
                             [&](const kernels::TensorUpdate& pass) {
                               device.update({&pass, 1});
                             });
  }
  v[Role::kParameter] = parameter;
  muon.pass = Muon::Pass::kCombine;
  apply_rule(muon, v);
}

float unit_of(const RoleArray<Stored>& roles, float stored) {
  return compensation_unit(roles[Role::kCompensation].codec, roles[Role::kParameter].codec, stored);
}
// Returns what the stored parameter lacks, in the compensation's units.
Values rest_of(const RoleArray<Stored>& roles, const Values& wanted) {
  Values rest = decode_all(roles[Role::kParameter]);
  for (std::size_t e = 0; e < rest.size(); ++e) {
    rest[e] = compensation_of(wanted[e], rest[e], unit_of(roles, rest[e]));
  }
  return rest;
}

void empty(Stored& s) {
  if (s.steps.empty()) std::fill(s.codes.begin(), s.codes.end(), std::uint8_t{0});
  std::fill(s.steps.begin(), s.steps.end(), std::uint16_t{0});
}

}  // namespace

Oracle::Oracle(std::span<const TensorInfo> tensors, const Policy& policy, const OptimizerConfig& optimizer,
               std::uint64_t seed, int microbatches, int slots)
    : optimizer_(optimizer), policy_(policy), seed_(seed), microbatches_(microbatches), slots_(slots) {
  for (const TensorInfo& info : tensors) {
    Tensor& t = tensors_.emplace_back();
    t.info = info;
    const RoleSpecs specs = specs_for(policy, info);
    for (const Role role : kEveryRole) {
      if (!has_role(policy, optimizer, info, role)) continue;
      const std::int64_t n = values_of(optimizer, info, role);
      t.roles[role] = {specs[role], n,
                       std::vector<std::uint8_t>(static_cast<std::size_t>(code_bytes(specs[role].format, n))),
                       std::vector<std::uint16_t>(static_cast<std::size_t>(step_bytes(specs[role], n) / 2))};
    }
    if (slots > 1) t.slots.assign(static_cast<std::size_t>(slots), t.roles[Role::kAccumulator]);
  }
}

Role Oracle::place_of(const Tensor& t, Role role) const {
  return role == Role::kAccumulator && folds_into_momentum(policy_, optimizer_, t.info) ? Role::kMomentum
                                                                                        : role;
}

const Stored& Oracle::stored(int tensor, Role role) const {
  const Tensor& t = tensors_.at(static_cast<std::size_t>(tensor));
  return t.roles[place_of(t, role)];
}

Values Oracle::decode(int tensor, Role role) const {
  return decode_all(stored(tensor, role));
}

void Oracle::initialize(int tensor, std::span<const float> values) {
  const auto ordinal = static_cast<std::uint32_t>(tensor);
  const Noise noise{seed_, ordinal, 0, noise_stream(Role::kParameter)};
  RoleArray<Stored>& roles = tensors_.at(ordinal).roles;
  const Values wanted(values.begin(), values.end());
  encode_state(roles[Role::kParameter], wanted, noise);
  if (roles[Role::kCompensation].codes.empty()) return;
  encode_state(roles[Role::kCompensation], rest_of(roles, wanted),
               {seed_, ordinal, 0, noise_stream(Role::kCompensation)});
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
  const bool into_momentum = folds_into_momentum(policy_, optimizer_, t.info);
  Stored& accumulator = slots_ > 1 ? t.slots[static_cast<std::size_t>(microbatch / (microbatches_ / slots_))]
                                   : t.roles[place_of(t, Role::kAccumulator)];
  if (accumulator.codes.empty()) return;  // frozen
  Values sum = decode_all(accumulator);
  const auto scale = static_cast<float>(fold_weight(optimizer_, into_momentum, updates_ + 1, microbatches_));
  for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += scale * gradient[e];
  if (is_last && microbatch == microbatches_ - 1 && slots_ == 1) t.square_sum = sum_of_squares(sum);
  const Noise noise{seed_, static_cast<std::uint32_t>(tensor), step_,
                    fold_stream(into_momentum, microbatch, contribution)};
  const bool storable = encode_all(accumulator, sum, noise, [&](float largest, std::uint16_t old) {
    return into_momentum ? next_step(accumulator.codec, largest, old)
                         : next_accumulator_step(accumulator.codec, largest, old);
  });
  if (!storable) failed_tensor_ = t.info.name;
}

// fp64: lane i of 128 adds values i, i + 128, ...; then the lanes as a tree.
double sum_of_row(const std::vector<double>& values) {
  std::array<double, 128> lanes = {};
  for (std::size_t i = 0; i < values.size(); ++i) lanes[i % 128] += values[i];
  for (std::size_t width = 64; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}
// fp64: at most 16 chunks of equally many values, but for the last, 64 or more; each in order, then the
// chunks in order.
double sum_of_column(const std::vector<double>& values) {
  const std::size_t chunk = std::max<std::size_t>(64, (values.size() + 15) / 16);
  double sum = 0;
  for (std::size_t first = 0; first < values.size(); first += chunk) {
    double of_chunk = 0;
    for (std::size_t i = first; i < std::min(values.size(), first + chunk); ++i) of_chunk += values[i];
    sum += of_chunk;
  }
  return sum;
}

// The first rows share a variance, `run` of them each.
std::size_t place_of_row(const RowShares& shares, std::size_t row) {
  const auto shared = static_cast<std::size_t>(shares.shared), run = static_cast<std::size_t>(shares.run);
  return row < shared ? row / run : shared / run + (row - shared);
}

// Moves the variances of the rows and columns on, and tells the rule.
template <class R>
void update_rows(R& rule, const TensorInfo& info, const RowShares& shares, RoleArray<Stored>& roles,
                 const Values& gradient) {
  const auto rows = static_cast<std::size_t>(info.values(Role::kRowVariance));
  const auto columns = static_cast<std::size_t>(info.values(Role::kColumnVariance));
  if (rows * columns == 0) return;
  std::vector<double> squares;
  for (const float g : gradient) {
    const float clipped = rule.gradient_scale * g;
    squares.push_back(double{clipped} * double{clipped});
  }
  const auto put = [&](Role role, const auto& mean_of) {
    Values variances = decode_all(roles[role]);
    for (std::size_t i = 0; i < variances.size(); ++i) variances[i] = rule.next(variances[i], mean_of(i));
    if (!encode_state(roles[role], variances, {})) throw RunError("a variance that is not finite");
    return variances;
  };
  const Values of_rows = put(Role::kRowVariance, [&](std::size_t place) {
    double sum = 0, count = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      if (place_of_row(shares, r) != place) continue;
      const auto first = squares.begin() + static_cast<std::ptrdiff_t>(r * columns);
      sum += sum_of_row({first, first + static_cast<std::ptrdiff_t>(columns)});
      count += static_cast<double>(columns);
    }
    return sum / count;
  });
  put(Role::kColumnVariance, [&](std::size_t c) {
    std::vector<double> column;
    for (std::size_t r = 0; r < rows; ++r) column.push_back(squares[r * columns + c]);
    return sum_of_column(column) / static_cast<double>(rows);
  });
  if constexpr (NeedsRowMean<R>) {
    rule.take_row_mean(sum_of_row({of_rows.begin(), of_rows.end()}) / static_cast<double>(rows));
  }
}

// For each element, the value that its row or column shares.
Values spread(const Values& values, Role role, const TensorInfo& info, const RowShares& shares) {
  Values all;
  const auto columns = static_cast<std::size_t>(info.values(Role::kColumnVariance));
  for (std::size_t e = 0; e < static_cast<std::size_t>(info.elements()); ++e) {
    all.push_back(values[role == Role::kRowVariance ? place_of_row(shares, e / columns) : e % columns]);
  }
  return all;
}

// The rule with its norms.
Rule Oracle::complete(const Rule& rule, const RoleArray<Values>& v) {
  return std::visit(
      [&]<class R>(R r) -> Rule {
        if constexpr (HasNorms<R>) {
          if (!r.needs_norms()) return r;
          std::array<Values, R::kNorms> terms;
          for (std::size_t e = 0; e < v[Role::kParameter].size(); ++e) {
            Elements<float> x = element(v, e);
            float of[R::kNorms];
            r.terms(x, of);
            for (std::size_t k = 0; k < terms.size(); ++k) terms[k].push_back(of[k]);
          }
          double sums[R::kNorms];
          for (std::size_t k = 0; k < terms.size(); ++k) sums[k] = sum_of_squares(terms[k]);
          r.take_norms(sums);
        }
        return r;
      },
      rule);
}

void Oracle::update(std::uint32_t ordinal, double learning_rate, double clip) {
  Tensor& t = tensors_[ordinal];
  if (t.roles[place_of(t, Role::kAccumulator)].codes.empty()) return;  // frozen
  Rule rule = make_rule(optimizer_, t.info, learning_rate, updates_, clip, policy_.error_feedback,
                        last_learning_rate_);
  std::visit(
      [&]<class R>(R& r) {
        if constexpr (HasRows<R>) {
          if (!t.roles[Role::kRowVariance].codes.empty())
            update_rows(r, t.info, shares_of(optimizer_, t.info), t.roles, gradient(t));
        }
      },
      rule);
  RoleArray<Values> v;
  for (const Role role : kEveryRole) {
    v[role] = role == Role::kAccumulator ? gradient(t) : decode_all(t.roles[role]);
    if (!is_per_element(role) && !v[role].empty())
      v[role] = spread(v[role], role, t.info, shares_of(optimizer_, t.info));
    v[role].resize(v[Role::kParameter].size());
  }
  for (std::size_t e = 0; e < v[Role::kParameter].size() && !t.roles[Role::kCompensation].codes.empty();
       ++e) {
    float& p = v[Role::kParameter][e];
    p = whole_parameter(p, v[Role::kCompensation][e], unit_of(t.roles, p));
  }
  if (const auto* muon = std::get_if<Muon>(&rule)) {
    apply_orthogonal(*muon, v);
  } else {
    rule = complete(rule, v);
    apply_rule(rule, v);
  }
  for (const Role role : kEveryRole) {
    if (role == Role::kAccumulator || !is_per_element(role) || t.roles[role].codes.empty()) continue;
    const Noise noise{seed_, ordinal, step_, noise_stream(role)};
    if (!encode_state(t.roles[role], v[role], noise))
      throw RunError("tensor " + t.info.name + ": not finite");
    if (role != Role::kParameter) continue;
    if (!t.roles[Role::kCompensation].codes.empty()) {
      v[Role::kCompensation] = rest_of(t.roles, v[Role::kParameter]);
    }
    const Values stored = decode_all(t.roles[role]);
    std::visit(
        [&]<class R>(const R& r) {
          if constexpr (FeedsBack<R>) {
            for (std::size_t e = 0; r.feedback != 0 && e < stored.size(); ++e) {
              Elements<float> x = element(v, e);
              r.feed_back(x[Role::kParameter] - stored[e], x);
              set_element(v, e, x);
            }
          }
        },
        rule);
  }
}

// Neighbours, then neighbours of those.
Values sum_of_slots(const Stored* slots, std::size_t count) {
  if (count == 1) return decode_all(*slots);
  const std::size_t left = std::bit_floor(count - 1);
  Values sum = sum_of_slots(slots, left);
  const Values other = sum_of_slots(slots + left, count - left);
  for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += other[e];
  return sum;
}

Values Oracle::gradient(const Tensor& t) const {
  return slots_ > 1 ? t.sum : decode_all(t.roles[Role::kAccumulator]);
}

double Oracle::clip_by_history(Tensor& t, double square_sum) const {
  const auto square = static_cast<float>(square_sum);
  if (updates_ == 1) t.history.assign(100, square);
  t.history[static_cast<std::size_t>(updates_ % 100)] = square;
  std::vector<float> sorted = t.history;
  std::sort(sorted.begin(), sorted.end());
  const float clip = sorted[static_cast<std::size_t>(optimizer_.percentile_clip)];
  if (clip == 0 || square <= clip) return 1;
  return std::sqrt(double{clip} / double{square});
}

StepReport Oracle::commit(double learning_rate) {
  StepReport report;
  report.failed_tensor = failed_tensor_;
  report.applied = failed_tensor_.empty();
  if (report.applied) {
    ++updates_;
    std::vector<double> factors(tensors_.size(), 1);
    for (Tensor& t : tensors_) {
      if (!t.slots.empty()) t.sum = sum_of_slots(t.slots.data(), t.slots.size());
    }
    if (optimizer_.clip_norm > 0 || optimizer_.percentile_clip > 0) {
      double total = 0, left = 0;
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        double square = tensors_[i].square_sum;
        if (slots_ > 1) {
          square = 0;  // by quanta
          const Values& sum = tensors_[i].sum;
          for (std::size_t at = 0; at < sum.size(); at += 65536) {
            const auto first = sum.begin() + static_cast<std::ptrdiff_t>(at);
            const std::size_t count = std::min<std::size_t>(65536, sum.size() - at);
            const double of_quantum =
                sum_of_squares(Values(first, first + static_cast<std::ptrdiff_t>(count)));
            square += of_quantum;
            total += of_quantum;
          }
        } else if (square < 0) {
          square = sum_of_squares(gradient(tensors_[i]));
        }
        if (optimizer_.percentile_clip > 0) factors[i] = clip_by_history(tensors_[i], square);
        if (factors[i] < 1) ++report.clipped_tensors;
        if (slots_ == 1) total += square;
        left += factors[i] * factors[i] * square;
      }
      report.gradient_norm = std::sqrt(total);
      if (report.clipped_tensors == 0) left = total;
      if (optimizer_.clip_norm > 0) {
        report.clip_factor = std::min(1.0, optimizer_.clip_norm / (std::sqrt(left) + 1e-6));
      }
    }
    for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
      update(i, learning_rate, factors[i] * report.clip_factor);
    }
    last_learning_rate_ = learning_rate;
  }
  for (Tensor& t : tensors_) {
    if (report.applied && folds_into_momentum(policy_, optimizer_, t.info)) continue;
    empty(t.roles[place_of(t, Role::kAccumulator)]);
    for (Stored& slot : t.slots) empty(slot);
  }
  return report;
}

}  // namespace lpmm
