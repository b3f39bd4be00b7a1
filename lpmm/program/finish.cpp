// Makes a program from the list of ops: what backward replays, when values live, one arena for all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/builder.h"
#include "lpmm/program/program_plan.h"

namespace lpmm {

// Arena, workspace and the loss, allocated at the first run of a program in it.
class ProgramRoom {
 public:
  void make_room_for(const ProgramPlan& plan) {
    arena_bytes_ = std::max(arena_bytes_, plan.arena_bytes);
    workspace_bytes_ = std::max(workspace_bytes_, plan.workspace_bytes);
    host_workspace_bytes_ = std::max(host_workspace_bytes_, plan.host_workspace_bytes);
  }
  std::int64_t activation_bytes() const { return arena_bytes_; }
  std::int64_t workspace_bytes() const { return workspace_bytes_ + host_workspace_bytes_; }
  void allocate_all(Device& device);

  std::byte* arena() const { return arena_.get(); }
  std::byte* workspace() const { return workspace_.get(); }
  std::byte* host_workspace() const { return host_workspace_.get(); }
  kernels::LossResult* loss() const { return reinterpret_cast<kernels::LossResult*>(loss_.get()); }

 private:
  std::int64_t arena_bytes_ = 0, workspace_bytes_ = 0, host_workspace_bytes_ = 0;
  DeviceMemory arena_, workspace_, host_workspace_, loss_;
};

std::shared_ptr<ProgramRoom> make_program_room() {
  return std::make_shared<ProgramRoom>();
}

void ProgramRoom::allocate_all(Device& device) {
  if (loss_ != nullptr) return;
  constexpr const char* kAdvice = "a smaller batch or more microbatches";
  arena_.reset();  // of a try that found no memory
  workspace_.reset();
  host_workspace_.reset();
  arena_ = allocate(device, arena_bytes_, "activations", kAdvice);
  workspace_ = allocate(device, workspace_bytes_, "the workspace", kAdvice);
  host_workspace_ = allocate(device.host(), host_workspace_bytes_, "the host's workspace", kAdvice);
  // oneDNN writes its machine code on first use and does not survive that there is no room for it. This is
  // more than any program was seen to want, and given back at once.
  constexpr std::int64_t kCode = 32 << 20;
  allocate(device.host(), kCode, "the machine code of kernels",
           "a higher limit on address space (ulimit -v)");
  loss_ = device.allocate_shared(sizeof(kernels::LossResult));
  if (loss_ == nullptr) throw RunError("no memory for the loss");
}

namespace {

// A finished list, which runs in its room.
class ListProgram : public Program {
 public:
  ListProgram(std::unique_ptr<ProgramPlan> plan, std::shared_ptr<ProgramRoom> room)
      : plan_(std::move(plan)), room_(std::move(room)) {
    room_->make_room_for(*plan_);
  }
  std::int64_t activation_bytes() const override { return room_->activation_bytes(); }
  std::int64_t workspace_bytes() const override { return room_->workspace_bytes(); }
  std::int64_t largest_transient_bytes() const override { return plan_->largest_transient_bytes; }
  int passes() const override {
    return std::any_of(plan_->ops.begin(), plan_->ops.end(), [](const auto& op) { return op->block >= 0; })
               ? 3
               : 2;
  }

  std::int64_t cache_bytes(std::int64_t positions) const override {
    std::int64_t all = 0, most = 0;
    for (const auto& op : plan_->ops) {
      const std::int64_t bytes = op->cache_bytes(positions);
      all += bytes;
      most = std::max(most, bytes);
    }
    return all + most;  // one at a time is reordered
  }

  PendingLoss train(const ModelMemory& memory, Step& step, Buffers& buffers, const Batch& batch,
                    int microbatch) override {
    RunState run = begin(memory, &step, buffers, &buffers, batch, microbatch);
    run.loss = step.next_loss();
    if (batch.count != plan_->batch) {
      throw std::logic_error(
          fmt::format("a batch of {} images for a program built for {}", batch.count, plan_->batch));
    }
    try {
      forward_and_backward(run);
      step.fold_waiting();
    } catch (...) {
      step.fail("a microbatch that was not finished");  // its gradients that wait are still there
      throw;
    }
    return {run.loss, run.labels};
  }

  void infer(const ModelMemory& memory, std::span<const std::int32_t> tokens, Inference& state) override {
    const Buffers none({}, *plan_->device);
    Batch batch;
    batch.count = plan_->batch;
    batch.tokens.assign(tokens.begin(), tokens.end());
    batch.source = state.source;
    batch.lengths = state.source_lengths;
    RunState run = begin(memory, nullptr, none, nullptr, batch, 0);
    run.inference = &state;
    for (const auto& op : plan_->ops) {
      if (!op->is_once || state.position == 0) op->forward(run);
    }
    state.position += std::ssize(tokens) / plan_->batch;
  }

  BatchResult evaluate(const ModelMemory& memory, const Buffers& buffers, const Batch& batch,
                       std::vector<float>* outputs) override {
    RunState run = begin(memory, nullptr, buffers, nullptr, batch, 0);
    run.outputs = outputs;
    for (const auto& op : plan_->ops) op->forward(run);
    plan_->device->synchronize();
    return PendingLoss{run.loss, run.labels}.read();
  }

 private:
  void forward_and_backward(RunState& run) const {
    for (const auto& op : plan_->ops) op->forward(run);
    for (const ProgramPlan::Event& event : plan_->after) {
      const Op& op = *plan_->ops[static_cast<std::size_t>(event.op)];
      run.block = op.block;
      switch (event.pass) {
        case ProgramPlan::Pass::kReplay:
          op.forward(run);
          break;
        case ProgramPlan::Pass::kBackward:
          op.backward(run);
          break;
        case ProgramPlan::Pass::kGather:
          op.gather(run);
          break;
      }
    }
  }

  RunState begin(const ModelMemory& memory, Step* step, const Buffers& buffers, Buffers* proposals,
                 const Batch& batch, int microbatch) {
    if (batch.count < 1 || batch.count > plan_->batch || &memory.device() != plan_->device) {
      throw std::logic_error(fmt::format("a program for {} examples got {}, on {} device", plan_->batch,
                                         batch.count, &memory.device() == plan_->device ? "its" : "another"));
    }
    room_->allocate_all(*plan_->device);
    return {*plan_->device,
            memory,
            step,
            buffers,
            proposals,
            batch,
            microbatch,
            room_->arena(),
            room_->workspace(),
            room_->host_workspace(),
            room_->loss()};
  }

  std::unique_ptr<ProgramPlan> plan_;
  std::shared_ptr<ProgramRoom> room_;
};

// Gives the values that only ops of their own block read a second slot, for their second life in backward.
void find_inner_values(ProgramPlan& plan) {
  std::vector<int> block(plan.values.size(), -1);
  for (const auto& op : plan.ops) {
    if (op->output >= 0) block[static_cast<std::size_t>(op->output)] = op->block;
  }
  for (const auto& op : plan.ops) {
    for (const int v : op->inputs) {
      if (block[static_cast<std::size_t>(v)] != op->block) block[static_cast<std::size_t>(v)] = -1;
    }
  }
  for (std::size_t v = 0; v < block.size(); ++v) {
    if (block[v] < 0) continue;
    plan.values[v].block = block[v];
    plan.values[v].again = plan.add_slot(plan.slots[static_cast<std::size_t>(plan.values[v].data)].bytes);
  }
  for (const auto& op : plan.ops) {
    if (op->block < 0 || op->saved < 0) continue;
    op->saved_again = plan.add_slot(plan.slots[static_cast<std::size_t>(op->saved)].bytes);
  }
}

// The ops of the block that ends with op `last` whose results its backward needs, in order. `needed_by` says
// of every value which block it was last needed by.
std::vector<int> replayed(const ProgramPlan& plan, int last, std::vector<int>& needed_by) {
  const int block = plan.ops[static_cast<std::size_t>(last)]->block;
  const auto in_block = [&](int i) {
    return i >= 0 && plan.ops[static_cast<std::size_t>(i)]->block == block;
  };
  const auto need = [&](int v) { needed_by[static_cast<std::size_t>(v)] = block; };
  for (int i = last; in_block(i); --i)
    std::ranges::for_each(plan.ops[static_cast<std::size_t>(i)]->kept, need);
  std::vector<int> ops;
  for (int i = last; in_block(i); --i) {
    const Op& op = *plan.ops[static_cast<std::size_t>(i)];
    const auto output = static_cast<std::size_t>(op.output);
    if (op.saved < 0 && !(needed_by[output] == block && plan.values[output].block == block)) continue;
    ops.push_back(i);
    std::ranges::for_each(op.inputs, need);
  }
  std::reverse(ops.begin(), ops.end());
  return ops;
}

// Lists the passes after forward: every op backward, each block after the part of it that is computed again;
// then the gathering.
void list_backward(ProgramPlan& plan) {
  using Pass = ProgramPlan::Pass;
  find_inner_values(plan);
  std::vector<int> needed_by(plan.values.size(), -1);
  const int count = static_cast<int>(plan.ops.size());
  for (int i = count - 1; i >= 0; --i) {
    const int block = plan.ops[static_cast<std::size_t>(i)]->block;
    if (block >= 0 && (i + 1 == count || plan.ops[static_cast<std::size_t>(i) + 1]->block != block)) {
      for (const int op : replayed(plan, i, needed_by)) plan.after.push_back({op, Pass::kReplay});
    }
    plan.after.push_back({i, Pass::kBackward});
  }
  for (int i = 0; i < count; ++i) {
    if (plan.ops[static_cast<std::size_t>(i)]->gathers >= 0) plan.after.push_back({i, Pass::kGather});
  }
}

// Makes room for gradients that wait for the end: it lives from their op's backward until then.
void make_room_for_waiting(ProgramPlan& plan) {
  for (const auto& op : plan.ops) {
    const std::int64_t bytes = op->vector_gradient_bytes();
    if (bytes > 0) op->waiting = plan.add_slot(bytes);
  }
}

void prepare_forward(ProgramPlan& plan) {
  Libraries libraries;
  for (int i = 0; i < static_cast<int>(plan.ops.size()); ++i) {
    Op& op = *plan.ops[static_cast<std::size_t>(i)];
    for (const int v : op.inputs) plan.touch(plan.value(v).data, i);
    if (op.output >= 0) plan.touch(plan.value(op.output).data, i);
    plan.touch(op.saved, i);
    op.prepare(libraries);
  }
}

// The first op to reach a gradient writes it, the others add.
void prepare_backward(ProgramPlan& plan) {
  std::vector<bool> written(plan.values.size(), false);
  for (std::size_t at = 0; at < plan.after.size(); ++at) {
    const ProgramPlan::Event& event = plan.after[at];
    Op& op = *plan.ops[static_cast<std::size_t>(event.op)];
    const int time = static_cast<int>(plan.ops.size() + at);
    plan.touch(op.saved_again >= 0 ? op.saved_again : op.saved, time);
    const bool is_replay = event.pass == ProgramPlan::Pass::kReplay;
    for (const int v : is_replay ? op.inputs : op.kept) plan.touch(plan.data_slot(v, op.block), time);
    if (is_replay) {
      plan.touch(plan.data_slot(op.output, op.block), time);
      continue;
    }
    if (event.pass == ProgramPlan::Pass::kGather) {
      for (const auto& e : plan.embeddings.at(op.gathers)) plan.touch(plan.value(e.output).gradient, time);
      continue;
    }
    for (const int v : op.inputs) {
      op.accumulate.push_back(written[static_cast<std::size_t>(v)]);
      written[static_cast<std::size_t>(v)] = true;
      plan.touch(plan.value(v).gradient, time);
    }
    if (op.output >= 0) plan.touch(plan.value(op.output).gradient, time);
    plan.touch(op.waiting, time);
    plan.touch(op.waiting, static_cast<int>(plan.ops.size() + plan.after.size()));
  }
}

// When it is known which gradients are added to others.
void measure_workspace(ProgramPlan& plan) {
  for (const auto& op : plan.ops) {
    plan.workspace_bytes = std::max(plan.workspace_bytes, op->workspace_bytes());
    plan.host_workspace_bytes = std::max(plan.host_workspace_bytes, op->host_workspace_bytes());
    plan.largest_transient_bytes = std::max(plan.largest_transient_bytes, op->transient_bytes());
  }
}

}  // namespace

std::unique_ptr<Program> ProgramBuilder::finish(std::shared_ptr<ProgramRoom> room) {
  // Inference has no backward: nothing lives beyond the last op that reads it, and there are no gradients.
  if (inference_ == 0) list_backward(*plan_);
  // Gradients that are applied as they come have nothing to wait for.
  if (inference_ == 0 && plan_->device->gathers_folds() && !gathers_) make_room_for_waiting(*plan_);
  prepare_forward(*plan_);
  prepare_backward(*plan_);
  measure_workspace(*plan_);
  for (Lifetime& slot : plan_->slots) {
    if (slot.begin < 0) slot.bytes = 0;
  }
  plan_->arena_bytes = place(plan_->slots);
  return std::make_unique<ListProgram>(std::move(plan_), std::move(room));
}

}  // namespace lpmm
