// How ranks that cannot read each other's memory read parameters that lie with others: each asks, and the
// owners send.
//
// Ranks read what they like, in any order: a read is a round of all ranks, in which each says what it wants
// and sends what others want. A rank that comes to another exchange (Ranks::swap) first takes part in rounds
// until all have come there. So between two exchanges one rank may read more often than another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lpmm/memory/slots/buckets.h"
#include "lpmm/memory/slots/parcels.h"
#include "lpmm/ranks/ranks.h"

namespace lpmm {

struct MemoryState;

class Asking {
 public:
  using Rows = std::span<const std::int32_t>;

  Asking(const MemoryState& memory, const Shares& shares, const Buckets& buckets);
  // The codes of a bucket that others own, at their places from `to` on: of the device's memory where it is
  // linked, else of the host's. A link waits for the work of `after` (Carrier::mark).
  void fetch(int bucket, std::byte* to, const RankPlace& place, const DeviceLink::Mark& after);
  // Rows of a table, as values.
  std::vector<float> rows(int table, std::int64_t width, Rows rows, const RankPlace& place);
  // Sends others what they want until all are at another exchange.
  void serve(const RankPlace& place);

 private:
  // What a rank wants in a round: nothing, a bucket, or rows of a table.
  struct Want {
    int bucket = -1, table = -1;
    std::int64_t rows = 0, width = 0;
    bool is_nothing() const { return bucket < 0 && table < 0; }
  };
  std::vector<Want> round(const Want& mine, Rows rows, std::span<const std::span<std::byte>> receive,
                          const RankPlace& place, std::byte* to = nullptr,
                          const DeviceLink::Mark& after = nullptr);
  void carry(std::span<const Want> wants, std::byte* to, const RankPlace& place,
             const DeviceLink::Mark& after);
  kernels::RoleView own_piece(const Buckets::Piece& piece) const;
  std::vector<std::byte> pieces_to_send(int bucket) const;
  std::vector<float> own_of(int table, std::int64_t width, Rows rows) const;
  std::int64_t owned_of(int rank, int table, std::int64_t width, Rows rows) const;

  const MemoryState& memory_;
  Carrier& carrier_;
  Ranks& ranks_;
  const Shares& shares_;
  const Buckets& buckets_;
};

}  // namespace lpmm
