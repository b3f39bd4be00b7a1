// The slots of a step, and the ranks that share them: whoever owns elements adds what the slots hold of them
// and updates them; the others take their parameters. Accumulators and parameters are sent as they are
// stored, or read where they lie (peers.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/packed_device.h"
#include "lpmm/memory/clipping.h"
#include "lpmm/memory/slots/kept.h"
#include "lpmm/memory/slots/parcels.h"
#include "lpmm/memory/slots/shares.h"
#include "lpmm/memory/step.h"

namespace lpmm {

class Ranks;
struct MemoryState;
struct TensorStats;

class Slots {
 public:
  // The settings are checked already (check_slots).
  Slots(std::span<const TensorInfo> tensors, const Policy& policy, const OptimizerConfig& optimizer,
        int microbatches, const Sharding& sharding, PackedDevice& device, Ranks& ranks);
  // Memory for what comes from other ranks, and what sends behind the passes; when roles are allocated, and
  // others are opened or cannot be.
  void allocate_exchange(MemoryState& memory);

  int count() const { return count_; }
  int own() const { return own_; }  // that are of this rank
  Share own_microbatches() const;
  // The slot of a microbatch of this rank, of its own ones.
  int slot_of(int microbatch) const { return microbatch / per_slot_ % own_; }
  // The accumulator of such a slot, given the first one's, where all of one lie so many bytes after those of
  // the slot before.
  kernels::RoleView accumulator(const kernels::RoleView& first, int slot) const;
  int copies_of(std::size_t bytes);  // remembers them, and returns how many slots need memory here
  const Shares& shares() const { return shares_; }
  Carrier& carrier() const { return *carrier_; }  // where ranks send
  std::vector<std::int64_t> owned_ends(int tensor) const;

  // The square sums of the summed gradient; for steps that clip, before the update.
  GradientSquares gradient_squares(MemoryState& memory);
  // Updates what this rank owns, and takes the others' parameters, or lets them come (behind.h). Accumulators
  // are empty after it. Throws RunError, on every rank, where one of them could not store something.
  void update(MemoryState& memory, const Clip& clip);

 private:
  struct Layout {
    std::vector<std::int64_t> at;
    std::int64_t bytes = 0;  // of all
  };
  const Shares::Round* round(int rank, std::size_t index) const;  // null: it has fewer
  Layout layout(const MemoryState& memory, const Shares::Round& round) const;
  void carry(const MemoryState& memory, const char* phase, const Parcels& parcels,
             const DeviceLink::Mark& after);
  void exchange(MemoryState& memory, std::size_t index);
  void read_versions(MemoryState& memory, std::size_t index);
  kernels::RoleView kept_at(const MemoryState& memory, const Shares::Piece& piece,
                            const KeptPlaces::Place& place) const;
  kernels::RoleView version(const MemoryState& memory, std::size_t index, std::size_t piece, int slot,
                            const Layout& own) const;
  void take_accumulators(MemoryState& memory);
  void sum(MemoryState& memory, std::size_t index);
  void update_pieces(MemoryState& memory, const Clip& clip, std::size_t index);
  void hand_out(MemoryState& memory, std::size_t index);
  void read_parameters(MemoryState& memory) const;
  void collect(MemoryState& memory);
  float* room(std::int64_t value) const { return reinterpret_cast<float*>(sums_.get()) + value; }

  Ranks& ranks_;
  Shares shares_;
  int count_, own_, per_slot_;
  std::int64_t stride_ = 0;
  std::int64_t staged_bytes_ = 0;   // of each other rank
  DeviceMemory sums_, staged_;      // fp32; what was read of the others
  std::optional<KeptPlaces> kept_;  // where ranks send: where that lies until the update, in place of staged_
  DeviceMemory kept_memory_;
  bool has_taken_ = false;                   // accumulators of the step under way, to clip by them
  std::unique_ptr<Carrier> carrier_;         // where ranks send
  DeviceLink::Mark updated_;                 // all of the last step is
  std::vector<DeviceLink::Mark> marks_;      // by round: its accumulators are complete
  std::vector<kernels::RoleView> versions_;  // of a piece, in all slots
  struct Counted {
    int tensor = 0;
    std::int64_t first = 0;
    const TensorStats* stats = nullptr;
  };
  std::vector<Counted> counted_;  // by the updates of a step
};

}  // namespace lpmm
