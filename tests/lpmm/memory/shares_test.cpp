// The shares of ranks, and what follows from them: where accumulators of others are kept, and the buckets in
// which parameters are sent.
#include "lpmm/memory/slots/shares.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "lpmm/memory/roles.h"
#include "lpmm/memory/slots/buckets.h"
#include "lpmm/memory/slots/kept.h"

namespace lpmm {
namespace {

// What a rank was sent lies where it had what it has sent, but for tails and what it owns above its part.
TEST(Shares, WhatIsKeptTakesLittleMemory) {
  const std::vector<TensorInfo> tensors = {{"wte", {2048, 768}}, {"mlp", {3072, 768}}, {"bias", {3072}}};
  for (const int ranks : {2, 4, 8}) {
    OptimizerConfig optimizer;
    optimizer.rule = RuleName::find("adamw").value();
    const Policy policy = make_policy("lpmm-min");
    for (int rank = 0; rank < ranks; ++rank) {
      const Sharding sharding{8, ranks, rank};
      const Shares shares(tensors, policy, optimizer, sharding);
      const std::int64_t quantum = piece_bytes(specs_for(policy, tensors[0])[Role::kAccumulator], kQuantum);
      const std::int64_t bytes = KeptPlaces(shares, tensors, policy, sharding, false).bytes();
      EXPECT_LE(bytes, 8 * 2 * quantum) << ranks << " ranks, rank " << rank;
      // Sent from where it lies, it takes a round more.
      EXPECT_LE(KeptPlaces(shares, tensors, policy, sharding, true).bytes(),
                bytes + (ranks - 1) * bytes_at_once(shares, tensors, policy, sharding));
    }
  }
}

// Each place is of elements that were sent by then, as the ranks go round after round, and holds one version.
// Where they are sent from their place, those of the round itself are not sent by then.
TEST(Shares, WhatIsKeptLiesWhereWhatWasSentLay) {
  const std::vector<TensorInfo> tensors = {{"cut", {260, 256}}, {"norm", {37}}, {"large", {2600, 1024}}};
  const Policy policy = make_policy("lpmm-min");
  using Sent = std::set<std::tuple<int, int, std::int64_t>>;
  const auto check = [&](const char* rule, const Sharding& sharding, bool from_their_place) {
    OptimizerConfig optimizer;
    optimizer.rule = RuleName::find(rule).value();
    const Shares shares(tensors, policy, optimizer, sharding);
    const KeptPlaces kept(shares, tensors, policy, sharding, from_their_place);
    Sent sent;
    const auto send = [&](std::size_t j) {
      for (int rank = 0; rank < sharding.ranks; ++rank) {
        if (rank == sharding.rank || j >= shares.rounds(rank).size()) continue;
        for (const Shares::Piece& p : shares.rounds(rank)[j].pieces) {
          for (int slot = 0; slot < sharding.own_slots(); ++slot) sent.emplace(p.tensor, slot, p.first);
        }
      }
    };
    const auto own = shares.rounds(sharding.rank);
    for (std::size_t j = shares.most_rounds(); j-- > 0;) {
      if (!from_their_place) send(j);
      for (int slot = 0; slot < sharding.slots && j < own.size(); ++slot) {
        if (slot / sharding.own_slots() == sharding.rank) continue;
        for (std::size_t i = 0; i < own[j].pieces.size(); ++i) {
          const KeptPlaces::Place& place = kept.at(j, i, slot);
          if (place.tensor < 0) continue;
          EXPECT_EQ(sent.erase({place.tensor, place.slot, place.first}), 1U);
        }
      }
      if (from_their_place) send(j);
    }
  };
  for (const char* rule : {"adamw", "lamb"}) {
    for (const Sharding sharding : {Sharding{4, 2, 1}, Sharding{4, 4, 2}}) {
      for (const bool from_their_place : {false, true}) check(rule, sharding, from_their_place);
    }
  }
}

TEST(Shares, AreEvenWhereTensorsCanBeCut) {
  std::vector<TensorInfo> tensors = {{"wte", {5025, 768}}};
  for (int i = 0; i < 4; ++i) {
    tensors.push_back({fmt::format("mlp{}", i), {3072, 768}});
    tensors.push_back({fmt::format("bias{}", i), {3072}});
  }
  const auto shares_of = [&](const char* rule, int ranks) {
    OptimizerConfig c;
    c.rule = RuleName::find(rule).value();
    const Shares shares(tensors, make_policy("lpmm-min"), c, {ranks, ranks});
    std::vector<std::int64_t> elements(static_cast<std::size_t>(ranks), 0);
    for (int rank = 0; rank < ranks; ++rank) {
      for (int t = 0; t < static_cast<int>(tensors.size()); ++t) {
        elements[static_cast<std::size_t>(rank)] += shares.count(t, rank);
        if (rank + 1 < ranks) continue;
        EXPECT_EQ(shares.end(t, rank), tensors[static_cast<std::size_t>(t)].elements());
      }
    }
    return elements;
  };
  for (const int ranks : {1, 2, 3, 8}) {
    const std::vector<std::int64_t> even = shares_of("adamw", ranks);
    const auto [least, most] = std::minmax_element(even.begin(), even.end());
    EXPECT_LE(*most - *least, 3 * kQuantum) << ranks;
  }
  const std::vector<std::int64_t> whole = shares_of("lamb", 2);
  EXPECT_LE(std::abs(whole[0] - whole[1]), 5025 * 768) << "the largest tensor";
}

// Each element lies in one bucket, with its owner's part, and no rank sends much more of a bucket than
// another.
TEST(Shares, BucketsHoldEachElementOnce) {
  const std::vector<TensorInfo> tensors = {{"wte", {5025, 768}}, {"norm", {768}},     {"still", {300, 768}},
                                           {"mlp", {3072, 768}}, {"bias", {3072}},    {"query", {768, 768}},
                                           {"key", {768, 768}},  {"rest", {4097, 33}}};
  OptimizerConfig optimizer;
  optimizer.rule = RuleName::find("adamw").value();
  ParameterGroup still;
  still.pattern = "still";
  still.frozen = true;
  optimizer.groups = {still};
  const Policy policy = make_policy("lpmm-min");
  for (const int ranks : {2, 3, 8}) {
    const Shares shares(tensors, policy, optimizer, {8, ranks, 0, 3});
    const Buckets buckets(tensors, policy, shares, ranks);
    std::int64_t all_bytes = 0, sent = 0;
    for (int t = 0; t < std::ssize(tensors); ++t) {
      const TensorInfo& info = tensors[static_cast<std::size_t>(t)];
      EXPECT_EQ(shares.divides_parameter(t), info.elements() >= kLeastDivided);
      if (!shares.divides_parameter(t)) continue;
      EXPECT_EQ(shares.end(t, ranks - 1), info.elements());
      const RoleSpecs specs = specs_for(policy, info);
      const Spec& spec = specs[Role::kParameter];
      all_bytes += code_bytes(spec.format, info.elements()) + step_bytes(spec, info.elements());
      for (std::int64_t e = 0; e < info.elements(); e += kQuantum) {
        std::vector<Buckets::Piece> found;
        const int bucket = buckets.find(t, e);
        for (const Buckets::Piece& p : buckets.pieces(bucket)) {
          if (p.tensor == t && p.first <= e && e < p.first + p.count) found.push_back(p);
        }
        ASSERT_EQ(found.size(), 1U) << info.name << " " << e;
        const Buckets::Piece& p = found[0];
        EXPECT_TRUE(shares.first(t, p.owner) <= e && e < shares.end(t, p.owner));
        const auto [first, end] = buckets.bytes_of(bucket, p.owner);
        EXPECT_TRUE(first <= p.at && p.at + piece_bytes(spec, p.count) <= end);
      }
    }
    for (int rank = 0; rank < ranks; ++rank) {
      sent += buckets.bytes_of_pass(rank);
      EXPECT_LT(buckets.bytes_of_pass(rank), all_bytes * (ranks - 1) / ranks * 13 / 10)
          << rank << "/" << ranks;
    }
    EXPECT_GE(sent, all_bytes * (ranks - 1));
    EXPECT_LT(sent, all_bytes * (ranks - 1) * 101 / 100) << "each is sent to each other rank once";
    EXPECT_LE(buckets.most_bytes(), 4 * kBucket);
  }
}

}  // namespace
}  // namespace lpmm
