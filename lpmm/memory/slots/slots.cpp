#include "lpmm/memory/slots/slots.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "lpmm/memory/memory_state.h"
#include "lpmm/ranks/ranks.h"

namespace lpmm {
namespace {

const kernels::RoleView& view_in(const MemoryState& memory, const Shares::Piece& piece, Role role) {
  return memory.view(piece.tensor, role);
}

kernels::RoleView floats_at(float* values, std::int64_t count) {
  return view_of({values, static_cast<std::size_t>(count)});
}

struct SquareOf {
  int tensor = 0;
  std::int64_t first = 0;
  double sum = 0;
};

struct StatsOf {
  int tensor = 0;
  std::int64_t place = 0;  // a slot, or after all slots the first element of an update
  TensorStats stats;
};

}  // namespace

Slots::Slots(std::span<const TensorInfo> tensors, const Policy& policy, const OptimizerConfig& optimizer,
             int microbatches, const Sharding& sharding, PackedDevice& device, Ranks& ranks)
    : ranks_(ranks),
      shares_(tensors, policy, optimizer, sharding),
      count_(sharding.slots),
      own_(sharding.own_slots()),
      per_slot_(microbatches / count_),
      versions_(static_cast<std::size_t>(count_)) {
  sums_ = allocate(device, sum_bytes(shares_, count_, device), "sums over slots", "a smaller model");
}

void Slots::allocate_exchange(MemoryState& memory) {
  const auto n = static_cast<std::size_t>(ranks_.size());
  if (n == 1) return;
  ranks_.let_link(!memory.peers && ranks_.may_link());
  if (memory.reaches_others()) return;
  std::vector<TensorInfo> tensors;
  for (const MemoryState::Tensor& t : memory.tensors) tensors.push_back(t.info);
  if (memory.peers) {
    staged_bytes_ = bytes_at_once(shares_, tensors, memory.policy, memory.sharding);
    staged_ = allocate(memory.device, staged_bytes_ * static_cast<std::int64_t>(n), "the exchange of ranks",
                       "a smaller model");
    return;
  }
  carrier_ = std::make_unique<Carrier>(memory.device, ranks_);
  kept_.emplace(shares_, tensors, memory.policy, memory.sharding, carrier_->is_linked());
  kept_memory_ = allocate(memory.device, kept_->bytes(), "accumulators of other ranks", "a smaller model");
  marks_.resize(shares_.most_rounds());
  // A device without a link is not used by two threads at once, and parameters in shares are exchanged
  // meanwhile.
  if (!(memory.device.is_host() || carrier_->is_linked()) || memory.sharding.divides_parameters()) return;
  memory.behind = std::make_unique<Behind>(
      shares_, static_cast<int>(tensors.size()), ranks_,
      Behind::Rounds{[this, &memory](std::size_t round) { hand_out(memory, round); },
                     [this, &memory](std::size_t round) { exchange(memory, round); },
                     [this](std::size_t first, std::size_t end) {
                       std::fill(marks_.begin() + static_cast<std::ptrdiff_t>(first),
                                 marks_.begin() + static_cast<std::ptrdiff_t>(end), carrier_->mark());
                     }});
}

Share Slots::own_microbatches() const {
  return {ranks_.rank() * own_ * per_slot_, own_ * per_slot_};
}

kernels::RoleView Slots::accumulator(const kernels::RoleView& first, int slot) const {
  kernels::RoleView view = first;
  view.codes += slot * stride_;
  if (view.steps != nullptr) view.steps += slot * stride_ / 2;
  return view;
}

int Slots::copies_of(std::size_t bytes) {
  stride_ = static_cast<std::int64_t>(bytes);
  return own_;
}

std::vector<std::int64_t> Slots::owned_ends(int tensor) const {
  std::vector<std::int64_t> ends;
  for (int rank = 0; rank < ranks_.size(); ++rank) ends.push_back(shares_.end(tensor, rank));
  return ends;
}

const Shares::Round* Slots::round(int rank, std::size_t index) const {
  const auto rounds = shares_.rounds(rank);
  return index < rounds.size() ? &rounds[index] : nullptr;
}

// The places of a round's pieces of one slot in what is read of a rank.
Slots::Layout Slots::layout(const MemoryState& memory, const Shares::Round& round) const {
  Layout layout;
  for (const Shares::Piece& p : round.pieces) {
    layout.at.push_back(layout.bytes);
    layout.bytes += piece_bytes(view_in(memory, p, Role::kAccumulator).codec, p.count);
  }
  return layout;
}

void Slots::carry(const MemoryState& memory, const char* phase, const Parcels& parcels,
                  const DeviceLink::Mark& after) {
  if (memory.behind) return carrier_->carry(parcels, {memory.behind->step(), phase}, after);
  ranks_.begin_exchange();
  carrier_->carry(parcels, ranks_.place());
}

// Every rank gets its pieces of this round from all slots, and keeps them until the update.
void Slots::exchange(MemoryState& memory, std::size_t index) {
  Parcels parcels;
  for (int slot = 0; slot < count_; ++slot) {
    const int rank = slot / own_;
    const Shares::Round* const mine = round(ranks_.rank(), index);
    for (std::size_t i = 0; mine != nullptr && rank != ranks_.rank() && i < mine->pieces.size(); ++i) {
      parcels.receive(rank, kept_at(memory, mine->pieces[i], kept_->at(index, i, slot)));
    }
  }
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const Shares::Round* const theirs = round(rank, index);
    for (int slot = 0; theirs != nullptr && rank != ranks_.rank() && slot < own_; ++slot) {
      for (const Shares::Piece& p : theirs->pieces) {
        const kernels::RoleView all = accumulator(view_in(memory, p, Role::kAccumulator), slot);
        parcels.send(rank, part_of(all, p.first, p.count));
      }
    }
  }
  carry(memory, "gradients", parcels, std::exchange(marks_[index], nullptr));
}

// Where kernels reach the others' accumulators, summing reads them.
void Slots::read_versions(MemoryState& memory, std::size_t index) {
  const Shares::Round* own = round(ranks_.rank(), index);
  if (own == nullptr) return;
  const Layout of_slot = layout(memory, *own);
  if (memory.reaches_others()) return ranks_.count_read((count_ - own_) * of_slot.bytes);
  Peers::Reads reads;
  for (int slot = 0; slot < count_; ++slot) {
    const int rank = slot / own_;
    for (std::size_t i = 0; i < own->pieces.size() && rank != ranks_.rank(); ++i) {
      const Shares::Piece& p = own->pieces[i];
      const kernels::RoleView& first = memory.peers->view(rank, p.tensor, Role::kAccumulator);
      reads.add(rank, part_of(accumulator(first, slot % own_), p.first, p.count),
                version(memory, index, i, slot, of_slot));
    }
  }
  memory.peers->read(reads, ranks_.place());
}

kernels::RoleView Slots::kept_at(const MemoryState& memory, const Shares::Piece& piece,
                                 const KeptPlaces::Place& place) const {
  if (place.tensor < 0) {
    const Codec& codec = view_in(memory, piece, Role::kAccumulator).codec;
    return piece_at(codec, kept_memory_.get() + place.first, piece.count);
  }
  const kernels::RoleView& first = memory.view(place.tensor, Role::kAccumulator);
  return part_of(accumulator(first, place.slot), place.first, piece.count);
}

// Returns a slot's accumulator of a piece of this rank: its own, or as another rank sent it.
kernels::RoleView Slots::version(const MemoryState& memory, std::size_t index, std::size_t piece, int slot,
                                 const Layout& own) const {
  const Shares::Piece& p = round(ranks_.rank(), index)->pieces[piece];
  const int rank = slot / own_, of_rank = slot % own_;
  const bool is_mapped = memory.reaches_others();
  const kernels::RoleView& first = is_mapped ? memory.peers->view(rank, p.tensor, Role::kAccumulator)
                                             : view_in(memory, p, Role::kAccumulator);
  if (is_mapped || rank == ranks_.rank()) return part_of(accumulator(first, of_rank), p.first, p.count);
  if (kept_) return kept_at(memory, p, kept_->at(index, piece, slot));
  return piece_at(first.codec, staged_.get() + rank * staged_bytes_ + of_rank * own.bytes + own.at[piece],
                  p.count);
}

void Slots::sum(MemoryState& memory, std::size_t index) {
  const Shares::Round* own = round(ranks_.rank(), index);
  if (own == nullptr) return;
  const Layout of_slot = layout(memory, *own);
  for (std::size_t i = 0; i < own->pieces.size(); ++i) {
    const Shares::Piece& p = own->pieces[i];
    for (int slot = 0; slot < count_; ++slot) {
      versions_[static_cast<std::size_t>(slot)] = version(memory, index, i, slot, of_slot);
    }
    memory.device.decode_sum(versions_, room(p.room), room(shares_.room()));
  }
}

// All have folded, and what they send comes, from the last round to the first.
void Slots::take_accumulators(MemoryState& memory) {
  if (memory.peers) return memory.peers->meet();
  if (memory.behind) return memory.behind->wait_for_accumulators();
  for (std::size_t j = kept_ ? shares_.most_rounds() : 0; j-- > 0;) exchange(memory, j);
}

GradientSquares Slots::gradient_squares(MemoryState& memory) {
  ranks_.now_in(memory.step, "norms");
  take_accumulators(memory);
  has_taken_ = kept_.has_value();
  std::vector<std::pair<Shares::Piece, const double*>> found;
  for (std::size_t j = 0; j < shares_.most_rounds(); ++j) {
    if (memory.peers) read_versions(memory, j);
    sum(memory, j);
    const Shares::Round* own = round(ranks_.rank(), j);
    if (own == nullptr) continue;
    for (const Shares::Piece& p : own->pieces) {
      double* const square_sum = &memory.results.next()->square_sum;
      memory.device.square_sum(floats_at(room(p.room), p.count), 0, p.count, square_sum);
      found.emplace_back(p, square_sum);
    }
  }
  memory.device.synchronize();
  std::vector<SquareOf> squares;
  for (const auto& [p, square_sum] : found) squares.push_back({p.tensor, p.first, *square_sum});
  squares = ranks_.all_of<SquareOf>(squares);
  std::sort(squares.begin(), squares.end(), [](const SquareOf& a, const SquareOf& b) {
    return std::tie(a.tensor, a.first) < std::tie(b.tensor, b.first);
  });
  GradientSquares out{std::vector<double>(memory.tensors.size()), 0};
  for (const SquareOf& s : squares) {
    out.tensor[static_cast<std::size_t>(s.tensor)] += s.sum;
    out.all += s.sum;
  }
  return out;
}

void Slots::update_pieces(MemoryState& memory, const Clip& clip, std::size_t index) {
  const Shares::Round* own = round(ranks_.rank(), index);
  if (own == nullptr) return;
  std::vector<kernels::TensorUpdate> all;
  for (const Shares::Piece& p : own->updates) {
    if (memory.is_left_out(p.tensor)) continue;
    const MemoryState::Tensor& t = memory.tensors[static_cast<std::size_t>(p.tensor)];
    TensorStats* const stats = t.step_stats.empty() ? nullptr : memory.step_stats.next();
    if (stats != nullptr) counted_.push_back({p.tensor, p.first, stats});
    kernels::TensorUpdate update =
        memory.update_of(p.tensor, clip.factors[static_cast<std::size_t>(p.tensor)], stats);
    if (p.count < t.info.elements()) {
      for (const Role role : kEveryRole) {
        const std::int64_t first =
            p.first - (role == Role::kParameter ? memory.parameter_first(p.tensor) : t.own_first);
        if (role != Role::kAccumulator) update.args.roles[role] = part_of(t.view[role], first, p.count);
      }
      update.args.noise.first_group = static_cast<std::uint32_t>(p.first / kGroup);
    }
    update.args.roles[Role::kAccumulator] = floats_at(room(p.room), p.count);
    update.args.keeps_gradient = true;
    memory.watch.measure(update, p.tensor, p.first);
    all.push_back(update);
  }
  memory.device.update(all);
}

// Every rank takes the parameters that the others updated in this round.
void Slots::hand_out(MemoryState& memory, std::size_t index) {
  Parcels parcels;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const Shares::Round* const theirs = round(rank, index);
    for (std::size_t i = 0; theirs != nullptr && i < theirs->pieces.size(); ++i) {
      const Shares::Piece& p = theirs->pieces[i];
      if (shares_.divides_parameter(p.tensor)) continue;  // stays with its owner
      const kernels::RoleView piece = part_of(view_in(memory, p, Role::kParameter), p.first, p.count);
      rank == ranks_.rank() ? parcels.send_to_all(piece) : parcels.receive(rank, piece);
    }
  }
  if (!parcels.is_empty()) carry(memory, "parameters", parcels, updated_);  // it is so on all ranks or none
}

// The same by reading, when all have updated.
void Slots::read_parameters(MemoryState& memory) const {
  Peers::Reads reads;
  for (int t = 0; t < static_cast<int>(memory.tensors.size()); ++t) {
    const MemoryState::Tensor& tensor = memory.tensors[static_cast<std::size_t>(t)];
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const std::int64_t first = shares_.first(t, rank), count = shares_.count(t, rank);
      if (rank == ranks_.rank() || count == 0 || shares_.divides_parameter(t)) continue;
      reads.add(rank, part_of(memory.peers->view(rank, t, Role::kParameter), first, count),
                part_of(tensor.view[Role::kParameter], first, count));
    }
  }
  memory.peers->read(reads, ranks_.place());
}

// Adds up the statistics of all ranks' updates in one order.
void Slots::collect(MemoryState& memory) {
  std::vector<StatsOf> stats;
  for (std::size_t t = 0; t < memory.tensors.size(); ++t) {
    const auto& of_slots = memory.tensors[t].step_stats;
    for (std::size_t slot = 0; slot < of_slots.size(); ++slot) {
      stats.push_back(
          {static_cast<int>(t), ranks_.rank() * own_ + static_cast<std::int64_t>(slot), *of_slots[slot]});
    }
    memory.tensors[t].step_stats.clear();
  }
  const bool is_counted = !stats.empty();
  for (const Counted& c : counted_) stats.push_back({c.tensor, count_ + c.first, *c.stats});
  counted_.clear();
  if (is_counted) stats = ranks_.all_of<StatsOf>(stats);
  std::sort(stats.begin(), stats.end(), [](const StatsOf& a, const StatsOf& b) {
    return std::tie(a.tensor, a.place) < std::tie(b.tensor, b.place);
  });
  for (const StatsOf& s : stats) memory.tensors[static_cast<std::size_t>(s.tensor)].stats += s.stats;
  if (!memory.watch.is_wanted()) return;
  using Seen = UpdateWatch::Seen;
  std::vector<Seen> seen = ranks_.all_of<Seen>(memory.watch.read());
  std::sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) {
    return std::tie(a.tensor, a.first) < std::tie(b.tensor, b.first);
  });
  memory.watch.set(seen, memory.tensors.size());
}

void Slots::update(MemoryState& memory, const Clip& clip) {
  ranks_.now_in(memory.step, "update");
  counted_.clear();
  if (memory.home) memory.home->forget();
  if (!std::exchange(has_taken_, false)) take_accumulators(memory);  // all have read parameters too
  for (std::size_t j = 0; j < shares_.most_rounds(); ++j) {
    if (memory.peers) read_versions(memory, j);
    sum(memory, j);
    update_pieces(memory, clip, j);
  }
  for (const int tensor : ranks_.all(memory.not_storable().value_or(-1))) {
    if (tensor >= 0) memory.refuse_update(tensor);
  }
  collect(memory);
  ranks_.now_in(memory.step, "parameters");
  if (memory.peers) read_parameters(memory);
  memory.empty_accumulators();
  if (carrier_) updated_ = carrier_->mark();
  if (memory.behind) return memory.behind->updated();
  for (std::size_t j = 0; kept_ && j < shares_.most_rounds(); ++j) hand_out(memory, j);
}

}  // namespace lpmm
