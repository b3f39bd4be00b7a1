// Several sets in one: how often each comes, that nothing comes twice before all came once.
#include "lpmm/data/corpus/mixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "lpmm/base/error.h"
#include "lpmm/data/conversations/conversation_data.h"

namespace lpmm {
namespace {

// `count` documents of three tokens; the first one says which document of which set it is.
std::shared_ptr<const Sequences> set_of(std::int32_t number, int count, double share = 0) {
  std::vector<Document> documents;
  for (std::int32_t i = 0; i < count; ++i) {
    documents.push_back({{1000 * number + i, 1, 2}, {0, 1, static_cast<std::uint8_t>(number % 2)}});
  }
  return std::make_shared<const ConversationData>("set " + std::to_string(number), std::move(documents),
                                                  std::nullopt, share, 2, TooLong::kDrop);
}

TEST(MixtureOrder, PlacesFollowTheWeightsAndAreSpreadEvenly) {
  const std::vector<std::vector<double>> mixtures = {
      {1}, {2, 1}, {1, 1}, {3, 1, 1}, {0.001, 5, 0.7, 2}, {1e-6, 1}, {7, 7, 7, 7, 7, 7, 7, 7, 7}};
  for (const std::vector<double>& weights : mixtures) {
    const MixtureOrder order(weights);
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<std::int64_t> taken(weights.size());
    for (const std::int64_t first : {std::int64_t{0}, std::int64_t{123456789}, std::int64_t{1} << 40}) {
      for (std::size_t set = 0; set < weights.size(); ++set) taken[set] = order.count(set, first);
      ASSERT_EQ(std::accumulate(taken.begin(), taken.end(), std::int64_t{0}), first);
      for (std::int64_t place = first; place < first + 3000; ++place) {
        const auto [set, before] = order.at(place);
        ASSERT_EQ(before, taken[set]) << place;
        ++taken[set];
        for (std::size_t i = 0; i < weights.size(); ++i) {
          ASSERT_EQ(order.count(i, place + 1), taken[i]) << place;
          if (first > 0) continue;
          ASSERT_NEAR(static_cast<double>(taken[i]), weights[i] / all * static_cast<double>(place + 1),
                      1 + static_cast<double>(weights.size()) / 2)
              << place;
        }
      }
    }
  }
}

TEST(MixtureOrder, RefusesAWeightThatIsNothing) {
  try {
    MixtureOrder(std::vector<double>{1e6, 1e-6});
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("file 2"), std::string::npos) << e.what();
  }
}

TEST(Mixture, EverySequenceComesOnceBeforeOneComesAgain) {
  const Mixture data({{set_of(1, 6), 2}, {set_of(2, 9), 1}});
  ASSERT_EQ(data.train_examples(), 15);
  std::multiset<std::int32_t> seen;
  Batch batch;
  for (std::int64_t epoch = 0; epoch < 9; ++epoch) {
    for (int index = 0; index < 5; ++index) {
      data.make_batch({7, 3, 1}, epoch, index, 0, batch);
      ASSERT_EQ(batch.count, 3);
      int of_first = 0;
      for (std::size_t i = 0; i < 3; ++i) {
        seen.insert(batch.tokens[2 * i]);
        of_first += batch.tokens[2 * i] < 2000 ? 1 : 0;
      }
      EXPECT_EQ(of_first, 2);                   // of each step
      EXPECT_EQ(batch.step_labels, 2 * 2 + 1);  // two labels count in the first set, one in the second
    }
  }
  for (int i = 0; i < 6; ++i) EXPECT_EQ(seen.count(1000 + i), 9 * 10 / 6U);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(seen.count(2000 + i), 9 * 5 / 9U);
  EXPECT_EQ(data.learnt_labels(), 10 * 2 + 5);
}

TEST(Mixture, ABatchIsThatOfItsMicrobatchesAndOfTheSeed) {
  const Mixture data({{set_of(1, 60), 2}, {set_of(2, 90), 1}, {set_of(3, 11), 0.3}});
  Batch whole, part;
  data.make_batch({5, 12, 1}, 2, 3, 0, whole);
  std::vector<std::int32_t> tokens;
  for (int m = 0; m < 4; ++m) {
    data.make_batch({5, 12, 4}, 2, 3, m, part);
    EXPECT_EQ(part.step_labels, whole.step_labels);
    tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
  }
  EXPECT_EQ(tokens, whole.tokens);
  data.make_batch({6, 12, 1}, 2, 3, 0, part);
  EXPECT_NE(part.tokens, whole.tokens);
}

TEST(Mixture, TestsAreOfEachSetInTurnAndTheRestOfAnEpochDoesNotCount) {
  const Mixture data({{set_of(1, 10, 0.2), 1}, {set_of(2, 20, 0.1), 1}});
  ASSERT_EQ(data.train_examples(), 8 + 18);
  const std::vector<TestPart> parts = data.test_parts();
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].name, "set 1");
  EXPECT_EQ(parts[0].examples, 2);
  EXPECT_EQ(parts[1].examples, 2);
  Batch batch;
  data.make_test_batch(1, 2, batch);
  EXPECT_EQ(batch.tokens[0] / 1000, 1);
  EXPECT_EQ(batch.tokens[2] / 1000, 2);
  data.make_batch({.seed = 1, .batch = 8, .microbatches = 1, .keeps_last = true}, 0, 3, 0, batch);
  ASSERT_EQ(batch.count, 8);
  EXPECT_EQ(std::count(batch.labels.begin() + 4, batch.labels.end(), -1), 12);
  EXPECT_NE(batch.labels[0], -1);
}

}  // namespace
}  // namespace lpmm
