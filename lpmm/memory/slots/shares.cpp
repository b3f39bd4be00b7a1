#include "lpmm/memory/slots/shares.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "kernels/matrix.h"
#include "lpmm/memory/optimizer_config.h"
#include "lpmm/memory/roles.h"
#include "lpmm/memory/slots/home.h"
#include "lpmm/memory/slots/kept.h"

namespace lpmm {
namespace {

bool is_trained(const Policy& policy, const OptimizerConfig& optimizer, const TensorInfo& tensor) {
  return has_role(policy, optimizer, tensor, Role::kAccumulator);
}

}  // namespace

// A unit of updates: a quantum, or a tensor that cannot be cut.
struct Shares::Unit {
  int tensor;
  std::int64_t first, count, bytes;
  bool is_whole, is_updated;
  int owner = 0;
};

bool may_be_cut(const Policy& policy, const OptimizerConfig& optimizer, const TensorInfo& tensor) {
  if (rule_row(optimizer.rule).needs_whole_tensors(optimizer.settings)) return false;
  const TensorPlan plan = plan_tensor(policy, optimizer, tensor);
  return std::all_of(kEveryRole.begin(), kEveryRole.end(), [&](Role role) {
    return !plan[role] || (is_per_element(role) && has_blocks(plan[role]->codec));
  });
}

Shares::Shares(std::span<const TensorInfo> tensors, const Policy& policy, const OptimizerConfig& optimizer,
               const Sharding& sharding)
    : ranks_(sharding.ranks), rounds_(static_cast<std::size_t>(ranks_)) {
  std::vector<Unit> units;
  for (int t = 0; t < static_cast<int>(tensors.size()); ++t) {
    const TensorInfo& info = tensors[static_cast<std::size_t>(t)];
    const std::int64_t elements = info.elements();
    const bool is_updated = is_trained(policy, optimizer, info),
               is_whole = !may_be_cut(policy, optimizer, info);
    const std::int64_t unit = is_whole ? elements : kQuantum;
    divided_.push_back(sharding.divides_parameters() && elements >= kLeastDivided);
    if (!is_updated && !divided_.back()) continue;
    const TensorPlan plan = plan_tensor(policy, optimizer, info);
    for (std::int64_t first = 0; first < elements; first += unit) {
      const std::int64_t count = std::min(unit, elements - first);
      std::int64_t bytes = is_updated ? count : 0;  // the work
      for (const Role role : kEveryElementRole) {
        const bool is_own = is_state(role) || (role == Role::kParameter && divided_.back());
        if (plan[role] && is_own) bytes += code_bytes(plan[role]->codec.format, count);
      }
      units.push_back({t, first, count, bytes, is_whole, is_updated});
    }
  }
  give_out(units);
  ends_.assign(tensors.size() * static_cast<std::size_t>(ranks_), 0);
  for (const Unit& u : units) {
    for (int rank = u.owner; rank < ranks_; ++rank) ends_[place_of(u.tensor, rank)] += u.count;
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    std::vector<Unit> own;
    std::copy_if(units.begin(), units.end(), std::back_inserter(own),
                 [&](const Unit& u) { return u.owner == rank && u.is_updated; });
    add_rounds(rank, own);
  }
}

// Each unit goes to whom has least: whole tensors first, the largest of them at first; then quanta, and those
// of one tensor in the order of ranks.
void Shares::give_out(std::vector<Unit>& units) const {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(ranks_), 0);
  const auto owner_of_next = [&](std::int64_t bytes) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += bytes;
    return static_cast<int>(least - loads.begin());
  };
  std::vector<Unit*> whole;
  for (Unit& u : units) {
    if (u.is_whole) whole.push_back(&u);
  }
  std::stable_sort(whole.begin(), whole.end(),
                   [](const Unit* a, const Unit* b) { return a->bytes > b->bytes; });
  for (Unit* u : whole) u->owner = owner_of_next(u->bytes);
  for (auto first = units.begin(); first != units.end();) {
    const auto end =
        std::find_if(first, units.end(), [&](const Unit& u) { return u.tensor != first->tensor; });
    std::vector<int> owners;
    for (auto u = first; u != end && !u->is_whole; ++u) owners.push_back(owner_of_next(u->bytes));
    std::sort(owners.begin(), owners.end());
    for (std::size_t i = 0; i < owners.size(); ++i)
      (first + static_cast<std::ptrdiff_t>(i))->owner = owners[i];
    first = end;
  }
}

void Shares::add_rounds(int rank, std::span<const Unit> units) {
  std::vector<Round>& rounds = rounds_[static_cast<std::size_t>(rank)];
  std::int64_t left = 0;  // of the last round
  for (const Unit& u : units) {
    // A whole tensor has all its sums in one room, though it takes several rounds.
    const std::int64_t values = groups_of(u.count) * kGroup;
    if (values > left) {
      rounds.emplace_back();
      left = kRound;
    }
    const std::int64_t room = kRound - left;
    for (std::int64_t at = 0; at < u.count; at += kQuantum) {
      if (at > 0 && at % kRound == 0) rounds.emplace_back();
      rounds.back().pieces.push_back({u.tensor, u.first + at, std::min(kQuantum, u.count - at), room + at});
    }
    rounds.back().updates.push_back({u.tensor, u.first, u.count, room});
    room_ = std::max(room_, room + values);
    left = std::max<std::int64_t>(0, left - values);
  }
}

std::size_t Shares::most_rounds() const {
  std::size_t most = 0;
  for (const auto& rounds : rounds_) most = std::max(most, rounds.size());
  return most;
}

std::int64_t steps_at(const Spec& spec, std::int64_t count) {
  return kernels::aligned(code_bytes(spec.format, count));
}
std::int64_t piece_bytes(const Spec& spec, std::int64_t count) {
  return steps_at(spec, count) + kernels::aligned(step_bytes(spec, count));
}

kernels::RoleView piece_at(const Codec& codec, std::byte* at, std::int64_t count) {
  auto* const codes = reinterpret_cast<std::uint8_t*>(at);
  auto* const steps = reinterpret_cast<std::uint16_t*>(at + steps_at(codec, count));
  return {codec, codes, step_bytes(codec, count) > 0 ? steps : nullptr, count};
}

void append_piece(PackedDevice& device, const kernels::RoleView& part, std::vector<std::byte>& to) {
  const std::size_t at = to.size();
  to.resize(at + static_cast<std::size_t>(piece_bytes(part.codec, part.elements)));
  const kernels::RoleView there = piece_at(part.codec, to.data() + at, part.elements);
  device.download(there.codes, part.codes, code_bytes(part.codec.format, part.elements));
  if (there.steps == nullptr) return;
  device.download(there.steps, part.steps, step_bytes(part.codec, part.elements));
}

std::int64_t bytes_at_once(const Shares& shares, std::span<const TensorInfo> tensors, const Policy& policy,
                           const Sharding& sharding) {
  std::int64_t most = 0;
  for (int rank = 0; rank < sharding.ranks; ++rank) {
    for (const Shares::Round& round : shares.rounds(rank)) {
      std::int64_t accumulators = 0, parameters = 0;
      for (const Shares::Piece& p : round.pieces) {
        const RoleSpecs specs = specs_for(policy, tensors[static_cast<std::size_t>(p.tensor)]);
        accumulators += sharding.own_slots() * piece_bytes(specs[Role::kAccumulator], p.count);
        if (!shares.divides_parameter(p.tensor)) parameters += piece_bytes(specs[Role::kParameter], p.count);
      }
      most = std::max({most, accumulators, parameters});
    }
  }
  return most;
}

SentBytes sent_bytes(std::span<const TensorInfo> tensors, const Policy& policy,
                     const OptimizerConfig& optimizer, const Sharding& sharding) {
  SentBytes sent;
  if (sharding.ranks == 1) return sent;
  const Shares shares(tensors, policy, optimizer, sharding);
  for (int rank = 0; rank < sharding.ranks; ++rank) {
    for (const Shares::Round& round : shares.rounds(rank)) {
      for (const Shares::Piece& p : round.pieces) {
        const RoleSpecs specs = specs_for(policy, tensors[static_cast<std::size_t>(p.tensor)]);
        if (rank == sharding.rank) {
          if (shares.divides_parameter(p.tensor)) continue;
          sent.parameters += (sharding.ranks - 1) * piece_bytes(specs[Role::kParameter], p.count);
        } else {
          sent.accumulators += sharding.own_slots() * piece_bytes(specs[Role::kAccumulator], p.count);
        }
      }
    }
  }
  if (sharding.divides_parameters()) {
    sent.pass = Buckets(tensors, policy, shares, sharding.ranks).bytes_of_pass(sharding.rank);
  }
  return sent;
}

std::int64_t sum_bytes(const Shares& shares, int slots, const PackedDevice& device) {
  const int terms = device.is_host() ? 0 : static_cast<int>(std::bit_width(static_cast<unsigned>(slots - 1)));
  return 4 * (shares.room() + terms * kQuantum);
}

std::int64_t slot_workspace_bytes(std::span<const TensorInfo> tensors, const Policy& policy,
                                  const OptimizerConfig& optimizer, const Sharding& sharding,
                                  const PackedDevice& device) {
  if (sharding.slots == 1) return 0;
  const Shares shares(tensors, policy, optimizer, sharding);
  const std::int64_t at_once =
      sharding.ranks == 1 ? 0 : bytes_at_once(shares, tensors, policy, sharding) * (sharding.ranks - 1);
  const std::int64_t kept =
      sharding.ranks == 1 ? 0 : KeptPlaces(shares, tensors, policy, sharding, false).bytes();
  const std::int64_t home =
      sharding.divides_parameters()
          ? Home::workspace_bytes(Buckets(tensors, policy, shares, sharding.ranks), sharding.ranks)
          : 0;
  return sum_bytes(shares, sharding.slots, device) + 2 * at_once + kept + home;
}

}  // namespace lpmm
