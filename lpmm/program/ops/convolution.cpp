#include "lpmm/program/ops/convolution.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/compute.h"
#include "lpmm/program/panelled_weight.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {

namespace {

// Weights are decoded, and their gradient folded, by panels of output channels: neither is ever whole, where
// it is large. Panels of bf16 add to a gradient of the input that was rounded after the panel before.
class ConvolutionOp : public Op {
 public:
  ConvolutionOp(const kernels::ConvShape& shape, int tensor, std::int64_t panel)
      : shape_(shape),
        weight_(tensor, ValueType::kFp32, shape.out, shape.weights() / shape.out, panel, shape.out) {}
  void prepare(Libraries& libraries) override {
    weight_.for_each_panel([&](std::int64_t, std::int64_t channels) {
      kernels::ConvShape panel = shape_;
      panel.out = static_cast<int>(channels);
      panel.channels = shape_.out;
      const auto key = std::make_tuple(panel.height, panel.width, panel.in, panel.out, panel.kernel,
                                       panel.stride, panel.channels);
      std::shared_ptr<const kernels::Convolution>& shared = libraries[key];
      if (shared == nullptr) shared = plan->device->convolution(panel, plan->compute);
      panels_.push_back(shared);
    });
  }
  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { Room(*this, p); });
  }
  std::int64_t transient_bytes() const override { return weight_.transient_bytes(); }
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Room room(*this, pieces);
    weight_.for_each_panel([&](std::int64_t channel, std::int64_t channels) {
      panel_at(channel).forward(data(run, inputs[0]), decoded(run, channel, channels, room),
                                data(run, output) + offset(channel), room.library);
    });
  }
  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Room room(*this, pieces);
    PanelledWeight::Folder folder(weight_, run, room.gradient);
    weight_.for_each_panel([&](std::int64_t channel, std::int64_t channels) {
      panel_at(channel).backward(data(run, inputs[0]), decoded(run, channel, channels, room),
                                 gradient(run, output) + offset(channel), gradient(run, inputs[0]),
                                 accumulate[0] || channel > 0, folder.rows_at(channel), room.library);
      folder.fold(channel, channels);
    });
  }

 private:
  struct Room {
    Room(const ConvolutionOp& op, Pieces& p)
        : panel(p.take(op.weight_.panel_bytes())),
          gradient(p.floats(op.weight_.gradient_floats())),
          library(p.take(op.scratch_bytes())) {}
    std::byte* panel;
    float* gradient;
    std::byte* library;
  };
  std::int64_t scratch_bytes() const {
    std::int64_t most = 0;
    for (const auto& panel : panels_) most = std::max(most, panel->scratch_bytes());
    return most;
  }
  const kernels::Convolution& panel_at(std::int64_t channel) const {
    return *panels_[static_cast<std::size_t>(channel / weight_.panel_rows())];
  }
  std::int64_t offset(std::int64_t channel) const { return channel * kernels::value_bytes(plan->compute); }
  const float* decoded(const RunState& run, std::int64_t channel, std::int64_t channels,
                       const Room& room) const {
    return reinterpret_cast<const float*>(weight_.decode(run, channel, channels, room.panel));
  }

  kernels::ConvShape shape_;
  PanelledWeight weight_;
  std::vector<std::shared_ptr<const kernels::Convolution>> panels_;
};

}  // namespace

Value convolution(ProgramBuilder& b, const std::string& name, Value x, int channels, int kernel, int stride) {
  const kernels::ConvShape shape{b.batch(), x.height, x.width, x.channels,
                                 channels,  kernel,   stride,  kernel / 2};
  const int weight =
      b.add_tensor(name + ".weight", {channels, x.channels, kernel, kernel},
                   {InitialKind::kNormal, std::sqrt(2.0 / (1.0 * channels * kernel * kernel))});
  return b.add_op(std::make_unique<ConvolutionOp>(shape, weight, b.panel_sizes().weights), {x},
                  b.add_value(shape.out_height(), shape.out_width(), channels), {x.id});
}

}  // namespace lpmm
