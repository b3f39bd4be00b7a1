#include "lpmm/program/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "lpmm/base/error.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {

ProgramBuilder::ProgramBuilder() : plan_(std::make_unique<ProgramPlan>()) {
  plan_->batch = 1;
}
ProgramBuilder::ProgramBuilder(int batch, ValueType compute, Device& device, int inference)
    : inference_(inference), plan_(std::make_unique<ProgramPlan>()) {
  plan_->batch = batch;
  plan_->compute = compute;
  plan_->device = &device;
}
ProgramBuilder::~ProgramBuilder() = default;

int ProgramBuilder::add_tensor(std::string name, std::vector<std::int64_t> shape, Initial initial,
                               TensorKind kind, int parts, bool fp32_states, int heads) {
  tensors_.push_back({.name = std::move(name),
                      .shape = std::move(shape),
                      .kind = kind,
                      .parts = parts,
                      .heads = heads,
                      .fp32_states = fp32_states});
  initials_.push_back(initial);
  return static_cast<int>(tensors_.size()) - 1;
}

TensorUse ProgramBuilder::use(int tensor) {
  if (plan_->is_gathered(tensor)) {
    throw std::logic_error(tensors_[static_cast<std::size_t>(tensor)].name + ": used after it is gathered");
  }
  const int place = plan_->uses[tensor]++;
  tensors_[static_cast<std::size_t>(tensor)].is_shared = place > 0;
  return {tensor, place};
}

void ProgramBuilder::note_embedding(int tensor, Value output, bool is_source) {
  plan_->embeddings[tensor].push_back({output.id, rows(output), is_source});
}

bool ProgramBuilder::gather(int tensor) {
  TensorInfo& info = tensors_[static_cast<std::size_t>(tensor)];
  if (!gathers_ || !info.is_shared) return false;
  if (std::ssize(plan_->embeddings[tensor]) != plan_->uses[tensor] - 1) {
    throw std::logic_error(info.name + ": used by others than embeddings and the op that gathers");
  }
  plan_->gathered.push_back(tensor);
  info.is_shared = false;
  return true;
}

int ProgramBuilder::find_tensor(const std::string& name) const {
  const auto at =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorInfo& t) { return t.name == name; });
  if (at == tensors_.end()) throw std::logic_error(name + ": no op before this one declares this tensor");
  return static_cast<int>(at - tensors_.begin());
}

int ProgramBuilder::add_buffer(std::string name, std::vector<std::int64_t> shape, float initial) {
  buffers_.push_back({std::move(name), std::move(shape), initial});
  return static_cast<int>(buffers_.size()) - 1;
}

int ProgramBuilder::batch() const {
  return plan_->batch;
}
ValueType ProgramBuilder::compute() const {
  return plan_->compute;
}
PanelSizes ProgramBuilder::panel_sizes() const {
  return plan_->device == nullptr ? PanelSizes{} : plan_->device->panel_sizes();
}
std::int64_t ProgramBuilder::rows(Value x) const {
  return std::int64_t{1} * plan_->batch * x.height * x.width;
}
bool ProgramBuilder::has_gradient(Value x) const {
  return plan_->value(x.id).gradient >= 0;
}

Value ProgramBuilder::add_value(int height, int width, int channels, bool has_gradient) {
  Value v{static_cast<int>(plan_->values.size()), height, width, channels};
  if (1.0 * plan_->batch * height * width * channels > 0x1p42) {
    throw UsageError(
        fmt::format("a value of {} x {} x {} x {}: the model or the batch is too large for any machine",
                    plan_->batch, height, width, channels));
  }
  const std::int64_t bytes = plan_->batch * v.values() * kernels::value_bytes(plan_->compute);
  plan_->values.push_back({plan_->add_slot(bytes), has_gradient ? plan_->add_slot(bytes) : -1});
  return v;
}

Value ProgramBuilder::add_table(std::int64_t floats, bool has_gradient) {
  const Value v{static_cast<int>(plan_->values.size()), 0, 0, 0};
  plan_->values.push_back({plan_->add_slot(4 * floats), has_gradient ? plan_->add_slot(4 * floats) : -1});
  return v;
}

Value ProgramBuilder::add_op(std::unique_ptr<Op> op, const std::vector<Value>& inputs, Value output,
                             std::vector<int> kept, std::int64_t saved_bytes) {
  for (const Value& v : inputs) {
    op->inputs.push_back(v.id);
    ProgramPlan::Slots& slots = plan_->values[static_cast<std::size_t>(v.id)];
    if (slots.gradient < 0 && !op->skips_gradient()) {
      slots.gradient = plan_->add_slot(plan_->slots[static_cast<std::size_t>(slots.data)].bytes);
    }
  }
  op->output = output.id;
  op->kept = std::move(kept);
  op->plan = plan_.get();
  if (saved_bytes > 0) op->saved = plan_->add_slot(saved_bytes);
  plan_->ops.push_back(std::move(op));
  return output;
}

Value ProgramBuilder::recompute(Value x, const std::function<Value(Value)>& block) {
  const std::size_t first = plan_->ops.size();
  const Value y = block(x);
  for (std::size_t i = first; i < plan_->ops.size(); ++i) {
    if (!plan_->ops[i]->is_pure())
      throw std::logic_error("a block that is recomputed holds an op that counts");
    plan_->ops[i]->block = blocks_;
  }
  ++blocks_;
  return y;
}

Value ProgramBuilder::once(const std::function<Value()>& block) {
  const std::size_t first = plan_->ops.size();
  const Value y = block();
  for (std::size_t i = first; i < plan_->ops.size(); ++i) plan_->ops[i]->is_once = true;
  return y;
}

}  // namespace lpmm
