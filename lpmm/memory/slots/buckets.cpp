#include "lpmm/memory/slots/buckets.h"

#include <algorithm>

#include "lpmm/memory/policy.h"

namespace lpmm {

// A tensor that does not fit into what is left of a bucket begins one; one larger than a bucket has several,
// which are its own.
Buckets::Buckets(std::span<const TensorInfo> tensors, const Policy& policy, const Shares& shares, int ranks)
    : ranks_(ranks), first_(tensors.size(), -1) {
  std::int64_t left = 0;  // elements, of the last bucket
  for (int t = 0; t < static_cast<int>(tensors.size()); ++t) {
    if (!shares.divides_parameter(t)) continue;
    const std::int64_t elements = tensors[static_cast<std::size_t>(t)].elements();
    const bool begins = elements > left;
    if (begins) left = kBucket;
    first_[static_cast<std::size_t>(t)] = static_cast<int>(pieces_.size()) - (begins ? 0 : 1);
    for (std::int64_t first = 0; first < elements; first += kBucket) {
      const std::int64_t end = std::min(elements, first + kBucket);
      if (begins) pieces_.emplace_back();
      for (int rank = 0; rank < ranks; ++rank) {
        const std::int64_t from = std::max(first, shares.first(t, rank)),
                           to = std::min(end, shares.end(t, rank));
        if (from < to) pieces_.back().push_back({t, rank, from, to - from, 0});
      }
    }
    left = std::max<std::int64_t>(0, left - elements);
  }
  for (std::vector<Piece>& pieces : pieces_) {
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](const Piece& a, const Piece& b) { return a.owner < b.owner; });
    std::vector<std::int64_t>& ends = ends_.emplace_back(static_cast<std::size_t>(ranks), 0);
    std::int64_t bytes = 0;
    for (Piece& p : pieces) {
      p.at = bytes;
      bytes += piece_bytes(specs_for(policy, tensors[static_cast<std::size_t>(p.tensor)])[Role::kParameter],
                           p.count);
      for (int rank = p.owner; rank < ranks; ++rank) ends[static_cast<std::size_t>(rank)] = bytes;
    }
    most_bytes_ = std::max(most_bytes_, bytes);
  }
}

std::int64_t Buckets::bytes_of_pass(int rank) const {
  std::int64_t bytes = 0;
  for (int bucket = 0; bucket < static_cast<int>(pieces_.size()); ++bucket) {
    const Bytes own = bytes_of(bucket, rank);
    bytes += (ranks_ - 1) * (own.end - own.first);
  }
  return bytes;
}

}  // namespace lpmm
