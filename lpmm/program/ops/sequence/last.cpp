#include "lpmm/program/ops/sequence/last.h"

#include "kernels/compute.h"
#include "lpmm/base/error.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

class LastOp : public Op {
 public:
  LastOp(Value x, int pad) : length_(x.width), width_(x.channels), pad_(pad) {}
  void forward(RunState& run) const override {
    for (std::int64_t i = 0; i < run.batch.count; ++i) {
      run.device.copy_or_add_rows(plan->compute, {1, width_, width_, width_},
                                  data(run, inputs[0]) + offset_of(run.batch, i),
                                  data(run, output) + i * row_bytes());
    }
  }
  void backward(RunState& run) const override {
    Device& device = run.device;
    std::byte* dx = gradient(run, inputs[0]);
    if (!accumulate[0]) device.fill_with_zeros(dx, run.batch.count * length_ * row_bytes());
    for (std::int64_t i = 0; i < run.batch.count; ++i) {
      device.copy_or_add_rows(plan->compute, {1, width_, width_, width_, true},
                              gradient(run, output) + i * row_bytes(), dx + offset_of(run.batch, i));
    }
  }

 private:
  std::int64_t row_bytes() const { return width_ * kernels::value_bytes(plan->compute); }
  std::int64_t offset_of(const Batch& batch, std::int64_t sequence) const {
    const auto place = static_cast<std::size_t>(sequence);
    const std::int64_t there = batch.lengths.empty() ? length_ : batch.lengths.at(place);
    if (there < 1 || there > length_) throw RunError("a sequence of a batch has no position");
    std::int64_t at = there - 1;
    const auto is_pad = [&](std::int64_t t) {
      return pad_ >= 0 && batch.tokens[static_cast<std::size_t>(sequence * length_ + t)] == pad_;
    };
    while (at > 0 && is_pad(at)) --at;
    return (sequence * length_ + at) * row_bytes();
  }
  std::int64_t length_, width_;
  int pad_;
};

}  // namespace

Value last(ProgramBuilder& b, Value x, int pad) {
  return b.add_op(std::make_unique<LastOp>(x, pad), {x}, b.add_value(1, 1, x.channels), {});
}

}  // namespace lpmm
