#include "lpmm/program/ops/input.h"

#include <cstring>

#include "kernels/compute.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

class InputOp : public Op {
 public:
  explicit InputOp(std::int64_t values) : values_(values) {}
  void forward(RunState& run) const override {
    const std::int64_t count = run.batch.count * values_, all = plan->batch * values_;
    std::byte* out = data(run, output);
    run.memory.device().from_float(plan->compute, count, run.batch.images.data(), out);
    const std::int64_t b = kernels::value_bytes(plan->compute);
    std::memset(out + count * b, 0, static_cast<std::size_t>((all - count) * b));
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
