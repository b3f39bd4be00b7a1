// The home of parameters that ranks have parts of (ranks.stage = 3): a rank keeps what it owns, and reads the
// rest as its owners send it. Codes come in buckets, which stay until a few others were read; rows of a table
// come as values. On the host the next one, by the order in which ranks read before, is sent for while one is
// used.
//
// Ranks read what they like, in any order: a read is a round of all ranks, in which each says what it wants
// and sends what others want. A rank that comes to another exchange (Ranks::swap) first takes part in rounds
// until all have come there. So between two exchanges one rank may read more often than another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <span>
#include <vector>

#include "kernels/packed_device.h"
#include "lpmm/memory/slots/buckets.h"
#include "lpmm/ranks/ranks.h"

namespace lpmm {

struct MemoryState;

class Home {
 public:
  Home(const MemoryState& memory, const Shares& shares, Buckets buckets);
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
  void forget();

  static std::int64_t workspace_bytes(const Buckets& buckets, int ranks);

 private:
  // What a rank wants in a round: nothing, a bucket, or rows of a table.
  struct Want {
    int bucket = -1, table = -1;
    std::int64_t rows = 0, width = 0;
    bool is_nothing() const { return bucket < 0 && table < 0; }
  };
  struct Held {
    int bucket = -1;
    std::int64_t used = 0;  // when; the larger, the later
    DeviceMemory bytes;
    std::vector<std::byte> staged;  // of the host, for another device
  };
  using Rows = std::span<const std::int32_t>;

  const Held& get(int bucket);
  Held* find(int bucket);
  Held& oldest();
  void fetch(int bucket, Held& to, const RankPlace& place);
  void fetch_ahead();
  void wait();
  void settle();
  std::vector<Want> round(const Want& mine, Rows rows, std::span<const std::span<std::byte>> receive,
                          const RankPlace& place);
  std::vector<std::byte> pieces_to_send(int bucket) const;
  std::vector<float> own_of(int table, std::int64_t width, Rows rows) const;
  std::int64_t owned_of(int rank, int table, std::int64_t width, Rows rows) const;
  std::int64_t own_first(int table, int rank) const { return shares_.first(table, rank); }
  std::int64_t own_end(int table, int rank) const { return shares_.end(table, rank); }
  void read_some_rows(int table, std::int64_t width, Rows rows, float* out);

  const MemoryState& memory_;
  Ranks& ranks_;
  const Shares& shares_;
  Buckets buckets_;
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
