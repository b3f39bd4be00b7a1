#include "lpmm/program/ops/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "kernels/compute.h"
#include "lpmm/base/error.h"
#include "lpmm/program/panelled_weight.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {

namespace {

// Weights are decoded, and their gradient folded, by panels of output channels: neither is ever whole, where
// it is large. Panels of bf16 add to a gradient of the input that was rounded after the panel before.
class ConvolutionOp : public Op {
 public:
  // The shape is that of one group, but for `out`.
  ConvolutionOp(const kernels::ConvShape& shape, int groups, int tensor, std::int64_t panel)
      : shape_(shape),
        groups_(groups),
        weight_(tensor, ValueType::kFp32, shape.out, shape.weights() / shape.out,
                groups == 1 ? panel : std::max(panel, shape.weights() / groups), outputs()) {
    if (groups > 1 && outputs() % weight_.panel_rows() != 0) {
      throw UsageError(fmt::format(
          "a convolution of {} channels in {} groups: above 64, a group has a multiple of 64 of them",
          shape.out, groups));
    }
  }
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
      panel_at(channel).forward(input(run, channel, room), decoded(run, channel, channels, room),
                                data(run, output) + offset(channel), room.library);
    });
  }
  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Room room(*this, pieces);
    PanelledWeight::Folder folder(weight_, run, room.gradient);
    std::byte* const dx = gradient(run, inputs[0]);
    weight_.for_each_panel([&](std::int64_t channel, std::int64_t channels) {
      const bool adds = channel % outputs() > 0 || (groups_ == 1 && accumulate[0]);
      panel_at(channel).backward(
          {input(run, channel, room), decoded(run, channel, channels, room),
           gradient(run, output) + offset(channel), groups_ == 1 || dx == nullptr ? dx : room.dx, adds,
           folder.rows_at(channel)},
          room.library);
      folder.fold(channel, channels);
      if (groups_ > 1 && dx != nullptr && (channel + channels) % outputs() == 0) {
        run.device.copy_or_add_rows(plan->compute,
                                    {pixels(), shape_.in, shape_.in, groups_ * shape_.in, accumulate[0]},
                                    room.dx, dx + input_offset(channel));
      }
    });
  }

 private:
  struct Room {
    Room(const ConvolutionOp& op, Pieces& p)
        : panel(p.take(op.weight_.panel_bytes())),
          gradient(p.floats(op.weight_.gradient_floats())),
          library(p.take(op.scratch_bytes())),
          x(p.take(op.group_bytes())),
          dx(p.take(op.group_bytes())) {}
    std::byte* panel;
    float* gradient;
    std::byte *library, *x, *dx;
  };
  std::int64_t outputs() const { return shape_.out / groups_; }  // of a group
  std::int64_t pixels() const { return std::int64_t{1} * shape_.batch * shape_.height * shape_.width; }
  std::int64_t group_bytes() const {
    return groups_ == 1 ? 0 : pixels() * shape_.in * kernels::value_bytes(plan->compute);
  }
  std::int64_t input_offset(std::int64_t channel) const {
    return channel / outputs() * shape_.in * kernels::value_bytes(plan->compute);
  }
  // Returns the input of the panel that begins there. A group's inputs are gathered for its first panel.
  const std::byte* input(const RunState& run, std::int64_t channel, const Room& room) const {
    const std::byte* const x = data(run, inputs[0]);
    if (groups_ == 1) return x;
    if (channel % outputs() == 0) {
      run.device.copy_or_add_rows(plan->compute, {pixels(), shape_.in, groups_ * shape_.in, shape_.in},
                                  x + input_offset(channel), room.x);
    }
    return room.x;
  }
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
  std::int64_t groups_;
  PanelledWeight weight_;
  std::vector<std::shared_ptr<const kernels::Convolution>> panels_;
};

}  // namespace

Value convolution(ProgramBuilder& b, const std::string& name, Value x, int channels, int kernel, int stride,
                  int groups) {
  if (x.channels % groups != 0 || channels % groups != 0)
    throw std::logic_error("groups divide the channels of both sides");
  const kernels::ConvShape shape{b.batch(), x.height, x.width, x.channels / groups,
                                 channels,  kernel,   stride,  kernel / 2};
  const int weight =
      b.add_tensor(name + ".weight", {channels, shape.in, kernel, kernel},
                   {InitialKind::kNormal, std::sqrt(2.0 / (1.0 * channels * kernel * kernel))});
  return b.add_op(std::make_unique<ConvolutionOp>(shape, groups, weight, b.panel_sizes().weights), {x},
                  b.add_value(shape.out_height(), shape.out_width(), channels), {x.id});
}

}  // namespace lpmm
