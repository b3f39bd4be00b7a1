// The home of parameters that ranks have parts of (ranks.stage = 3): a rank keeps what it owns, and reads the
// rest: where it lies, if ranks reach each other's memory (Peers), else as its owners send it (Asking). Codes
// come in buckets, which stay until a few others were read; rows of a table come as values. On the host, and
// on devices that are linked, the next bucket, by the order in which ranks read before, is fetched while one
// is used. A device whose kernels reach the others' memory keeps nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "kernels/packed_device.h"
#include "lpmm/memory/slots/asking.h"
#include "lpmm/memory/slots/buckets.h"
#include "lpmm/memory/slots/peers.h"

namespace lpmm {

struct MemoryState;

class Home {
 public:
  Home(const MemoryState& memory, const Shares& shares, Buckets buckets);
  // If no exception is under way, lets others read until they are through too.
  ~Home();
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  // Calls body(part, first, element, count) for the elements [first, first + count) of a tensor, piece by
  // piece: they are in `part` from its element `first` on, and `element` is the tensor's. A part is there
  // until the next read.
  using Body = std::function<void(const kernels::RoleView& part, std::int64_t first, std::int64_t element,
                                  std::int64_t count)>;
  void read(int tensor, std::int64_t first, std::int64_t count, const Body& body);
  // As PackedKernels::decode_rows(), of the parameter of a tensor.
  void read_rows(int tensor, std::int64_t width, const std::int32_t* rows, std::int64_t count, float* out);
  // What was read is no longer what ranks have: to be called before that changes, when all are at one place.
  // All of them see the change before one reads again.
  void forget();

  static std::int64_t workspace_bytes(const Buckets& buckets, int ranks);

 private:
  struct Held {
    int bucket = -1;
    std::int64_t used = 0;  // when; the larger, the later
    DeviceMemory bytes;
    std::vector<std::byte> staged;  // of the host, for another device
  };
  using Rows = Asking::Rows;

  const Held& get(int bucket);
  Held* find(int bucket);
  Held& oldest();
  void fetch(int bucket, Held& to, const RankPlace& place, const DeviceLink::Mark& after = nullptr);
  bool comes_to_device() const;  // a bucket, without a copy of the host's
  void fetch_ahead();
  void wait();
  void settle();
  void begin_reading();
  void read_mapped(int tensor, std::int64_t first, std::int64_t count, const Body& body);
  void read_peer_rows(int table, std::int64_t width, Rows rows, float* out);

  const MemoryState& memory_;
  Ranks& ranks_;
  const Shares& shares_;
  Buckets buckets_;
  std::optional<Asking> asking_;                       // where there are no peers
  bool changed_ = true;                                // since all ranks met
  static constexpr std::int64_t kRowFloats = 1 << 17;  // of a round
  std::array<Held, 3> held_;
  std::int64_t reads_ = 0;
  // The buckets read since the last exchange of another kind; those between exchanges before that, and which
  // of them is expected next.
  std::vector<int> order_, last_order_;
  std::ptrdiff_t expected_ = 0;
  std::future<void> coming_;
  Held* coming_to_ = nullptr;
  int coming_bucket_ = -1;
};

}  // namespace lpmm
