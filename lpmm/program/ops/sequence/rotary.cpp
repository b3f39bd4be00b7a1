#include "lpmm/program/ops/sequence/rotary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "kernels/sequence.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/ops/sequence/documents.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

// Makes the table for the positions of this call, in double precision on the host, rounded once.
class RotaryAnglesOp : public Op {
 public:
  RotaryAnglesOp(const RotaryConfig& config, std::int64_t length)
      : frequencies_(rotary_frequencies(config)),
        long_frequencies_(rotary_frequencies(config, true)),
        short_length_(config.long_factors.empty() ? 0 : config.original_context),
        magnitude_(config.magnitude),
        length_(length) {}
  std::int64_t host_workspace_bytes() const override { return kernels::aligned(4 * floats()); }
  void forward(RunState& run) const override {
    const std::int64_t past = run.inference == nullptr ? 0 : run.inference->position;
    auto* const table = reinterpret_cast<float*>(run.host_workspace);
    Device& device = run.device;
    const std::vector<double>& frequencies = is_long(run.inference) ? long_frequencies_ : frequencies_;
    const auto half = std::ssize(frequencies);
    device.host_pool().for_each(length_, [&](std::int64_t t, int) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(past + t) * frequencies[static_cast<std::size_t>(i)];
        table[2 * half * t + i] = static_cast<float>(magnitude_ * std::cos(angle));
        table[2 * half * t + half + i] = static_cast<float>(magnitude_ * std::sin(angle));
      }
    });
    device.upload(data(run, output), table, 4 * floats());
  }
  void backward(RunState&) const override {}

 private:
  std::int64_t floats() const { return 2 * length_ * std::ssize(frequencies_); }
  // Keys that were kept must have been rotated as those of this call are.
  bool is_long(Inference* state) const {
    if (short_length_ == 0) return false;
    if (state == nullptr) return length_ > short_length_;
    const bool is_now = std::max(state->whole, state->position + length_) > short_length_;
    if (state->position > 0 && is_now != state->is_long) {
      throw std::logic_error(
          fmt::format("a text grows beyond {} tokens, where LongRoPE rotates all of it anew", short_length_));
    }
    state->short_length = short_length_;
    state->is_long = is_now;
    return is_now;
  }
  std::vector<double> frequencies_, long_frequencies_;
  std::int64_t short_length_;  // 0: one list is for all
  double magnitude_;
  std::int64_t length_;
};

class RotaryOp : public Op {
 public:
  explicit RotaryOp(const kernels::RotaryShape& shape) : shape_(shape) {}
  bool skips_gradient() const override { return true; }  // the table has none
  void forward(RunState& run) const override {
    run.device.rotary(
        {shape_, angles(run), false, data(run, inputs[0]), data(run, output), false, places(run)});
  }
  void backward(RunState& run) const override {
    if (gradient(run, inputs[0]) == nullptr) return;
    run.device.rotary({shape_, angles(run), true, gradient(run, output), gradient(run, inputs[0]),
                       accumulate[0], places(run)});
  }

 private:
  const float* angles(const RunState& run) const {
    return reinterpret_cast<const float*>(data(run, inputs[1]));
  }
  // Null without documents, whose table is the third input.
  const std::int32_t* places(const RunState& run) const {
    return inputs.size() < 3 ? nullptr : documents_in(data(run, inputs[2]), shape_.rows).places;
  }
  kernels::RotaryShape shape_;
};

// YaRN keeps frequencies before the first of two i, and scales those from the second on.
std::pair<double, double> yarn_range(const RotaryConfig& c) {
  constexpr double kLeast = 0.001;
  const auto i_of = [&](double turns) {
    return c.rotated_width() * std::log(c.original_context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(c.theta));
  };
  const double first = std::max(std::floor(i_of(c.high)), 0.0),
               last = std::min(std::ceil(i_of(c.low)), c.rotated_width() - 1.0);
  return {first, first == last ? last + kLeast : last};
}

}  // namespace

std::vector<double> rotary_frequencies(const RotaryConfig& c, bool is_long) {
  const std::vector<double>& factors = is_long ? c.long_factors : c.short_factors;
  std::vector<double> out;
  for (int i = 0; i < c.rotated_width() / 2; ++i) {
    const double frequency = std::pow(c.theta, -2.0 * i / c.rotated_width());
    if (!factors.empty()) {
      out.push_back(frequency / factors[static_cast<std::size_t>(i)]);
      continue;
    }
    double kept = 0;  // of the frequency as it is; the rest is of the scaled one
    if (c.is_yarn) {
      const auto [first, last] = yarn_range(c);
      kept = 1 - std::clamp((i - first) / (last - first), 0.0, 1.0);
    } else if (c.original_context > 0) {
      const double turns = c.original_context * frequency / (2 * std::numbers::pi);
      kept = std::clamp((turns - c.low) / (c.high - c.low), 0.0, 1.0);
    }
    out.push_back(kept * frequency + (1 - kept) * frequency / c.factor);
  }
  return out;
}

Value rotary_angles(ProgramBuilder& b, const RotaryConfig& config, int length) {
  const std::int64_t floats = std::int64_t{2} * (config.rotated_width() / 2) * length;
  return b.add_op(std::make_unique<RotaryAnglesOp>(config, length), {}, b.add_table(floats), {});
}

Value rotary(ProgramBuilder& b, Value x, Value angles, int heads, int rotated, int part, Value documents) {
  const kernels::RotaryShape shape{b.rows(x), x.width, heads, rotated, x.channels / heads, b.compute(), part};
  std::vector<Value> inputs{x, angles};
  std::vector<int> kept{angles.id};
  if (documents.id >= 0) {
    inputs.push_back(documents);
    kept.push_back(documents.id);
  }
  return b.add_op(std::make_unique<RotaryOp>(shape), inputs, b.add_value(x.height, x.width, x.channels),
                  std::move(kept));
}

}  // namespace lpmm
