// Examples with several labels, and labels of words: their files, their batches, their scores; and what is
// left of an epoch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "lpmm/data/sentences/metrics.h"
#include "lpmm/data/sentences/sentence_data.h"
#include "lpmm/data/sentences/sentence_sets.h"
#include "lpmm/data/text_data.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/files/files.h"
#include "lpmm/files/json.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

class LabelsTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  SentenceSet load(const std::string& name, const std::string& between = {},
                   const std::string& columns = {}) const {
    return load_sentences({.set = "sentences",
                           .path = folder_ / name,
                           .test_path = folder_ / name,
                           .columns = columns,
                           .between = between});
  }
  void expect_refused(const std::function<void()>& body, const char* part) const {
    const std::string what = said(body);
    EXPECT_NE(what.find(part), std::string::npos) << what;
  }
  // A BERT tokenizer of letters, "ab" in two pieces.
  std::shared_ptr<const Tokenizer> letters() const {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string(1, c) + "\n";
    for (char c = 'a'; c <= 'z'; ++c) vocabulary += "##" + std::string(1, c) + "\n";
    write("vocab.txt", vocabulary);
    return load_tokenizer(folder_ / "vocab.txt");
  }
  Scratch folder_;
};
using Ids = std::vector<std::int32_t>;
using Names = std::vector<std::string>;

TEST_F(LabelsTest, SeveralOfATextAreListsPiecesOrColumns) {
  write("lists.jsonl",
        "{\"text\": \"a\", \"labels\": [\"x\", \"z\", \"x\"]}\n{\"text\": \"b\", \"labels\": []}\n"
        "{\"text\": \"c\", \"labels\": [\"y\"]}\n");
  write("pieces.csv", "text,tags\na,x; z;x\nb,\nc,y\n");
  write("columns.tsv", "text\tx\ty\tz\na\t1\t0\t1\nb\t0\t0\t0\nc\t0\t1\t0\n");
  for (const SentenceSet& set :
       {load("lists.jsonl"), load("pieces.csv", ";"), load("columns.tsv", "", "text,x+y+z"),
        load("lists.jsonl", "", "text,labels"), load("pieces.csv", ";", "text,tags")}) {
    EXPECT_EQ(set.tells, Tells::kClasses);
    EXPECT_EQ(set.labels, (Names{"x", "y", "z"}));
    EXPECT_EQ(set.metrics, (std::vector{Metric::kMicroF1, Metric::kExactMatch}));
    ASSERT_EQ(set.train.size(), 3U);
    EXPECT_EQ(set.train[0].labels, (Ids{0, 2}));
    EXPECT_EQ(set.train[1].labels, Ids{});
    EXPECT_EQ(set.test[2].labels, Ids{1});
  }
  write("bad.tsv", "text\tx\ty\na\t1\tno\n");
  expect_refused([&] { load("bad.tsv", "", "text,x+y"); },
                 "line 2 has y = \"no\": what tells of a class is 1 or 0");
  expect_refused([&] { load("bad.tsv", "", "text,x+w"); }, "has no column \"w\" (data.columns)");
  expect_refused([&] { load("lists.jsonl", ";"); },
                 "data.labels_between = \";\" is for labels in one column");
}

// Lists of class ids look alike, but none has an item twice.
TEST_F(LabelsTest, ListsOfOnesAndZerosHaveOneForEachClass) {
  write("mine.jsonl",
        "{\"text\": \"a\", \"labels\": [0, 1, 1, 0]}\n{\"text\": \"b\", \"labels\": [1.0, 0.0, 0, 0]}\n"
        "{\"text\": \"c\", \"labels\": [false, false, false, false]}\n");
  const SentenceSet set = load("mine.jsonl");
  EXPECT_EQ(set.tells, Tells::kClasses);
  EXPECT_EQ(set.labels, (Names{"0", "1", "2", "3"}));  // the last one too, which no row has
  EXPECT_EQ(set.train[0].labels, (Ids{1, 2}));
  EXPECT_EQ(set.train[1].labels, Ids{0});
  EXPECT_EQ(set.test[2].labels, Ids{});
  write("two.jsonl", "{\"text\": \"a\", \"labels\": [0, 1]}\n{\"text\": \"b\", \"labels\": [1, 0]}\n");
  EXPECT_EQ(load("two.jsonl").train[0].labels, Ids{1});
  write("ids.jsonl", "{\"text\": \"a\", \"labels\": [1, 0]}\n{\"text\": \"b\", \"labels\": [1]}\n");
  EXPECT_EQ(load("ids.jsonl").train[0].labels, (Ids{1, 0}));
  write("test.jsonl", "{\"text\": \"a\", \"labels\": [0, 1, 2, 0]}\n");
  const auto tested = [&] {
    load_sentences({.set = "sentences", .path = folder_ / "mine.jsonl", .test_path = folder_ / "test.jsonl"});
  };
  expect_refused(tested, "test.jsonl: line 1 has labels = \"2\"");
  write("test.jsonl", "{\"text\": \"a\", \"labels\": [0, 1]}\n");
  expect_refused(tested, "line 1 has 2 items in labels, where others have 4");
}

TEST_F(LabelsTest, WhatHoldsNoLabelsSaysHowToWriteThem) {
  for (const char* row : {R"({"tokens": ["a"], "ner_tags": [null]})", R"({"tokens": [null], "tags": ["O"]})",
                          R"({"text": "a", "labels": ["b", null]})"}) {
    write("null.jsonl", row);
    expect_refused([&] { load("null.jsonl"); }, "null.jsonl: line 1 has null in its list ");
  }
  write("unused.jsonl",
        "{\"text\": \"a\", \"label\": 1, \"more\": [null]}\n{\"text\": \"a\", \"label\": 0}\n");
  EXPECT_EQ(load("unused.jsonl").train.size(), 2U);
  write("several.csv", "text,labels\na,x;y\n");
  expect_refused([&] { load("several.csv"); }, "data.labels_between = \";\"; where it has one: ");
}

TEST_F(LabelsTest, SeveralAreTargetsAndScored) {
  SentenceSet set = load_sentences({"sentences"});
  set.tells = Tells::kClasses;
  set.labels = {"x", "y"};
  set.metrics = {Metric::kMicroF1, Metric::kExactMatch};
  set.train = set.test = {{.first = "a", .second = {}, .labels = {1}},
                          {.first = "b", .second = {}, .labels = {0, 1}},
                          {.first = "c", .second = {}}};
  const SentenceData data(set, letters(), {8});
  EXPECT_EQ(data.classes(), 2);
  Batch batch;
  data.make_test_batch(0, 3, batch);
  EXPECT_EQ(batch.targets, (std::vector<float>{0, 1, 1, 1, 0, 0}));
  EXPECT_TRUE(batch.labels.empty());
  // Told: both, the first, none. Two are right, one is missing, one is too many.
  const auto scores = data.score(std::vector<float>{3, 0.1F, 1, -1, -1, 0});
  EXPECT_DOUBLE_EQ(scores.at(0).second, 2.0 * 2 / (2 * 2 + 1 + 1));
  EXPECT_DOUBLE_EQ(scores.at(1).second, 1.0 / 3);
  // Named and numbered as a model has them.
  data.numbered({"y", "x"}, {1, 0}).make_test_batch(0, 2, batch);
  EXPECT_EQ(batch.targets, (std::vector<float>{1, 0, 1, 1}));
  // One label each is the case of several that are one.
  SentenceSet one{.name = "one", .labels = {"x", "y"}, .test = {{.first = "a", .second = {}, .label = 1}}};
  one.tell_several();
  EXPECT_EQ(one.test[0].labels, Ids{1});
}

TEST_F(LabelsTest, WordsComeFromLinesOrLists) {
  write("train.conll",
        "-DOCSTART- -X- O\n\nab NN B-X\nc VB O\n\n\r\nd NN\tI-X\r\n");  // the word first, its label last
  write("lists.jsonl",
        "{\"tokens\": [\"ab\", \"c\"], \"ner_tags\": [\"B-X\", \"O\"]}\n{\"tokens\": [], \"ner_tags\": []}\n"
        "{\"tokens\": [\"d\"], \"ner_tags\": [\"I-X\"]}\n");
  write("other.jsonl",
        "{\"w\": [\"ab\", \"c\"], \"l\": [\"B-X\", \"O\"]}\n{\"w\": [\"d\"], \"l\": [\"I-X\"]}\n");
  for (const SentenceSet& set : {load("train.conll"), load("lists.jsonl"), load("other.jsonl", "", "w,l")}) {
    EXPECT_EQ(set.tells, Tells::kWords);
    EXPECT_EQ(set.labels, (Names{"B-X", "I-X", "O"}));
    EXPECT_EQ(set.metrics, (std::vector{Metric::kEntityF1, Metric::kAccuracy}));
    ASSERT_EQ(set.train.size(), 2U);
    EXPECT_EQ(set.train[0].words, (Names{"ab", "c"}));
    EXPECT_EQ(set.train[0].labels, (Ids{0, 2}));
    EXPECT_EQ(set.test[1].labels, Ids{1});
  }
  write("bad.conll", "a B-X\nb\n");
  expect_refused([&] { load("bad.conll"); }, "bad.conll: line 2 has \"b\", and no label behind it");
  expect_refused([&] { load("train.conll", "", "w,l"); }, "is for tables and lists");
  write("test.conll", "ab B-Y\n");
  expect_refused(
      [&] {
        load_sentences(
            {.set = "sentences", .path = folder_ / "train.conll", .test_path = folder_ / "test.conll"});
      },
      "line 1 has the label \"B-Y\", which is none of B-X, I-X, O");
  write("uneven.jsonl", "{\"tokens\": [\"a\"], \"tags\": [\"O\", \"O\"]}\n");
  expect_refused([&] { load("uneven.jsonl"); }, "has 1 words and 2 labels");
  write("odd.conll", "# of news\na B-X\nb O\n");
  expect_refused([&] { load("odd.conll"); }, "line 2 has 2 columns, but line 1 has 3");
  write("empty.conll", "a\t\tB-X\nb\tN\tO\n");
  EXPECT_EQ(load("empty.conll").train.at(0).words, (Names{"a", "b"}));
  write("places.conll", "1 a B-X\n2 b O\n\n1 c O\n");
  expect_refused([&] { load("places.conll"); }, "its lines begin with numbers");
  write("numbers.conll", "a NOUN\nb VERB\n");  // not of entities
  EXPECT_EQ(load("numbers.conll").metrics, std::vector{Metric::kAccuracy});
}

TEST_F(LabelsTest, WordsThatAreNotCountedHaveNoLabel) {
  write("mine.jsonl", R"({"tokens": ["a", "b", "c"], "ner_tags": [-100, 1, 0]})");
  const SentenceSet set = load("mine.jsonl");
  EXPECT_EQ(set.labels, (Names{"0", "1"}));
  EXPECT_EQ(set.train.at(0).labels, (std::vector<std::int32_t>{-1, 1, 0}));
}

TEST_F(LabelsTest, WhatIsNoListIsNotTakenForNone) {
  const auto refused = [&](const std::string& second, const char* part) {
    write("mine.jsonl", "{\"text\": \"a\", \"labels\": [\"x\", \"y\"]}\n" + second + "\n");
    expect_refused([&] { load("mine.jsonl"); }, part);
  };
  refused(R"({"text": "b", "labels": "z"})", "line 2 has no list in labels, as others have");
  refused(R"({"text": "b", "labels": {"x": 1}})", "line 2 has no list in labels, as others have");
  write("mine.jsonl", "{\"text\": \"a\", \"labels\": [0.25, 0.75]}\n");
  expect_refused([&] { load("mine.jsonl"); }, "hold the number 0.25: they are of labels, or of 1 or 0");
  write("mine.jsonl", R"({"text": "b", "labels": null})"
                      "\n"
                      R"({"text": "a", "labels": ["x", "y"]})");
  EXPECT_TRUE(load("mine.jsonl").train[0].labels.empty());
}

TEST_F(LabelsTest, SentencesOfWordsThatCannotBeReadAreLeftOut) {
  write("train.conll", "a B-X\nb\nc O\n\nd O\ne B-X\n\nf X O\n\n\xFF O\ng O\n");
  write("train.jsonl", R"({"tokens": ["d", "e"], "tags": ["O", "B-X"]}
{"tokens": ["a"], "tags": ["O", "O"]}
{"tokens": "a", "tags": ["O"]}
{)");
  for (const auto& [name, broken] : {std::pair("train.conll", 3), {"train.jsonl", 3}}) {
    testing::internal::CaptureStderr();
    const SentenceSet set = load_sentences(
        {.set = "sentences", .path = folder_ / name, .test_path = folder_ / name, .skips_broken = true});
    const std::string told = testing::internal::GetCapturedStderr();
    ASSERT_EQ(set.train.size(), 1U) << name;
    EXPECT_EQ(set.train[0].words, (Names{"d", "e"}));
    EXPECT_NE(told.find(fmt::format("{} of {} cannot be read", broken, broken + 1)), std::string::npos)
        << told;
  }
}

TEST_F(LabelsTest, AWordIsToldAtItsFirstToken) {
  write("train.conll", "ab B-X\nc O\nd I-X\n\ne O\n");
  const SentenceData data(load("train.conll"), letters(), {4, 8});
  EXPECT_STREQ(data.unit(), "words");
  EXPECT_EQ(data.test_items(), 4);
  Batch batch;
  data.make_test_batch(0, 2, batch);
  ASSERT_EQ(batch.length, 8);
  EXPECT_EQ(Ids(batch.labels.begin(), batch.labels.begin() + 8), (Ids{-1, 0, -1, 2, 1, -1, -1, -1}));
  EXPECT_EQ(Ids(batch.labels.begin() + 8, batch.labels.end()), (Ids{-1, 2, -1, -1, -1, -1, -1, -1}));
  // The rows of words only: B-X, O, I-X and O are told as B-X, O, O and O.
  const auto scores = data.score(std::vector<float>{1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1});
  EXPECT_DOUBLE_EQ(scores.at(0).second, 2.0 / 3);  // one of two entities
  EXPECT_DOUBLE_EQ(scores.at(1).second, 3.0 / 4);
  // All words of a step count together; those that are cut off do not count.
  const SentenceData cut(load("train.conll"), letters(), {4});
  EXPECT_EQ(cut.cut(), 2);  // the same sentence of both parts
  EXPECT_EQ(cut.test_items(), 2);
  cut.make_batch({1, 2, 2}, 0, 0, 0, batch);
  EXPECT_EQ(batch.step_labels, 2);
}

TEST(Entities, AreThoseOfSeqeval) {
  const Json cases = parse_json(read_text(LPMM_SOURCE_DIR "/tests/golden/entities.json", 1 << 20));
  ASSERT_GT(cases.size(), 50U);
  for (const Json& one : cases) {
    const auto sequences = [&](const char* key) {
      TagSequences all;
      for (const Json& sentence : one[key]) {
        all.emplace_back();
        for (const Json& tag : sentence) all.back().push_back(tag.get_ref<const std::string&>());
      }
      return all;
    };
    EXPECT_NEAR(entity_f1(sequences("told"), sequences("tags")), one["f1"].get<double>(), 1e-12)
        << one.dump();
  }
}

// Batches of 4 in two parts, of 10 examples: the third has the two that are left.
TEST_F(LabelsTest, TheLastBatchHasWhatIsLeftOfAnEpoch) {
  SentenceSet set{.name = "drawn", .labels = {"0", "1"}};
  for (int i = 0; i < 10; ++i) set.train.push_back({std::string(1, static_cast<char>('a' + i)), "", i % 2});
  const SentenceData data(set, letters(), {8});
  const BatchPlan drop{7, 4, 2}, keep{7, 4, 2, false, true};
  EXPECT_EQ(steps_per_epoch(data, 4), 2);
  EXPECT_EQ(steps_per_epoch(data, 4, true), 3);
  EXPECT_EQ(steps_per_epoch(data, 11, true), 1);
  std::map<std::int32_t, int> seen;
  for (std::int64_t index = 0; index < 3; ++index) {
    for (int k = 0; k < 2; ++k) {
      Batch batch, usual;
      data.make_batch(keep, 5, index, k, batch);
      ASSERT_EQ(batch.count, 2);
      EXPECT_EQ(batch.step_labels, index < 2 ? 0 : 2);
      EXPECT_EQ(batch.labels.size(), index < 2 || k == 0 ? 2U : 0U);
      for (std::size_t i = 0; i < batch.labels.size(); ++i) ++seen[batch.tokens[8 * i + 1]];
      if (index == 2) continue;
      data.make_batch(drop, 5, index, k, usual);
      EXPECT_EQ(batch.tokens, usual.tokens);
    }
  }
  EXPECT_EQ(seen.size(), 10U);
  for (const auto& [id, times] : seen) EXPECT_EQ(times, 1) << id;
  // In a text of blocks, the labels that fill up a batch count for nothing.
  write("text.txt", std::string(2 * 10 * 7 + 1, 'x'));
  TextOptions options;
  options.path = folder_ / "text.txt";
  options.tokenizer = "bytes";
  options.validation_share = 0;
  options.length = 14;
  options.blocks = true;
  const TextData text(options);
  ASSERT_EQ(text.train_examples(), 10);
  Batch batch;
  text.make_batch(keep, 0, 2, 1, batch);
  EXPECT_EQ(batch.step_labels, 2 * 14);
  EXPECT_EQ(batch.labels, Ids(28, -1));
  text.make_batch(keep, 0, 2, 0, batch);
  EXPECT_EQ(batch.labels, Ids(28, 'x'));
}

}  // namespace
}  // namespace lpmm
