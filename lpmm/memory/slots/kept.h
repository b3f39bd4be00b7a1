// Where a rank keeps the accumulators that others sent it until it updates by them: in the places of those
// that it has sent itself, which nobody reads any more, and what fits none of these in memory of its own. So
// they may be sent early, and are sent once where gradients are clipped; a rank that owns no more than its
// part needs next to no memory for it. A pure function of the shares: rounds come from the last to the first.
// Where they are sent from where they lie, those of a round are not free before the next one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lpmm/memory/slots/shares.h"

namespace lpmm {

class KeptPlaces {
 public:
  // The elements of an accumulator here that are free: of a tensor from `first` on, in a slot of this rank.
  // Without a tensor: bytes of the memory of their own, from `first` on.
  struct Place {
    int tensor = -1, slot = 0;
    std::int64_t first = 0;
  };
  KeptPlaces(const Shares& shares, std::span<const TensorInfo> tensors, const Policy& policy,
             const Sharding& sharding, bool from_their_place);

  // The place of a piece of a round of this rank's, as another rank has it in a slot; slots are those of all.
  const Place& at(std::size_t round, std::size_t piece, int slot) const;
  std::int64_t bytes() const { return bytes_; }  // of the memory of their own

 private:
  Sharding sharding_;
  std::vector<std::vector<Place>> places_;  // by round; then by slot of the other ranks, then by piece
  std::int64_t bytes_ = 0;
};

}  // namespace lpmm
