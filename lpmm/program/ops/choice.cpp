// The choice of experts, and the loss that balances them.
#include <fmt/format.h>

#include <limits>

#include "lpmm/base/error.h"
#include "lpmm/program/ops/experts.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {
namespace {

std::int64_t probabilities_of(const kernels::ChoiceShape& s) {
  return s.rows * s.experts;
}

class ChooseOp : public Op {
 public:
  explicit ChooseOp(const kernels::ChoiceShape& shape) : shape_(shape) {}
  bool skips_gradient() const override { return true; }
  void forward(RunState& run) const override {
    kernels::ChoiceArgs args = args_of(run);
    args.logits = data(run, inputs[0]);
    run.device.choose(args);
  }
  void backward(RunState& run) const override {
    kernels::ChoiceArgs args = args_of(run);
    args.logit_gradient = gradient(run, inputs[0]);
    if (args.logit_gradient == nullptr) return;
    args.probability_gradient = reinterpret_cast<float*>(gradient(run, output));
    args.accumulate = accumulate[0];
    run.device.choose_backward(args);
  }

 private:
  kernels::ChoiceArgs args_of(const RunState& run) const {
    kernels::ChoiceArgs args;
    args.shape = shape_;
    args.type = plan->compute;
    args.choices = choices_in(data(run, output), shape_);
    return args;
  }
  kernels::ChoiceShape shape_;
};

class BalanceOp : public Op {
 public:
  BalanceOp(const kernels::ChoiceShape& shape, std::int64_t rows, double factor)
      : shape_(shape), rows_(rows), factor_(factor) {}
  bool is_pure() const override { return false; }
  void forward(RunState& run) const override {
    if (run.step == nullptr) return;
    // The mean over labels is what counts, and the loss is their sum.
    kernels::BalanceArgs args = args_of(run, factor_ * static_cast<double>(run.labels));
    run.device.fill_with_zeros(args.sums, sums_bytes(shape_));
    for (const int choice : inputs) {
      args.choices = choices_in(data(run, choice), shape_);
      run.device.balance_sums(args);
    }
    args.result = run.loss;
    run.device.balance_loss(args);
  }
  void backward(RunState& run) const override {
    kernels::BalanceArgs args = args_of(run, factor_);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      args.probability_gradient = reinterpret_cast<float*>(gradient(run, inputs[i]));
      args.accumulate = accumulate[i];
      run.device.balance_backward(args);
    }
  }
  static std::int64_t sums_bytes(const kernels::ChoiceShape& s) { return 16 * s.experts; }

 private:
  kernels::BalanceArgs args_of(const RunState& run, double factor) const {
    kernels::BalanceArgs args;
    args.shape = shape_;
    args.rows = rows_;
    args.factor = factor;
    args.sums = reinterpret_cast<double*>(saved_data(run));
    return args;
  }
  kernels::ChoiceShape shape_;
  std::int64_t rows_;
  double factor_;
};

}  // namespace

kernels::Choices choices_in(std::byte* table, const kernels::ChoiceShape& shape) {
  auto* const probabilities = reinterpret_cast<float*>(table);
  return {probabilities, reinterpret_cast<std::int32_t*>(probabilities + probabilities_of(shape))};
}

Choice choose_experts(ProgramBuilder& b, Value logits, int chosen, bool is_normed) {
  const kernels::ChoiceShape shape{b.rows(logits), logits.channels, chosen, is_normed};
  if (shape.choices() > std::numeric_limits<std::int32_t>::max()) {
    throw UsageError(
        fmt::format("{} positions that choose {} experts each: take a smaller batch", shape.rows, chosen));
  }
  const Value table = b.add_table(probabilities_of(shape) + shape.choices(), true);
  return {b.add_op(std::make_unique<ChooseOp>(shape), {logits}, table, {table.id}), shape};
}

void balance_loss(ProgramBuilder& b, const std::vector<Choice>& layers, double factor) {
  if (factor == 0 || layers.empty() || b.inference() > 0) return;
  const kernels::ChoiceShape& shape = layers.front().shape;
  std::vector<Value> tables;
  for (const Choice& layer : layers) tables.push_back(layer.table);
  b.add_op(std::make_unique<BalanceOp>(shape, std::ssize(layers) * shape.rows, factor), tables, {}, {},
           BalanceOp::sums_bytes(shape));
}

}  // namespace lpmm
