#include "lpmm/program/ops/sequence/sinusoids.h"

#include <algorithm>
#include <cmath>

#include "kernels/compute.h"
#include "kernels/sequence.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {
namespace {

using kernels::value_bytes;

class AddSinusoidsOp : public Op {
 public:
  AddSinusoidsOp(std::int64_t rows, std::int64_t length, std::int64_t width, std::int64_t panel, float factor,
                 bool is_whole)
      : rows_(rows),
        length_(length),
        width_(width),
        panel_(std::clamp<std::int64_t>(panel / width, 1, rows)),
        factor_(factor),
        is_whole_(is_whole) {}

  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { Forward(*this, p); });
  }
  std::int64_t host_workspace_bytes() const override { return kernels::aligned(4 * length_ * width_); }

  void forward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Forward f(*this, pieces);
    Device& device = run.device;
    make_table(run, reinterpret_cast<float*>(run.host_workspace));
    device.upload(f.table, run.host_workspace, 4 * length_ * width_);
    for (std::int64_t first = 0; first < rows_; first += panel_) {
      const std::int64_t n = std::min(panel_, rows_ - first);
      const std::int64_t at = first * width_ * value_bytes(plan->compute);
      device.to_float(plan->compute, n * width_, data(run, inputs[0]) + at, f.rows);
      device.scale({{ValueType::kFp32, n * width_}, factor_, f.rows, f.rows});
      device.embedding_forward(
          {plan->compute, width_, length_, first, n, f.rows, f.table, data(run, output) + at});
    }
  }
  void backward(RunState& run) const override {
    run.device.scale({{plan->compute, rows_ * width_},
                      factor_,
                      gradient(run, output),
                      gradient(run, inputs[0]),
                      accumulate[0]});
  }

 private:
  struct Forward {
    Forward(const AddSinusoidsOp& op, Pieces& p)
        : rows(p.floats(op.panel_ * op.width_)), table(p.floats(op.length_ * op.width_)) {}
    float *rows, *table;
  };
  // Computes in double precision and rounds once.
  void make_table(const RunState& run, float* table) const {
    const std::int64_t past = run.inference == nullptr || is_whole_ ? 0 : run.inference->position;
    const std::int64_t half = (width_ + 1) / 2;
    run.device.host_pool().for_each(length_, [&](std::int64_t t, int) {
      for (std::int64_t c = 0; c < width_; ++c) {
        const auto i = static_cast<double>(c < half ? c : c - half);
        const double angle =
            static_cast<double>(past + t) * std::pow(10000.0, -2 * i / static_cast<double>(width_));
        table[t * width_ + c] = static_cast<float>(c < half ? std::sin(angle) : std::cos(angle));
      }
    });
  }
  std::int64_t rows_, length_, width_, panel_;
  float factor_;
  bool is_whole_;
};

}  // namespace

Value add_sinusoids(ProgramBuilder& b, Value x, double factor, bool is_whole) {
  return b.add_op(std::make_unique<AddSinusoidsOp>(b.rows(x), x.width, x.channels, b.panel_sizes().weights,
                                                   static_cast<float>(factor), is_whole),
                  {x}, b.add_value(x.height, x.width, x.channels), {});
}

}  // namespace lpmm
