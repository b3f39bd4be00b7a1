#include "lpmm/program/ops/dropout.h"

#include <cmath>

#include "kernels/compute.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

class DropoutOp : public Op {
 public:
  DropoutOp(std::int64_t count, OpDropout dropout) : count_(count), dropout_(dropout) {}
  void forward(RunState& run) const override { drop(run, data(run, inputs[0]), data(run, output), false); }
  void backward(RunState& run) const override {
    drop(run, gradient(run, output), gradient(run, inputs[0]), accumulate[0]);
  }

 private:
  void drop(RunState& run, const std::byte* x, std::byte* y, bool add) const {
    const kernels::Dropout dropout = dropout_.of(run);
    Device& device = run.device;
    if (dropout.threshold == 0) return device.copy_or_add({plan->compute, count_}, x, y, add);
    device.dropout({{plan->compute, count_}, dropout, x, y, add});
  }
  std::int64_t count_;
  OpDropout dropout_;
};

}  // namespace

OpDropout::OpDropout(std::uint32_t ordinal, double probability)
    : ordinal_(ordinal),
      threshold_(static_cast<std::uint32_t>(std::lround(probability * 0x1p16))),
      scale_(static_cast<float>(0x1p16 / (0x1p16 - threshold_))) {}

kernels::Dropout OpDropout::of(const RunState& run) const {
  if (run.step == nullptr) return {};
  const auto stream =
      static_cast<std::uint32_t>(Stream::kDropout) | static_cast<std::uint32_t>(run.microbatch) << 4;
  return {run.step->noise(ordinal_, stream), threshold_, scale_};
}

Value dropout(ProgramBuilder& b, Value x, double probability) {
  if (probability == 0) return x;
  auto op = std::make_unique<DropoutOp>(b.batch() * x.values(), OpDropout(b.next_draws(), probability));
  return b.add_op(std::move(op), {x}, b.add_value(x.height, x.width, x.channels), {});
}

}  // namespace lpmm
