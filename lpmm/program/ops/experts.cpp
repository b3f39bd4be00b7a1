#include "lpmm/program/ops/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "lpmm/program/panelled_weight.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {

using kernels::value_bytes;

namespace {

// Rows of a product of `rows`, of at most `all`: whole units, which are an eighth of them, or the rows that
// processors multiply at once. So there are few shapes; libraries keep a kernel for each.
std::int64_t padded(std::int64_t rows, std::int64_t all) {
  constexpr std::int64_t kAtOnce = 16;
  const auto eighth = [](std::int64_t n) {
    return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n))) / 8;
  };
  const std::int64_t unit = std::max({std::int64_t{1}, eighth(rows), std::min(kAtOnce, eighth(all))});
  return (rows + unit - 1) / unit * unit;
}

struct Expert {
  PanelledWeight gate, up, down;
};

// Expert after expert: its positions are copied together, go through its products, and are added to the
// result in fp32. Forward leaves what gate and up made; rows of zeros that fill a product up lie where the
// rows of the next expert come, or behind the last.
class ExpertsOp : public Op {
 public:
  ExpertsOp(ValueType compute, std::int64_t width, const kernels::ChoiceShape& shape,
            const ExpertsConfig& config, std::vector<Expert> experts)
      : type_(compute),
        width_(width),
        hidden_(config.hidden),
        function_(config.function),
        shape_(shape),
        experts_(std::move(experts)) {}

  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { lay_out_forward(p); }, [&](Pieces& p) { lay_out_backward(p); });
  }
  std::int64_t transient_bytes() const override {
    return std::max(experts_.front().gate.transient_bytes(), experts_.front().down.transient_bytes());
  }
  std::int64_t saved_bytes() const {
    return largest_layout([&](Pieces& p) { lay_out_saved(p); });
  }

  void forward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Forward f = lay_out_forward(pieces);
    const Saved saved = saved_of(run);
    Device& device = run.device;
    device.order_choices(choice_of(run, saved));
    device.fill_with_zeros(f.sums, 4 * shape_.rows * width_);
    for_each_expert(run, saved, [&](const Expert& expert, const Part& part) {
      if (part.count == 0) return;
      device.take_rows(take(part, data(run, inputs[0]), f.x));
      WeightProduct product{.rows = part.padded,
                            .x = f.x,
                            .y = part.inner,
                            .y_stride = 2 * hidden_,
                            .y_type = type_,
                            .panel = f.panel,
                            .matmul = f.matmul};
      expert.gate.multiply(run, product);
      product.y += hidden_ * value_bytes(type_);
      expert.up.multiply(run, product);
      device.activate(activation_of(part, f.hidden));
      device.weigh_rows({type_, hidden_, part.count, part.weights, f.hidden});
      expert.down.multiply(run, {.rows = part.padded,
                                 .x = f.hidden,
                                 .y = reinterpret_cast<std::byte*>(f.added),
                                 .y_stride = width_,
                                 .panel = f.panel,
                                 .matmul = f.matmul});
      device.add_rows({width_, part.count, part.rows, f.added, f.sums});
    });
    device.from_float(type_, shape_.rows * width_, f.sums, data(run, output));
  }

  void backward(RunState& run) const override {
    Pieces pieces(run.workspace);
    const Backward b = lay_out_backward(pieces);
    const Saved saved = saved_of(run);
    Device& device = run.device;
    device.fill_with_zeros(b.sums, 4 * shape_.rows * width_);
    for_each_expert(run, saved, [&](const Expert& expert, const Part& part) {
      if (part.count > 0) return backward(run, expert, part, b);
      for (const PanelledWeight* weight : {&expert.gate, &expert.up, &expert.down})
        weight->fold_zeros(run, b.gradient);
    });
    kernels::ChoiceArgs args = choice_of(run, saved);
    args.weight_gradient = b.weights;
    args.probability_gradient = reinterpret_cast<float*>(gradient(run, inputs[1]));
    args.accumulate = accumulate[1];
    device.order_choices_backward(args);
    std::byte* const dx = gradient(run, inputs[0]);
    std::byte* const to = accumulate[0] ? b.narrow : dx;
    device.from_float(type_, shape_.rows * width_, b.sums, to);
    if (accumulate[0]) device.copy_or_add({type_, shape_.rows * width_}, to, dx, true);
  }

 private:
  struct Saved {
    kernels::ChoiceOrder order;
    std::byte* inner;  // of the choices in order what gate and up make, side by side
  };
  // The choices of one expert.
  struct Part {
    std::int64_t first, count, padded;
    const float* weights;
    const std::int32_t* rows;
    std::byte* inner;
  };
  struct Forward {
    std::byte *x, *hidden, *panel, *matmul;
    float *added, *sums;
  };
  struct Backward {
    std::byte *x, *dy, *hidden, *hidden_gradient, *inner_gradient, *narrow, *panel, *matmul;
    float *added, *sums, *weights, *gradient;
  };

  // A choice's weight is on what goes into down's product: its gradient is a sum over the values without it,
  // which are made again.
  void backward(RunState& run, const Expert& expert, const Part& part, const Backward& b) const {
    Device& device = run.device;
    device.take_rows(take(part, data(run, inputs[0]), b.x));
    device.take_rows(take(part, gradient(run, output), b.dy));
    device.activate(activation_of(part, b.hidden));
    device.weigh_rows({type_, hidden_, part.count, part.weights, b.hidden});
    auto* const added = reinterpret_cast<std::byte*>(b.added);
    WeightGradient product{.rows = part.padded,
                           .g = b.dy,
                           .g_stride = width_,
                           .x = b.hidden,
                           .dx = added,
                           .panel = b.panel,
                           .matmul = b.matmul,
                           .gradient = b.gradient};
    expert.down.backward(run, product);
    device.from_float(type_, part.padded * hidden_, b.added, b.hidden_gradient);
    kernels::ActivationArgs inner = activation_of(part, b.hidden);
    device.activate(inner);
    device.weigh_rows(
        {type_, hidden_, part.count, part.weights, b.hidden_gradient, b.hidden, b.weights + part.first});
    inner.dy = b.hidden_gradient;
    inner.dx = b.inner_gradient;
    device.activate_backward(inner);
    product.g = b.inner_gradient;
    product.g_stride = 2 * hidden_;
    product.x = b.x;
    expert.gate.backward(run, product);
    product.g += hidden_ * value_bytes(type_);
    product.accumulate = true;
    expert.up.backward(run, product);
    device.add_rows({width_, part.count, part.rows, b.added, b.sums});
  }

  // Calls body(expert, part) for every expert in turn, once the device has said how many rows it has.
  template <class Body>
  void for_each_expert(RunState& run, const Saved& saved, const Body& body) const {
    std::vector<std::int64_t> first(experts_.size() + 1);
    run.device.download(first.data(), saved.order.first, 8 * std::ssize(first));
    for (std::size_t e = 0; e < experts_.size(); ++e) {
      const std::int64_t count = first[e + 1] - first[e];
      body(experts_[e], Part{.first = first[e],
                             .count = count,
                             .padded = padded(count, shape_.rows),
                             .weights = saved.order.weights + first[e],
                             .rows = saved.order.rows + first[e],
                             .inner = saved.inner + first[e] * 2 * hidden_ * value_bytes(type_)});
    }
  }
  kernels::ChoiceArgs choice_of(const RunState& run, const Saved& saved) const {
    return {.shape = shape_, .choices = choices_in(data(run, inputs[1]), shape_), .order = saved.order};
  }
  kernels::TakeRowsArgs take(const Part& part, const std::byte* from, std::byte* to) const {
    return {type_, width_, part.count, part.padded, part.rows, from, to};
  }
  kernels::ActivationArgs activation_of(const Part& part, std::byte* y) const {
    return {.function = function_,
            .is_gated = true,
            .type = type_,
            .rows = part.padded,
            .width = hidden_,
            .x = part.inner,
            .y = y};
  }

  Saved lay_out_saved(Pieces& p) const {
    const std::int64_t choices = shape_.choices(), more = shape_.rows / 8;
    const auto integers = [&](std::int64_t count) {
      return reinterpret_cast<std::int32_t*>(p.take(4 * count));
    };
    return {{.weights = p.floats(choices),
             .rows = integers(choices),
             .places = integers(choices),
             .first = reinterpret_cast<std::int64_t*>(p.take(8 * (shape_.experts + 1)))},
            p.take((choices + more) * 2 * hidden_ * value_bytes(type_))};
  }
  Saved saved_of(const RunState& run) const {
    Pieces pieces(saved_data(run));
    return lay_out_saved(pieces);
  }
  // No expert has more rows than there are.
  std::int64_t most_rows() const { return padded(shape_.rows, shape_.rows); }
  std::int64_t values(std::int64_t channels) const { return most_rows() * channels * value_bytes(type_); }
  std::byte* panel_room(Pieces& p) const {
    return p.take(std::max(experts_.front().gate.panel_bytes(), experts_.front().down.panel_bytes()));
  }
  std::int64_t matmul_bytes() const {
    const Expert& e = experts_.front();
    const std::int64_t rows = most_rows();
    return std::max({e.gate.matmul_bytes(rows, *plan->device), e.down.matmul_bytes(rows, *plan->device),
                     plan->device->matmul_scratch_bytes(
                         {.m = rows, .n = e.gate.panel_rows(), .type = type_, .c_type = type_})});
  }
  Forward lay_out_forward(Pieces& p) const {
    return {p.take(values(width_)), p.take(values(hidden_)),        panel_room(p),
            p.take(matmul_bytes()), p.floats(most_rows() * width_), p.floats(shape_.rows * width_)};
  }
  Backward lay_out_backward(Pieces& p) const {
    const Expert& e = experts_.front();
    return {p.take(values(width_)),
            p.take(values(width_)),
            p.take(values(hidden_)),
            p.take(values(hidden_)),
            p.take(values(2 * hidden_)),
            p.take(!accumulate.empty() && accumulate[0] ? values(width_) : 0),
            panel_room(p),
            p.take(matmul_bytes()),
            p.floats(most_rows() * std::max(width_, hidden_)),
            p.floats(shape_.rows * width_),
            p.floats(shape_.choices()),
            p.floats(std::max(e.gate.gradient_floats(), e.down.gradient_floats()))};
  }

  ValueType type_;
  std::int64_t width_, hidden_;
  Activation function_;
  kernels::ChoiceShape shape_;
  std::vector<Expert> experts_;
};

}  // namespace

Value experts(ProgramBuilder& b, const std::string& name, Value x, const Choice& choice,
              const ExpertsConfig& config) {
  const auto weight = [&](int expert, std::string_view part, int outputs, int inputs, double deviation) {
    const int tensor = b.add_tensor(fmt::format("{}.{}.{}.weight", name, expert, part), {outputs, inputs},
                                    {InitialKind::kNormal, deviation});
    return PanelledWeight(tensor, b.compute(), outputs, inputs, b.panel_sizes().weights, outputs);
  };
  std::vector<Expert> all;
  for (int e = 0; e < choice.shape.experts; ++e) {
    const PanelledWeight gate = weight(e, config.gate, config.hidden, x.channels, config.deviation),
                         up = weight(e, config.up, config.hidden, x.channels, config.deviation),
                         down = weight(e, config.down, x.channels, config.hidden, config.last_deviation);
    all.push_back({gate, up, down});
  }
  auto op = std::make_unique<ExpertsOp>(b.compute(), x.channels, choice.shape, config, std::move(all));
  const std::int64_t saved = op->saved_bytes();
  return b.add_op(std::move(op), {x, choice.table}, b.add_value(x.height, x.width, x.channels),
                  {x.id, choice.table.id}, saved);
}

}  // namespace lpmm
