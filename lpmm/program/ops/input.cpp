#include "lpmm/program/ops/input.h"

#include "kernels/compute.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

class InputOp : public Op {
 public:
  explicit InputOp(std::int64_t values) : values_(values) {}
  std::int64_t workspace_bytes() const override { return room_on(*plan->device, 4 * plan->batch * values_); }
  void forward(RunState& run) const override {
    const std::int64_t count = run.batch.count * values_, all = plan->batch * values_;
    std::byte* out = data(run, output);
    Device& device = run.device;
    device.from_float(plan->compute, count, on_device(device, run.batch.images.data(), count, run.workspace),
                      out);
    const std::int64_t b = kernels::value_bytes(plan->compute);
    device.fill_with_zeros(out + count * b, (all - count) * b);
  }
  void backward(RunState& /*run*/) const override {}

 private:
  std::int64_t values_;
};

}  // namespace

Value input(ProgramBuilder& b, int height, int width, int channels) {
  const Value v = b.add_value(height, width, channels, false);
  return b.add_op(std::make_unique<InputOp>(v.values()), {}, v, {});
}

}  // namespace lpmm
