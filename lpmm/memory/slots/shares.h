// The elements that each rank owns: it keeps their states and updates them. A pure function of what the
// tensors store, so that every rank knows the shares of all.
//
// Work on gradients goes by quanta of at most kQuantum elements of one tensor, whatever the number of ranks:
// sums over a quantum, added in the order of tensors and of places there, are the same for any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/packed_device.h"
#include "lpmm/memory/policy.h"

namespace lpmm {

// The division of a step's microbatches into slots, which have an accumulator each; and the place of this
// rank among those that share them evenly. The stage says what else of a tensor lies with its owner alone
// (ZeRO, arXiv:1910.02054): with 1 states, with 3 parameters too.
struct Sharding {
  int slots = 1, ranks = 1, rank = 0;
  int stage = 1;
  int own_slots() const { return slots / ranks; }
  bool divides_parameters() const { return stage == 3 && ranks > 1; }
};

inline constexpr std::int64_t kQuantum = 65536;
inline constexpr std::int64_t kRound = 8 * kQuantum;
inline constexpr std::int64_t kLeastDivided = 4096;  // elements; smaller parameters lie with every rank

// Returns true if parts of the tensor can be updated alone: roles have blocks, and no sum is over the whole.
bool may_be_cut(const Policy& policy, const OptimizerConfig& optimizer, const TensorInfo& tensor);

class Shares {
 public:
  struct Piece {
    int tensor = 0;
    std::int64_t first = 0, count = 0;
    std::int64_t room = 0;  // the place of its sum, in fp32 values of the round's room
  };
  // The pieces that are summed at once, by quanta, and those that can be updated after it. Sums stay for the
  // rounds after where a tensor that cannot be cut has more than a round.
  struct Round {
    std::vector<Piece> pieces, updates;
  };

  Shares(std::span<const TensorInfo> tensors, const Policy& policy, const OptimizerConfig& optimizer,
         const Sharding& sharding);

  // Returns true if a rank has of this tensor's parameter only what it owns.
  bool divides_parameter(int tensor) const { return divided_[static_cast<std::size_t>(tensor)]; }
  // The elements [first, end) of a tensor's states that a rank owns; those of ranks follow one another. What
  // can be cut is cut evenly, so that each rank owns a part of whatever is read at a time.
  std::int64_t first(int tensor, int rank) const { return rank == 0 ? 0 : end(tensor, rank - 1); }
  std::int64_t end(int tensor, int rank) const { return ends_[place_of(tensor, rank)]; }
  std::int64_t count(int tensor, int rank) const { return end(tensor, rank) - first(tensor, rank); }
  std::span<const Round> rounds(int rank) const { return rounds_[static_cast<std::size_t>(rank)]; }
  std::size_t most_rounds() const;             // of a rank
  std::int64_t room() const { return room_; }  // fp32 values that the sums of a rank's rounds take at most

 private:
  struct Unit;
  void give_out(std::vector<Unit>& units) const;
  void add_rounds(int rank, std::span<const Unit> units);
  std::size_t place_of(int tensor, int rank) const {
    return static_cast<std::size_t>(tensor) * static_cast<std::size_t>(ranks_) +
           static_cast<std::size_t>(rank);
  }
  int ranks_;
  std::vector<bool> divided_;
  std::vector<std::int64_t> ends_;  // by tensor and rank
  std::vector<std::vector<Round>> rounds_;
  std::int64_t room_ = 0;
};

// The bytes of a piece of a role, as ranks send them: codes, and from steps_at() on its steps.
std::int64_t steps_at(const Spec& spec, std::int64_t count);
std::int64_t piece_bytes(const Spec& spec, std::int64_t count);
kernels::RoleView piece_at(const Codec& codec, std::byte* at, std::int64_t count);
// Adds a piece that is all of `part`, of the device's memory.
void append_piece(PackedDevice& device, const kernels::RoleView& part, std::vector<std::byte>& to);
// The bytes that a rank sends to all others in a step: accumulators and parameters. Of divided parameters it
// sends `pass` besides, each time when all ranks read them once.
struct SentBytes {
  std::int64_t accumulators = 0, parameters = 0, pass = 0;
  std::int64_t all() const { return accumulators + parameters; }
};
SentBytes sent_bytes(std::span<const TensorInfo> tensors, const Policy& policy,
                     const OptimizerConfig& optimizer, const Sharding& sharding);
// The most that a rank sends to and takes from another one at once.
std::int64_t bytes_at_once(const Shares& shares, std::span<const TensorInfo> tensors, const Policy& policy,
                           const Sharding& sharding);
// The bytes in which a rank sums its rounds over so many slots: their sums, and room for the tree where
// the device is not the host.
std::int64_t sum_bytes(const Shares& shares, int slots, const PackedDevice& device);
// The workspace that summing over slots takes, 0 for one slot: sums, the bytes of an exchange, the
// accumulators of others for which this rank has no place, and what is read of others' parameters.
std::int64_t slot_workspace_bytes(std::span<const TensorInfo> tensors, const Policy& policy,
                                  const OptimizerConfig& optimizer, const Sharding& sharding,
                                  const PackedDevice& device);

}  // namespace lpmm
