#include "lpmm/program/ops/activations.h"

#include "kernels/compute.h"
#include "kernels/sequence.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

class ReluOp : public Op {
 public:
  explicit ReluOp(std::int64_t count) : count_(count) {}
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    run.device.relu_forward(plan->compute, count_, data(run, inputs[0]), data(run, output));
  }
  void backward(RunState& run) const override {
    if (gradient(run, inputs[0]) == nullptr) return;
    run.device.relu_backward(plan->compute, count_, data(run, output), gradient(run, output),
                             gradient(run, inputs[0]), accumulate[0]);
  }

 private:
  std::int64_t count_;
};

class GeluOp : public Op {
 public:
  GeluOp(kernels::GeluForm form, std::int64_t count) : form_(form), count_(count) {}
  void forward(RunState& run) const override {
    run.device.gelu_forward(plan->compute, form_, count_, data(run, inputs[0]), data(run, output));
  }
  void backward(RunState& run) const override {
    run.device.gelu_backward(plan->compute, form_, count_, data(run, inputs[0]), gradient(run, output),
                             gradient(run, inputs[0]), accumulate[0]);
  }

 private:
  kernels::GeluForm form_;
  std::int64_t count_;
};

class TanhOp : public Op {
 public:
  explicit TanhOp(std::int64_t count) : count_(count) {}
  void forward(RunState& run) const override {
    run.device.tanh_forward(plan->compute, count_, data(run, inputs[0]), data(run, output));
  }
  void backward(RunState& run) const override {
    run.device.tanh_backward(plan->compute, count_, data(run, output), gradient(run, output),
                             gradient(run, inputs[0]), accumulate[0]);
  }

 private:
  std::int64_t count_;
};

class SwigluOp : public Op {
 public:
  SwigluOp(std::int64_t rows, std::int64_t width) : rows_(rows), width_(width) {}
  void forward(RunState& run) const override {
    run.device.swiglu_forward(plan->compute, rows_, width_, data(run, inputs[0]), data(run, output));
  }
  void backward(RunState& run) const override {
    run.device.swiglu_backward(plan->compute, rows_, width_, data(run, inputs[0]), gradient(run, output),
                               gradient(run, inputs[0]), accumulate[0]);
  }

 private:
  std::int64_t rows_, width_;
};

}  // namespace

Value relu(ProgramBuilder& b, Value x) {
  const Value y = b.add_value(x.height, x.width, x.channels);
  return b.add_op(std::make_unique<ReluOp>(b.batch() * x.values()), {x}, y, {y.id});
}

Value gelu(ProgramBuilder& b, Value x, kernels::GeluForm form) {
  return b.add_op(std::make_unique<GeluOp>(form, b.batch() * x.values()), {x},
                  b.add_value(x.height, x.width, x.channels), {x.id});
}

Value tanh(ProgramBuilder& b, Value x) {
  const Value y = b.add_value(x.height, x.width, x.channels);
  return b.add_op(std::make_unique<TanhOp>(b.batch() * x.values()), {x}, y, {y.id});
}

Value swiglu(ProgramBuilder& b, Value x) {
  const int width = x.channels / 2;
  return b.add_op(std::make_unique<SwigluOp>(b.rows(x), width), {x}, b.add_value(x.height, x.width, width),
                  {x.id});
}

}  // namespace lpmm
