#include "lpmm/program/ops/add.h"

#include "kernels/compute.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

class AddOp : public Op {
 public:
  explicit AddOp(std::int64_t count) : count_(count) {}
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    run.device.add({plan->compute, count_}, data(run, inputs[0]), data(run, inputs[1]), data(run, output));
  }
  void backward(RunState& run) const override {
    for (std::size_t i = 0; i < 2; ++i) {
      if (gradient(run, inputs[i]) == nullptr) continue;
      run.device.copy_or_add({plan->compute, count_}, gradient(run, output), gradient(run, inputs[i]),
                             accumulate[i]);
    }
  }

 private:
  std::int64_t count_;
};

class ScaleOp : public Op {
 public:
  ScaleOp(std::int64_t count, float factor) : count_(count), factor_(factor) {}
  void forward(RunState& run) const override {
    run.device.scale({{plan->compute, count_}, factor_, data(run, inputs[0]), data(run, output)});
  }
  void backward(RunState& run) const override {
    run.device.scale(
        {{plan->compute, count_}, factor_, gradient(run, output), gradient(run, inputs[0]), accumulate[0]});
  }

 private:
  std::int64_t count_;
  float factor_;
};

}  // namespace

Value scale(ProgramBuilder& b, Value x, double factor) {
  if (factor == 1) return x;
  return b.add_op(std::make_unique<ScaleOp>(b.batch() * x.values(), static_cast<float>(factor)), {x},
                  b.add_value(x.height, x.width, x.channels), {});
}

Value add(ProgramBuilder& b, Value x, Value y) {
  return b.add_op(std::make_unique<AddOp>(b.batch() * x.values()), {x, y},
                  b.add_value(x.height, x.width, x.channels), {});
}

}  // namespace lpmm
