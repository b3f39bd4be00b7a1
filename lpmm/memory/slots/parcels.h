// What ranks send each other of their devices' memory, and how it goes: from device to device where they are
// linked (DeviceLink), else through the host's memory.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/packed_device.h"
#include "lpmm/ranks/ranks.h"

namespace lpmm {

// An exchange of pieces of roles. They come in the order in which they are sent to a rank, which is as many.
class Parcels {
 public:
  void send(int rank, const kernels::RoleView& piece) { sent_.push_back({rank, piece}); }
  void send_to_all(const kernels::RoleView& piece) { sent_.push_back({kAll, piece}); }
  void receive(int rank, const kernels::RoleView& to) { received_.push_back({rank, to}); }
  bool is_empty() const { return sent_.empty() && received_.empty(); }

 private:
  friend class Carrier;
  static constexpr int kAll = -1;
  struct Parcel {
    int rank = 0;
    kernels::RoleView piece;
  };
  std::vector<Parcel> sent_, received_;
};

class Carrier {
 public:
  // All ranks make one. Those of a device that links are linked, if all of them can be.
  Carrier(PackedDevice& device, Ranks& ranks);
  // If no exception is under way, waits until all have what they were sent.
  ~Carrier();
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  bool is_linked() const { return link_ != nullptr; }
  // Work that is queued so far, for an exchange that another thread makes; null where that is done.
  DeviceLink::Mark mark() const { return link_ ? link_->mark() : nullptr; }
  // All ranks come to the same exchanges; throws RankLost. Another thread may call it, if none is under way.
  // It is for Ranks::begin_exchange() to be called before, where that is wanted.
  void carry(const Parcels& parcels, const RankPlace& place, const DeviceLink::Mark& after = nullptr);

 private:
  void carry_linked(const Parcels& parcels, const RankPlace& place, const DeviceLink::Mark& after);
  void carry_by_host(const Parcels& parcels, const RankPlace& place);

  PackedDevice& device_;
  Ranks& ranks_;
  std::unique_ptr<DeviceLink> link_;
  std::vector<std::vector<std::byte>> out_, in_;  // by rank; the own one: to all
};

}  // namespace lpmm
