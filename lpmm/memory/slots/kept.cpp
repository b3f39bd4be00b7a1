#include "lpmm/memory/slots/kept.h"

#include <algorithm>

#include "lpmm/memory/roles.h"

namespace lpmm {
namespace {

// Free places that hold as many elements of one codec.
struct Free {
  Spec codec;
  std::int64_t count;
  std::vector<KeptPlaces::Place> places;
};

std::vector<KeptPlaces::Place>& alike(std::vector<Free>& free, const Spec& codec, std::int64_t count) {
  const auto found = std::find_if(free.begin(), free.end(),
                                  [&](const Free& f) { return f.count == count && f.codec == codec; });
  if (found != free.end()) return found->places;
  return free.emplace_back(Free{codec, count, {}}).places;
}

}  // namespace

KeptPlaces::KeptPlaces(const Shares& shares, std::span<const TensorInfo> tensors, const Policy& policy,
                       const Sharding& sharding, bool from_their_place)
    : sharding_(sharding) {
  std::vector<Spec> codecs;
  for (const TensorInfo& t : tensors) codecs.push_back(specs_for(policy, t)[Role::kAccumulator]);
  const auto codec_of = [&](const Shares::Piece& p) { return codecs[static_cast<std::size_t>(p.tensor)]; };
  const auto own = shares.rounds(sharding.rank);
  std::vector<Free> free;
  places_.resize(own.size());
  const auto add_free = [&](std::size_t j) {
    for (int rank = 0; rank < sharding.ranks; ++rank) {
      const auto theirs = shares.rounds(rank);
      if (rank == sharding.rank || j >= theirs.size()) continue;
      for (const Shares::Piece& p : theirs[j].pieces) {
        std::vector<Place>& places = alike(free, codec_of(p), p.count);
        for (int slot = 0; slot < sharding.own_slots(); ++slot) places.push_back({p.tensor, slot, p.first});
      }
    }
  };
  const auto take = [&](const Shares::Piece& p) {
    std::vector<Place>& places = alike(free, codec_of(p), p.count);
    Place place{-1, 0, bytes_};
    if (places.empty()) {
      bytes_ += piece_bytes(codec_of(p), p.count);
    } else {
      place = places.back();
      places.pop_back();
    }
    return place;
  };
  for (std::size_t j = shares.most_rounds(); j-- > 0;) {
    if (!from_their_place) add_free(j);
    for (int slot = sharding.own_slots(); j < own.size() && slot < sharding.slots; ++slot) {
      for (const Shares::Piece& p : own[j].pieces) places_[j].push_back(take(p));
    }
    if (from_their_place) add_free(j);
  }
}

const KeptPlaces::Place& KeptPlaces::at(std::size_t round, std::size_t piece, int slot) const {
  const int own = sharding_.own_slots();
  const int of_others = slot < sharding_.rank * own ? slot : slot - own;
  const std::vector<Place>& places = places_[round];
  const std::size_t pieces = places.size() / static_cast<std::size_t>(sharding_.slots - own);
  return places[static_cast<std::size_t>(of_others) * pieces + piece];
}

}  // namespace lpmm
