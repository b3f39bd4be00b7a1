#include "lpmm/program/ops/patches.h"

#include <stdexcept>

#include "kernels/compute.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {
namespace {

using kernels::value_bytes;

class PatchesOp : public Op {
 public:
  explicit PatchesOp(const kernels::PatchShape& shape) : shape_(shape) {}
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    run.device.patches(shape_, plan->compute, data(run, inputs[0]), data(run, output));
  }
  void backward(RunState& /*run*/) const override {}  // the input has no gradient

 private:
  kernels::PatchShape shape_;
};

class PrependOp : public Op {
 public:
  PrependOp(int batch, Value x, int token, int count)
      : batch_(batch), before_(x.values()), width_(std::int64_t{1} * count * x.channels), token_(token) {}
  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { Room(*this, p); });
  }
  std::int64_t transient_bytes() const override { return 4 * width_; }
  void forward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Room room(*this, pieces);
    Device& device = run.device;
    run.memory.decode(token_, 0, span_of(room.token, width_));
    device.from_float(plan->compute, width_, room.token, room.first);
    device.copy_or_add_rows(plan->compute, {batch_, width_, 0, after()}, room.first, data(run, output));
    device.copy_or_add_rows(plan->compute, {batch_, before(), before(), after()}, data(run, inputs[0]),
                            data(run, output) + row_bytes());
  }
  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Room room(*this, pieces);
    Device& device = run.device;
    const std::byte* dy = gradient(run, output);
    device.copy_or_add_rows(plan->compute, {batch_, before(), after(), before(), accumulate[0]},
                            dy + row_bytes(), gradient(run, inputs[0]));
    device.copy_or_add_rows(plan->compute, {batch_, width_, after(), width_}, dy, room.first);
    // The sum over the batch, as that of a bias.
    device.bias_backward({.of = {plan->compute, batch_ * width_},
                          .columns = width_,
                          .dy = room.first,
                          .bias_gradient = room.token});
    run.step->fold(token_, 0, span_of(room.token, width_), run.microbatch);
  }

 private:
  struct Room {
    Room(const PrependOp& op, Pieces& p)
        : token(p.floats(op.width_)), first(p.take(op.batch_ * op.row_bytes())) {}
    float* token;
    std::byte* first;  // positions of the sequences
  };
  std::int64_t row_bytes() const { return width_ * value_bytes(plan->compute); }
  std::int64_t before() const { return before_; }  // values of a sequence
  std::int64_t after() const { return before_ + width_; }

  std::int64_t batch_, before_, width_;  // values of a sequence as it comes, and of the tokens
  int token_;
};

class SelectOp : public Op {
 public:
  SelectOp(int batch, Value x, int first, int count)
      : batch_(batch),
        values_(x.values()),
        width_(std::int64_t{1} * count * x.channels),
        before_(std::int64_t{1} * first * x.channels) {}
  void forward(RunState& run) const override {
    run.device.copy_or_add_rows(plan->compute, {batch_, width_, values_, width_},
                                data(run, inputs[0]) + offset(), data(run, output));
  }
  void backward(RunState& run) const override {
    Device& device = run.device;
    std::byte* dx = gradient(run, inputs[0]);
    if (!accumulate[0]) device.fill_with_zeros(dx, batch_ * values_ * value_bytes(plan->compute));
    device.copy_or_add_rows(plan->compute, {batch_, width_, width_, values_, true}, gradient(run, output),
                            dx + offset());
  }

 private:
  std::int64_t offset() const { return before_ * value_bytes(plan->compute); }
  std::int64_t batch_, values_, width_,
      before_;  // values of a sequence, of what is selected, of what is before
};

}  // namespace

Value patches(ProgramBuilder& b, Value x, int side) {
  if (b.has_gradient(x) || x.height % side != 0 || x.width % side != 0) {
    throw std::logic_error("patches are of the program's input, whose sides they divide");
  }
  const kernels::PatchShape s{b.batch(), x.height, x.width, x.channels, side};
  return b.add_op(std::make_unique<PatchesOp>(s), {x},
                  b.add_value(1, x.height / side * (x.width / side), static_cast<int>(s.values()), false),
                  {});
}

Value prepend(ProgramBuilder& b, const std::string& name, Value x, int count) {
  const int token =
      b.add_tensor(name, {1, count, x.channels}, {InitialKind::kNormal, 0.02}, TensorKind::kEmbedding);
  return b.add_op(std::make_unique<PrependOp>(b.batch(), x, token, count), {x},
                  b.add_value(1, x.width + count, x.channels), {});
}

Value select(ProgramBuilder& b, Value x, int first, int count) {
  return b.add_op(std::make_unique<SelectOp>(b.batch(), x, first, count), {x},
                  b.add_value(1, count, x.channels), {});
}

}  // namespace lpmm
