// A program's list of ops with where its values live.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kernels/device.h"
#include "lpmm/program/liveness.h"
#include "lpmm/program/op.h"

namespace lpmm {

// A program's list. Slots are the arena's lifetimes: data and gradient of every value, what ops save, and
// gradients that wait.
struct ProgramPlan {
  int batch = 0;
  ValueType compute = ValueType::kFp32;
  Device* device = nullptr;  // the one it is built for: scratch memory is of its sizes
  struct Slots {
    int data = -1, gradient = -1;
    int block = -1,
        again = -1;  // of a value inside a block that is recomputed: where it lives the second time
  };
  // The passes after the forward pass: an op's forward once more, its backward, and last of all gathering.
  enum class Pass : std::uint8_t { kReplay, kBackward, kGather };
  struct Event {
    int op;
    Pass pass;
  };
  // A look-up of rows of a tensor.
  struct Embedding {
    int output;         // value
    std::int64_t rows;  // of it: tokens
    bool is_source;
  };
  std::vector<Slots> values;
  std::vector<Lifetime> slots;
  std::vector<std::unique_ptr<Op>> ops;
  std::vector<Event> after;
  std::map<int, int> uses;                           // by tensor: ops that share it
  std::map<int, std::vector<Embedding>> embeddings;  // by tensor
  std::vector<int> gathered;                         // tensors whose gradient one op hands over for all
  std::int64_t arena_bytes = 0, workspace_bytes = 0, host_workspace_bytes = 0, largest_transient_bytes = 0;

  int add_slot(std::int64_t bytes) {
    slots.push_back({bytes, -1, -1, 0});
    return static_cast<int>(slots.size()) - 1;
  }
  void touch(int slot, int time) {
    if (slot < 0) return;
    Lifetime& life = slots[static_cast<std::size_t>(slot)];
    life.begin = life.begin < 0 ? time : std::min(life.begin, time);
    life.end = std::max(life.end, time);
  }
  // Backward reaches the last use first. The contribution of the first use is the last of a microbatch.
  int contribution(const TensorUse& use) const { return uses.at(use.tensor) - 1 - use.place; }
  bool is_gathered(int tensor) const {
    return std::find(gathered.begin(), gathered.end(), tensor) != gathered.end();
  }
  const Slots& value(int id) const { return values[static_cast<std::size_t>(id)]; }
  // Returns the slot of a value's data while `block` is replayed or run backward (-1: none is).
  int data_slot(int id, int block) const {
    const Slots& s = value(id);
    return block >= 0 && s.block == block ? s.again : s.data;
  }
  std::byte* at(const RunState& run, int slot) const {
    return slot < 0 ? nullptr : run.arena + slots[static_cast<std::size_t>(slot)].offset;
  }
};

}  // namespace lpmm
