// Documents in sequences: which share one, what a batch of them holds, what is left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "lpmm/base/error.h"
#include "lpmm/data/conversations/conversation_data.h"

namespace lpmm {
namespace {

// Tokens that say which document they are of, and where.
Document document(std::int32_t number, int tokens, int unlearnt = 0) {
  Document d;
  for (int i = 0; i < tokens; ++i) {
    d.ids.push_back(1000 * number + i);
    d.learnt.push_back(i >= unlearnt ? 1 : 0);
  }
  return d;
}

std::vector<std::int32_t> drawn_lengths(int count, int longest) {
  std::mt19937 generator(5);
  std::vector<std::int32_t> lengths;
  for (int i = 0; i < count; ++i) {
    const auto draw = generator() % 1000;
    lengths.push_back(1 +
                      static_cast<std::int32_t>(draw * draw * static_cast<unsigned>(longest - 1) / 998001));
  }
  return lengths;
}

TEST(Packing, EveryPieceIsInOneSequenceAndFewSlotsAreLeft) {
  constexpr int kLength = 512;
  for (const int count : {0, 1, 40, 3000, 20000}) {
    const std::vector<std::int32_t> slots = drawn_lengths(count, kLength);
    std::vector<int> seen(slots.size());
    std::int64_t used = 0;
    const auto sequences = pack(slots, kLength);
    for (const auto& sequence : sequences) {
      std::int64_t taken = 0;
      for (const std::int32_t i : sequence) {
        ++seen[static_cast<std::size_t>(i)];
        taken += slots[static_cast<std::size_t>(i)];
      }
      ASSERT_LE(taken, kLength);
      ASSERT_GT(taken, 0);
      used += taken;
    }
    EXPECT_EQ(std::ranges::count(seen, 1), count);
    if (count > 1000) {
      EXPECT_GT(static_cast<double>(used), 0.98 * kLength * static_cast<double>(sequences.size())) << count;
    }
    EXPECT_EQ(pack(slots, kLength), sequences);
  }
}

TEST(Packing, TakesTheLongestFirstIntoTheFirstThatHasRoom) {
  // 6 and 4 fill a sequence, 5 and 3 another with the 2.
  const auto sequences = pack(std::vector<std::int32_t>{2, 3, 4, 5, 6}, 10);
  EXPECT_EQ(sequences, (std::vector<std::vector<std::int32_t>>{{4, 2}, {3, 1, 0}}));
}

TEST(Packing, ASequenceHasTokensLabelsAndStartsAndEndsWithNothing) {
  const std::vector<Document> documents{document(1, 5), document(2, 4, 2)};
  const PackedDocuments packed(documents, 9, TooLong::kCut);
  ASSERT_EQ(packed.sequences(), 1);
  EXPECT_EQ(packed.learnt(0), 4 + 2);
  Batch batch;
  packed.append(0, batch);
  EXPECT_EQ(batch.count, 1);
  EXPECT_EQ(batch.tokens, (std::vector<std::int32_t>{1000, 1001, 1002, 1003, 2000, 2001, 2002, 0, 0}));
  EXPECT_EQ(batch.labels, (std::vector<std::int32_t>{1001, 1002, 1003, 1004, -1, 2002, 2003, -1, -1}));
  EXPECT_EQ(batch.starts, (std::vector<std::int32_t>{0, 0, 0, 0, 4, 4, 4, 7, 7}));
  EXPECT_EQ(packed.counts().slots, 7);
  EXPECT_NEAR(packed.filled(), 7.0 / 9, 1e-12);
}

TEST(Packing, LongDocumentsAreCutLeftOutOrSplit) {
  // In the second nothing is learnt before its last tokens; the third has no label at all.
  const std::vector<Document> documents{document(1, 12), document(2, 9, 8), document(3, 1)};
  const auto labels_of = [](const PackedDocuments& packed) {
    Batch batch;
    for (std::int64_t i = 0; i < packed.sequences(); ++i) packed.append(i, batch);
    std::vector<std::int32_t> labels = batch.labels;
    std::erase(labels, -1);
    std::ranges::sort(labels);
    return labels;
  };
  const PackedDocuments cut(documents, 5, TooLong::kCut);
  EXPECT_EQ(labels_of(cut), (std::vector<std::int32_t>{1001, 1002, 1003, 1004, 1005}));
  EXPECT_EQ(cut.counts().too_long, 2);
  EXPECT_EQ(cut.counts().unlearnt, 2);
  const PackedDocuments drop(documents, 5, TooLong::kDrop);
  EXPECT_EQ(drop.sequences(), 0);
  EXPECT_EQ(drop.counts().too_long, 2);
  EXPECT_EQ(drop.counts().unlearnt, 1);
  const PackedDocuments split(documents, 5, TooLong::kSplit);
  EXPECT_EQ(labels_of(split), (std::vector<std::int32_t>{1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009,
                                                         1010, 1011, 2008}));
  EXPECT_EQ(split.counts().too_long, 2);
  EXPECT_EQ(split.counts().unlearnt, 1);
  EXPECT_EQ(split.counts().learnt, 12);
}

std::vector<Document> some_documents() {
  std::vector<Document> documents;
  for (int i = 0; i < 60; ++i) documents.push_back(document(i + 1, 3 + i % 11, i % 3));
  return documents;
}

TEST(ConversationData, AnEpochHasEverySequenceOnceInAnOrderOfSeedAndEpoch) {
  const ConversationData data("drawn", some_documents(), {}, 0, 16, TooLong::kCut);
  const BatchPlan plan{.seed = 3, .batch = 2, .microbatches = 2};
  const std::int64_t steps = data.train_examples() / 2;
  const auto tokens = [&](const BatchPlan& of, std::int64_t epoch) {
    std::vector<std::int32_t> all;
    for (std::int64_t index = 0; index < steps; ++index) {
      for (int k = 0; k < of.microbatches; ++k) {
        Batch batch;
        batch.tokens = {7};  // an earlier one's
        batch.starts = {7};
        data.make_batch(of, epoch, index, k, batch);
        EXPECT_EQ(batch.count, of.batch / of.microbatches);
        EXPECT_EQ(batch.tokens.size(), batch.starts.size());
        all.insert(all.end(), batch.tokens.begin(), batch.tokens.end());
      }
    }
    return all;
  };
  const auto first = tokens(plan, 0), second = tokens(plan, 1);
  EXPECT_EQ(first, tokens(plan, 0));
  EXPECT_EQ(first, tokens({.seed = 3, .batch = 2, .microbatches = 1}, 0));
  EXPECT_NE(first, second);
  EXPECT_NE(first, tokens({.seed = 4, .batch = 2, .microbatches = 2}, 0));
  const auto sorted = [](std::vector<std::int32_t> ids) {
    std::ranges::sort(ids);
    return ids;
  };
  if (data.train_examples() % 2 == 0) {
    EXPECT_EQ(sorted(first), sorted(second));
  }
}

TEST(ConversationData, CountsTheLabelsOfTheWholeStep) {
  const ConversationData data("drawn", some_documents(), {}, 0, 16, TooLong::kCut);
  std::int64_t counted = 0, said = 0;
  for (int k = 0; k < 3; ++k) {
    Batch batch;
    data.make_batch({.seed = 1, .batch = 6, .microbatches = 3}, 0, 1, k, batch);
    counted += std::ranges::count_if(batch.labels, [](std::int32_t label) { return label >= 0; });
    said = batch.step_labels;
  }
  EXPECT_EQ(counted, said);
  EXPECT_GT(counted, 0);
}

TEST(ConversationData, AnEpochMayEndWithinABatch) {
  const ConversationData data("drawn", some_documents(), {}, 0, 16, TooLong::kCut);
  const BatchPlan plan{.seed = 1, .batch = 14, .microbatches = 2, .keeps_last = true};
  const std::int64_t all = data.train_examples(), steps = steps_in(all, plan.batch, true);
  ASSERT_NE(all % plan.batch, 0);
  std::int64_t counted = 0, said = 0;
  for (std::int64_t index = 0; index < steps; ++index) {
    Batch batch;
    for (int k = 0; k < 2; ++k) {
      data.make_batch(plan, 0, index, k, batch);
      EXPECT_EQ(batch.count, 7);
      counted += std::ranges::count_if(batch.labels, [](std::int32_t label) { return label >= 0; });
    }
    said += batch.step_labels;
  }
  EXPECT_EQ(counted, said);
  EXPECT_EQ(counted, data.learnt_labels());
}

// A file to test on of which nothing is left is no reason to take documents of the other one.
TEST(ConversationData, AnEmptyTestFileIsRefused) {
  EXPECT_THROW(ConversationData("drawn", some_documents(), std::vector<Document>{}, 0.2, 16, TooLong::kCut),
               UsageError);
}

// Two answers may differ behind the cut alone.
TEST(PackedDocuments, GroupsThatAreEqualAsCutAreLeftOut) {
  Document one = document(1, 20), other = one;
  other.ids.back() += 1;
  const std::vector<Document> pair = {one, other};
  const PackedDocuments cut(pair, 16, TooLong::kCut, 2), whole(pair, 64, TooLong::kCut, 2);
  EXPECT_EQ(cut.counts().unlearnt, 1);
  EXPECT_EQ(cut.documents(), 0);
  EXPECT_EQ(whole.documents(), 2);
}

TEST(ConversationData, KeepsAShareForTestsAlwaysTheSame) {
  const ConversationData data("drawn", some_documents(), {}, 0.2, 16, TooLong::kCut);
  EXPECT_EQ(data.test().counts().documents, 12);
  EXPECT_EQ(data.train().counts().documents, 48);
  EXPECT_EQ(data.test_items(), data.test().counts().learnt);
  const ConversationData again("drawn", some_documents(), {}, 0.2, 16, TooLong::kCut);
  EXPECT_EQ(again.checksum(), data.checksum());
  const ConversationData own("drawn", some_documents(), std::vector{document(9, 4)}, 0.2, 16, TooLong::kCut);
  EXPECT_EQ(own.train().counts().documents, 60);
  EXPECT_EQ(own.test().counts().documents, 1);
  const ConversationData tested("drawn", some_documents(), {}, 1, 16, TooLong::kCut);
  EXPECT_EQ(tested.train_examples(), 0);
}

TEST(ConversationData, RefusesWhatHasNothingToLearn) {
  EXPECT_THROW(ConversationData("drawn", {document(1, 5, 5)}, {}, 0, 16, TooLong::kCut), UsageError);
  try {
    const ConversationData data("my.jsonl", {document(1, 50)}, {}, 0, 16, TooLong::kDrop);
    FAIL() << "its only document is too long";
  } catch (const UsageError& e) {
    EXPECT_NE(
        std::string(e.what()).find("my.jsonl: of 1 documents to train on nothing is learnt: 1 are longer"),
        std::string::npos)
        << e.what();
  }
  try {
    const ConversationData data("my.jsonl", {document(1, 5), document(2, 5)}, {}, 0.1, 16, TooLong::kCut);
    FAIL() << "none is left to test on";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("leaves none of 2 documents to test on: take a larger one, or --set "
                                         "data.validation_share=0"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace lpmm
