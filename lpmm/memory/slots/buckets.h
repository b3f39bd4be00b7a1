// The buckets in which ranks send each other the parameters that they have parts of: neighbouring tensors
// together, a large one in several. A pure function of the shares.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lpmm/memory/slots/shares.h"

namespace lpmm {

inline constexpr std::int64_t kBucket = 32 * kQuantum;  // elements, at most

class Buckets {
 public:
  // Elements of a tensor that one rank owns, and the place of their codes and steps in the bucket's bytes.
  struct Piece {
    int tensor = 0, owner = 0;
    std::int64_t first = 0, count = 0, at = 0;
  };
  Buckets(std::span<const TensorInfo> tensors, const Policy& policy, const Shares& shares, int ranks);

  std::int64_t most_bytes() const { return most_bytes_; }  // of a bucket
  // By owner; those of one rank lie side by side.
  std::span<const Piece> pieces(int bucket) const { return pieces_[static_cast<std::size_t>(bucket)]; }
  // The bytes [first, end) of a bucket that a rank owns.
  struct Bytes {
    std::int64_t first = 0, end = 0;
  };
  Bytes bytes_of(int bucket, int rank) const {
    const auto& ends = ends_[static_cast<std::size_t>(bucket)];
    const auto r = static_cast<std::size_t>(rank);
    return {r == 0 ? 0 : ends[r - 1], ends[r]};
  }
  // The bucket of an element of a tensor that ranks have parts of.
  int find(int tensor, std::int64_t element) const {
    return first_[static_cast<std::size_t>(tensor)] + static_cast<int>(element / kBucket);
  }
  // The bytes that a rank sends while all ranks read every bucket once.
  std::int64_t bytes_of_pass(int rank) const;

 private:
  int ranks_;
  std::vector<int> first_;  // bucket of each tensor
  std::vector<std::vector<Piece>> pieces_;
  std::vector<std::vector<std::int64_t>> ends_;  // by bucket and rank
  std::int64_t most_bytes_ = 0;
};

}  // namespace lpmm
