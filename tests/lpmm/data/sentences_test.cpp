// Sets of sentences, their batches, and what they are scored by.
#include <gtest/gtest.h>

#include <cmath>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "lpmm/base/error.h"
#include "lpmm/data/scores.h"
#include "lpmm/data/sentences/metrics.h"
#include "lpmm/data/sentences/sentence_data.h"
#include "lpmm/data/sentences/sentence_sets.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

void expect_said(const std::function<void()>& body, const char* part) {
  const std::string what = said(body);
  EXPECT_NE(what.find(part), std::string::npos) << what;
}

class SentencesTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  SentenceSet load() const { return load_sentences({"sentences", folder_.path()}); }
  // A BERT tokenizer of letters.
  std::shared_ptr<const Tokenizer> letters() const {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string(1, c) + "\n";
    write("vocab.txt", vocabulary);
    return load_tokenizer(folder_ / "vocab.txt");
  }
  Scratch folder_;
};

TEST(Scores, AreARowEach) {
  constexpr Metric kAll[] = {Metric::kAccuracy, Metric::kMatthews, Metric::kF1, Metric::kPearson,
                             Metric::kSpearman};
  const std::vector<std::string_view> names = {"accuracy", "matthews", "f1", "pearson", "spearman"};
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(to_string(kAll[i]), names[i]);
  std::set<std::string_view> known;
  for (const ScoreKind& kind : kScores) EXPECT_TRUE(known.insert(kind.name).second) << kind.name;
  EXPECT_EQ(score_text("accuracy", 0.9123), "accuracy 91.23 %");
  EXPECT_EQ(score_text("matthews", -0.5), "MCC -50.00");
  EXPECT_EQ(score_text("of another version", 3), "of another version 3.00");
}

TEST_F(SentencesTest, ALengthWithoutRoomForASentenceIsRefused) {
  write("train.tsv", "label\tsentence1\tsentence2\nyes\ta b\tc\nno\td\te\n");
  write("dev.tsv", "sentence1\tsentence2\tlabel\na\tb\tno\n");
  const SentenceSet set = load();
  expect_said([&] { SentenceData(set, letters(), {3}); },
              "data.length = 3: the tokenizer puts 3 tokens around a pair");
  const SentenceData data(set, letters(), {4});
  EXPECT_NO_THROW(data.check_types(2));
  EXPECT_NO_THROW(data.check_types(0));  // a model that reads none
  EXPECT_THROW(data.check_types(1), UsageError);
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"no", "yes"}));
}

TEST_F(SentencesTest, AFolderSaysWhatItHolds) {
  write("train.tsv", "label\tsentence1\tsentence2\nyes\ta b\tc\nno\td \te f\r\nyes\tg\th\n");
  write("dev.tsv", "sentence1\tsentence2\tlabel\na\tb\tno\n");
  const SentenceSet set = load();
  EXPECT_TRUE(set.has_pairs);
  EXPECT_FALSE(set.is_number());
  EXPECT_EQ(set.labels, (std::vector<std::string>{"no", "yes"}));
  ASSERT_EQ(set.train.size(), 3U);
  EXPECT_EQ(set.train[1].first, "d");
  EXPECT_EQ(set.train[1].second, "e f");
  EXPECT_EQ(set.train[0].label, 1);
  EXPECT_EQ(set.test[0].label, 0);
  EXPECT_EQ(set.metrics, (std::vector<Metric>{Metric::kAccuracy, Metric::kF1, Metric::kMatthews}));
  write("train.tsv", "sentence\tlabel\na\t0\nb\t1\nc\t2\n");
  write("dev.tsv", "sentence\tlabel\na\t2\n");
  EXPECT_EQ(load().metrics, (std::vector<Metric>{Metric::kAccuracy}));
  write("train.tsv", "score\tsentence\n0.5\ta\n-2e1\tb\n");
  write("dev.tsv", "score\tsentence\n1\ta\n");
  EXPECT_TRUE(load().is_number());
  EXPECT_EQ(load().train[1].score, -20);
  EXPECT_EQ(load().metrics, (std::vector<Metric>{Metric::kSpearman, Metric::kPearson}));
}

// Names that end with numbers sort by these, where they are alike before them.
TEST_F(SentencesTest, NumberedClassesAreInTheOrderOfTheirNumbers) {
  write("dev.tsv", "sentence\tlabel\na\t2\n");
  const auto labels = [&](const std::vector<std::string>& names) {
    std::string lines = "sentence\tlabel\n";
    for (const std::string& name : names) lines += "a\t" + name + "\n";
    write("train.tsv", lines);
    write("dev.tsv", lines);
    const SentenceSet set = load();
    for (const SentenceExample& e : set.train)
      EXPECT_EQ(set.labels[static_cast<std::size_t>(e.label)], names[static_cast<std::size_t>(e.line) - 2]);
    return set.labels;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(labels({"10", "2", "0", "11"}), (Names{"0", "2", "10", "11"}));
  EXPECT_EQ(labels({"LABEL_10", "LABEL_9"}), (Names{"LABEL_9", "LABEL_10"}));
  EXPECT_EQ(labels({"b9", "b10", "a10"}), (Names{"a10", "b10", "b9"}));
  EXPECT_EQ(labels({"9", "10", "ten"}), (Names{"10", "9", "ten"}));
}

// Users have a CSV or JSON of their own, with columns of other names and more of them.
TEST_F(SentencesTest, ATableOfOnesOwnIsRead) {
  write("mine.csv", "id,Text,stars\n1,\"good, fine\",5\n2,bad,1\n3,so so,3\n4,nice,5\n");
  const SentenceSource mine{.set = "sentences", .path = folder_ / "mine.csv", .columns = "text, stars"};
  const SentenceSet set = load_sentences(mine);
  EXPECT_EQ(set.labels, (std::vector<std::string>{"1", "3", "5"}));
  EXPECT_EQ(set.train.size(), 3U);  // one is held out
  EXPECT_EQ(set.test.size(), 1U);
  std::set<std::string> texts;
  for (const auto* part : {&set.train, &set.test}) {
    for (const SentenceExample& e : *part) texts.insert(e.first);
  }
  EXPECT_EQ(texts, (std::set<std::string>{"bad", "good, fine", "nice", "so so"}));
  EXPECT_EQ(load_sentences(mine).test[0].first, set.test[0].first);  // the same for the same file
  // A file to test on, in another format and order.
  write("other.jsonl", "{\"stars\": 3, \"text\": \"x\"}\n");
  SentenceSource with_test = mine;
  with_test.test_path = folder_ / "other.jsonl";
  EXPECT_EQ(load_sentences(with_test).train.size(), 4U);
  EXPECT_EQ(load_sentences(with_test).test[0].label, 1);
  // Pairs by usual names; numbers with fractions are numbers.
  write("train.csv", "premise,hypothesis,label\na,b,0.5\nc,d,1\n");
  write("validation.tsv", "label\tpremise\thypothesis\n0\te\tf\n");
  const SentenceSet pairs = load();
  EXPECT_TRUE(pairs.has_pairs && pairs.is_number());
  EXPECT_EQ(pairs.test[0].second, "f");
  // A test set beside it, asked for.
  expect_said([&] { load_sentences({"sentences", folder_.path(), "test"}); }, "has no test (.tsv");
  write("test.csv", "premise,hypothesis,label\ng,h,2\n");
  EXPECT_EQ(load_sentences({"sentences", folder_.path(), "test"}).test[0].score, 2);
  testing::internal::CaptureStderr();
  load();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("validation.tsv; not used: mine.csv, other.jsonl, test.csv\n"), std::string::npos)
      << told;
}

TEST_F(SentencesTest, ATableThatIsNotUnderstoodSaysWhatToDo) {
  write("mine.csv", "comment,stars\na,5\nb,1\n");
  const auto refused = [&](const SentenceSource& source, const char* part) {
    expect_said([&] { load_sentences(source); }, part);
  };
  SentenceSource mine{.set = "sentences", .path = folder_ / "mine.csv"};
  refused(
      mine,
      "has no column \"label\", but \"comment, stars\"; say which to read: data.columns = \"TEXT,LABEL\"");
  mine.columns = "comment,rating";
  refused(mine, "has no column \"rating\" (data.columns)");
  mine.columns = "comment";
  refused(mine, "two names are expected");
  mine.columns = "comment,stars";
  mine.test_path = folder_ / "nowhere.csv";
  refused(mine, "there is no such .tsv, .csv, .jsonl or .json (data.test_path)");
  refused({.set = "sst2", .columns = "a,b"}, "data.columns is for sentences of your own");
  write("mine.jsonl", "{\"messages\": [], \"label\": 1}\n");
  refused({.set = "sentences", .path = folder_ / "mine.jsonl"}, "(messages are lists or objects)");
  write("mine.csv", "text,label\na,\nb,1\n");
  refused({.set = "sentences", .path = folder_ / "mine.csv"},
          "line 2 has no label: write it, or take the row out");
  refused({.set = "sentences", .path = folder_ / "vocab.parquet"}, "no such file or folder of sentences");
}

TEST_F(SentencesTest, RowsThatCannotBeReadAreLeftOutWhereThatIsAskedFor) {
  const std::string bad = "\n ,x\nd\n\"e,x\nf,\n\xFF,x\n";
  write("mine.csv", "text,label\na,x\nb,y" + bad + "c,y\n");
  write("test.csv", "text,label\na,x\nb,z\nc,y\n");
  SentenceSource mine{.set = "sentences",
                      .path = folder_ / "mine.csv",
                      .test_path = folder_ / "test.csv",
                      .skips_broken = true};
  testing::internal::CaptureStderr();
  const SentenceSet set = load_sentences(mine);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(set.train.size(), 3U);
  EXPECT_EQ(set.train[2].line, 9);
  EXPECT_EQ(set.test.size(), 2U);
  for (const std::string part :
       {"mine.csv: 5 of 8 cannot be read and are left out", "line 5 has 1 cells", "line 6 opens a quote",
        "line 8 is not UTF-8", "line 4 has an empty sentence", "line 7 has no label",
        "test.csv: 1 of 3 cannot", "line 3 has the label \"z\""}) {
    EXPECT_NE(told.find(part), std::string::npos) << told;
  }
  write("mine.csv", "text,label\na,x\nb,y\nc,y\n");
  mine.skips_broken = false;
  mine.test_path = folder_ / "mine.csv";
  const SentenceSet whole = load_sentences(mine);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(set.train[i].first, whole.train[i].first);
  write("mine.csv", "text,label\na\nb\n");
  mine.skips_broken = true;
  expect_said([&] { load_sentences(mine); }, "no row can be read");
}

TEST_F(SentencesTest, WhatIsWrongIsNamedWithItsLine) {
  expect_said([&] { load(); }, "has no train (.tsv, .csv, .jsonl or .json");
  write("dev.tsv", "sentence\tlabel\na\t0\n");
  const auto expect_refused = [&](const std::string& train, const char* part) {
    write("train.tsv", train);
    expect_said([&] { load(); }, part);
  };
  expect_refused("sentence\n", "has no column \"label\", but \"sentence\"; say which to read: data.columns");
  expect_refused("sentence\tlabel\n", "holds no sentence");
  expect_refused("sentence\tlabel\na\t0\nb\n", "line 3 has 1 cells, but the first line names 2 columns");
  expect_refused("sentence\tlabel\n \t0\n", "line 2 has an empty sentence: write it, or");
  expect_refused("sentence\tlabel\na\t0\nb\t0\n", "have one label");
  expect_refused("sentence\tlabel\na\t0\n\xC3\xA9 \xE9\t1\n",
                 "train.tsv: line 3 is not UTF-8 from byte 3 on");
  expect_refused("sentence\tlabel\na\t0\nb\t\xE9\n", "train.tsv: line 3 is not UTF-8 from byte 2 on");
  expect_refused("sentence\tscore\na\t0\nb\tnan\n", "line 3 has the score \"nan\"");
  expect_refused("sentence\tscore\na\t\n",
                 "line 2 has no score: write it, or take the row out; data.skip_broken");
  // One value that is none does not make classes of the others.
  expect_refused("sentence\tlabel\na\t0.5\nb\t0.25\nc\tnan\n", "line 4 has the score \"nan\"");
  expect_refused("sentence\tlabel\na\t1\nb\t2\n", "has the label \"0\", which is none of 1, 2");
  expect_said([&] { load_sentences({"sst3"}); }, "no set of sentences is called sst3");
  expect_said([&] { load_sentences({"sst2", folder_.path(), std::string(kTestFile)}); }, "are not public");
  expect_said([&] { load_sentences({"sst2", folder_ / "nowhere"}); }, "no such folder");
  expect_refused("", "train.tsv: is empty");
  expect_refused("\n", "train.tsv: is empty");
  std::filesystem::remove(folder_ / "train.tsv");
  for (const auto& [bytes, part] : {std::pair("\x1f\x8b nothing", "train.tsv.gz: cannot be read"),
                                    {"", "train.tsv.gz: is no gzip file"},
                                    {"sentence\tlabel\n", "train.tsv.gz: is no gzip file"}}) {
    write("train.tsv.gz", bytes);
    expect_said([&] { load(); }, part);
  }
}

TEST_F(SentencesTest, ABatchIsFilledUpToItsLongest) {
  write("train.tsv", "sentence1\tsentence2\tscore\na b\tc\t1\na b c d e f g\th\t2\n");
  write("dev.tsv", "sentence1\tsentence2\tscore\na\tb\t3\n");
  const SentenceData data(load(), letters(), {8, 16, 24});
  Batch batch;
  data.make_batch({1, 2, 1}, 0, 0, 0, batch);
  EXPECT_EQ(batch.count, 2);
  EXPECT_EQ(batch.length, 16);
  const std::size_t shorter = batch.lengths[0] == 6 ? 0 : 1;
  EXPECT_EQ(batch.lengths[1 - shorter], 11);
  const std::vector<std::int32_t> ids(batch.tokens.begin() + static_cast<std::ptrdiff_t>(16 * shorter),
                                      batch.tokens.begin() + static_cast<std::ptrdiff_t>(16 * shorter + 8));
  EXPECT_EQ(ids, (std::vector<std::int32_t>{2, 5, 6, 3, 7, 3, 0, 0}));  // [CLS] a b [SEP] c [SEP]
  const std::vector<std::int32_t> types(batch.types.begin() + static_cast<std::ptrdiff_t>(16 * shorter),
                                        batch.types.begin() + static_cast<std::ptrdiff_t>(16 * shorter + 8));
  EXPECT_EQ(types, (std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(batch.targets[shorter], 1);
  EXPECT_TRUE(batch.labels.empty());
  // Longer ones are cut.
  EXPECT_EQ(data.cut(), 0);
  const SentenceData cut(load(), letters(), {8});
  EXPECT_EQ(cut.cut(), 1);
  cut.make_batch({1, 2, 1}, 0, 0, 0, batch);
  EXPECT_EQ(*std::ranges::max_element(batch.lengths), 8);
  // Apart, each sentence is an example.
  const SentenceData apart(load(), letters(), {8, 16}, true);
  EXPECT_EQ(apart.test_examples(), 2);
  apart.make_test_batch(0, 2, batch);
  EXPECT_EQ(batch.lengths, (std::vector<std::int32_t>{3, 3}));
  expect_said([&] { SentenceData(load(), std::shared_ptr<const Tokenizer>(make_byte_tokenizer()), {8}); },
              "data.tokenizer");
}

// Every example once per epoch, those of about a length together, the same order for the same seed.
TEST_F(SentencesTest, AnEpochTakesEveryExampleOnce) {
  SentenceSet set{.name = "drawn", .labels = {"0", "1"}, .metrics = {Metric::kAccuracy}};
  for (int i = 0; i < 203; ++i) {
    std::string text;
    for (int n = 0; n <= i % 29; ++n) text += "a ";
    set.train.push_back({text + static_cast<char>('a' + i % 26), "", i % 2, 0});
  }
  set.test = {{"a", "", 1, 0}};
  const SentenceData data(set, letters(), {8, 16, 24, 40});
  const BatchPlan plan{7, 20, 2};
  std::map<std::int32_t, int> lengths;
  std::set<std::vector<std::int32_t>> orders;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    lengths.clear();
    std::int64_t filled = 0, examples = 0;
    std::vector<std::int32_t> order;
    for (std::int64_t index = 0; index < data.train_examples() / plan.batch; ++index) {
      int of_step = 0;
      for (int k = 0; k < 2; ++k) {
        Batch batch, again;
        data.make_batch(plan, epoch, index, k, batch);
        data.make_batch(plan, epoch, index, k, again);
        EXPECT_EQ(batch.tokens, again.tokens);
        EXPECT_EQ(batch.count, 10);
        EXPECT_TRUE(k == 0 || batch.length == of_step);
        of_step = batch.length;
        filled += batch.length * batch.count;
        examples += batch.count;
        for (const std::int32_t n : batch.lengths) ++lengths[n];
        order.insert(order.end(), batch.lengths.begin(), batch.lengths.end());
      }
    }
    EXPECT_EQ(examples, 200);
    for (const auto& [n, count] : lengths) EXPECT_LE(count, 7) << n;  // 203 = 7 * 29
    EXPECT_LT(filled, 200 * 28);                                      // 40 each where nothing is sorted
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 2U);
}

TEST_F(SentencesTest, ScoresComeFromOutputs) {
  SentenceSet set{
      .name = "pairs", .has_pairs = true, .tells = Tells::kNumber, .metrics = {Metric::kSpearman}};
  set.train = set.test = {{"a", "b", 0, 0.1F}, {"c", "d", 0, 0.9F}, {"e", "f", 0, 0.5F}};
  const SentenceData told(set, letters(), {8}), apart(set, letters(), {8}, true);
  const std::vector<float> numbers{3, 9, 4}, embeddings{1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 1, 1};
  EXPECT_NEAR(told.score(numbers)[0].second, 1, 1e-12);
  EXPECT_EQ(told.score(numbers)[0].first, "spearman");
  EXPECT_NEAR(apart.score(embeddings)[0].second, 1, 1e-12);  // cosines 0, 1, 0.7
  SentenceSet classes{.name = "c", .labels = {"0", "1"}, .metrics = {Metric::kAccuracy, Metric::kMatthews}};
  classes.train = classes.test = {{"a", "", 0, 0}, {"b", "", 1, 0}};
  const std::vector<float> logits{1, 2, 0, 3};
  EXPECT_EQ(SentenceData(classes, letters(), {8}).score(logits)[0].second, 0.5);
  expect_said([&] { SentenceData(classes, letters(), {8}, true); }, "only pairs with a score");
}

TEST(Metrics, AreThoseOfTheTextbooks) {
  const std::vector<std::int32_t> is{1, 1, 1, 1, 0, 0, 0, 0, 0, 0}, told{1, 1, 1, 0, 1, 0, 0, 0, 0, 0};
  EXPECT_DOUBLE_EQ(accuracy(told, is), 0.8);
  EXPECT_DOUBLE_EQ(f1(told, is), 0.75);
  EXPECT_NEAR(matthews(told, is), (3 * 5 - 1.0) / std::sqrt(4.0 * 4 * 6 * 6), 1e-12);
  const std::vector<std::int32_t> none(10, 0);
  EXPECT_EQ(f1(none, is), 0);
  EXPECT_EQ(matthews(none, is), 0);
  const std::vector<double> a{1, 2, 3, 4}, b{1, 4, 9, 16}, flat(4, 2.0), ties{1, 2, 2, 3};
  EXPECT_NEAR(pearson(a, b), 0.9843740386976974, 1e-12);
  EXPECT_NEAR(spearman(a, b), 1, 1e-12);
  EXPECT_EQ(pearson(flat, a), 0);
  EXPECT_NEAR(spearman(ties, a), 0.9486832980505138, 1e-12);  // scipy.stats.spearmanr
}

}  // namespace
}  // namespace lpmm
