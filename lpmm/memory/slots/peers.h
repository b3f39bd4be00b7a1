// The memory of other ranks where all are of one host: each reads accumulators and parameters where they lie,
// so that nothing is sent (ZeRO's exchanges as reads of one side). Whoever reads needs no word from the
// owner, but all meet before what was read changes, and before what has changed is read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/packed_device.h"
#include "lpmm/memory/roles.h"
#include "lpmm/ranks/ranks.h"

namespace lpmm {

struct MemoryState;

class Peers {
 public:
  // All ranks call it when their roles are allocated and zero. Null, on every rank, where they may not read
  // (Ranks::may_read) or one of them cannot, after which they may not.
  static std::unique_ptr<Peers> open(const MemoryState& memory);
  // If no exception is under way, waits until no rank reads this one's memory any more.
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Returns true if the device's kernels reach what view() says. Else it is for read() alone.
  bool are_mapped() const { return mapped_; }
  // A rank's parameter, of which it may have a part, or the accumulator of its first slot.
  const kernels::RoleView& view(int rank, int tensor, Role role) const;

  // Parts of other ranks' memory that are read at once.
  class Reads {
   public:
    // All of `from`, a part of a view of that rank, to memory of this device that is as long.
    void add(int rank, const kernels::RoleView& from, const kernels::RoleView& to);

   private:
    friend class Peers;
    struct Read {
      int rank = 0;
      PeerMemory::Part part;
    };
    std::vector<Read> all_;
  };
  // Throws RankLost where the other one has ended; `place` is for that. Another thread may call it.
  void read(const Reads& reads, const RankPlace& place) const;
  // Returns when all ranks have come here, with all that they had queued done.
  void meet() const;

 private:
  struct Peer {
    std::unique_ptr<PeerMemory> accumulators, parameters;
    std::vector<kernels::RoleView> of_accumulators, of_parameters;  // by tensor
  };
  explicit Peers(const MemoryState& memory) : memory_(memory) {}
  bool open_all();
  bool open_one(std::string_view told, Peer& peer) const;

  const MemoryState& memory_;
  std::vector<Peer> peers_;
  bool is_open_ = false, mapped_ = false;
};

}  // namespace lpmm
