// Parallel text: files and what is wrong with them, batches of pairs, BLEU as sacreBLEU has it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "lpmm/base/error.h"
#include "lpmm/data/pairs/bleu.h"
#include "lpmm/data/pairs/pair_data.h"
#include "lpmm/data/pairs/pair_sets.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

TEST(Bleu, IsThatOfSacreBleu) {
  const auto stored = nlohmann::json::parse(std::ifstream(LPMM_SOURCE_DIR "/tests/golden/bleu.json"));
  for (const auto& c : stored["lines"]) {
    const auto line = c["line"].get<std::string>();
    EXPECT_EQ(tokens_13a(line), c["tokens"].get<std::vector<std::string>>()) << line;
  }
  ASSERT_GE(stored["corpora"].size(), 9U);
  for (const auto& c : stored["corpora"]) {
    const auto told = c["told"].get<std::vector<std::string>>(), is = c["is"].get<std::vector<std::string>>();
    EXPECT_NEAR(bleu(told, is), c["bleu"].get<double>(), 1e-6) << told[0];
  }
}

class PairsTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(folder_ / "set");
    write_text(folder_ / ("set/" + name), text);
  }
  // Letters, of which both languages have as many.
  void write_set() const {
    std::string source, target;
    for (int i = 0; i < 60; ++i) {
      source += std::string(static_cast<std::size_t>(1 + i % 13), static_cast<char>('a' + i % 7)) + "\n";
      target += std::string(static_cast<std::size_t>(1 + i % 5), static_cast<char>('A' + i % 7)) + "\n";
    }
    write("train.en", source);
    write("train.de", target);
    write("dev.en", "ab\nabc\r\n");
    write("dev.de", "AB\n  ABCDEFGHIJ\n");
  }
  PairSet load(const char* test_file = "dev") const {
    return load_pairs("pairs", folder_ / "set", "en", "de", test_file);
  }
  Scratch folder_;
  std::unique_ptr<Tokenizer> bytes_ = make_byte_tokenizer();
};

TEST_F(PairsTest, ASideIsReadAndAskedFromItsStartToItsEnd) {
  write_set();
  const PairData data(load(), *bytes_, {1, 2}, {4, 8, 16});
  EXPECT_EQ(data.train_examples(), 60);
  EXPECT_EQ(data.test_sources(), (std::vector<std::string>{"ab", "abc"}));
  EXPECT_EQ(data.test_targets(), (std::vector<std::string>{"AB", "ABCDEFGHIJ"}));
  Batch batch;
  data.make_test_batch(0, 1, batch);
  EXPECT_EQ(batch.length, 4);
  EXPECT_EQ(batch.source, (std::vector<std::int32_t>{'a', 'b', 2, 2}));
  EXPECT_EQ(batch.lengths, (std::vector<std::int32_t>{3}));
  EXPECT_EQ(batch.tokens, (std::vector<std::int32_t>{1, 'A', 'B', 2}));
  EXPECT_EQ(batch.labels, (std::vector<std::int32_t>{'A', 'B', 2, -1}));
  data.make_test_batch(0, 2, batch);
  EXPECT_EQ(batch.length, 16);  // the length of the longer target
  EXPECT_EQ(batch.lengths, (std::vector<std::int32_t>{3, 4}));
}

// Every example once an epoch, each step's labels counted over its microbatches, of one length.
TEST_F(PairsTest, AnEpochHasEveryPairOnce) {
  write_set();
  const PairData data(load(), *bytes_, {1, 2}, {4, 8, 16});
  const BatchPlan plan{.seed = 3, .batch = 6, .microbatches = 3};
  std::multiset<std::vector<std::int32_t>> seen;
  std::int64_t longest = 0;
  for (std::int64_t step = 0; step < 10; ++step) {
    Batch parts[3];
    std::int64_t labels = 0;
    for (int k = 0; k < 3; ++k) {
      data.make_batch(plan, 0, step, k, parts[k]);
      EXPECT_EQ(parts[k].count, 2);
      EXPECT_EQ(parts[k].length, parts[0].length);
      for (const std::int32_t label : parts[k].labels) labels += label >= 0 ? 1 : 0;
      for (std::size_t i = 0; i < 2; ++i) {
        const auto at = parts[k].source.begin() + static_cast<std::ptrdiff_t>(i) * parts[k].length;
        seen.emplace(at, at + parts[k].lengths[i]);
      }
    }
    for (const Batch& part : parts) EXPECT_EQ(part.step_labels, labels);
    longest += parts[0].length == 16 ? 1 : 0;
  }
  std::multiset<std::vector<std::int32_t>> all;
  for (int i = 0; i < 60; ++i) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(1 + i % 13), 'a' + i % 7);
    ids.push_back(2);
    all.insert(ids);
  }
  EXPECT_EQ(seen, all);
  EXPECT_LT(longest, 7);  // short ones are together
}

TEST_F(PairsTest, WhatIsOnlyTestedNeedsNothingToTrainOn) {
  write_set();
  std::filesystem::remove(folder_ / "set/train.de");
  EXPECT_NE(said([&] { load(); }).find("has no train.de"), std::string::npos);
  const PairData data(load_pairs("pairs", folder_ / "set", "en", "de", "dev", false), *bytes_, {1, 2}, {16});
  EXPECT_EQ(data.train_examples(), 0);
  EXPECT_EQ(data.test_examples(), 2);
}

TEST_F(PairsTest, WhatIsWrongWithFilesIsSaid) {
  const auto expect_said = [&](const std::string& part) {
    const std::string what = said([&] { PairData(load(), *bytes_, {1, 2}, {4, 8, 16}); });
    EXPECT_NE(what.find(part), std::string::npos) << what;
  };
  expect_said("no such folder");
  write_set();
  write("train.de", "A\nB\n");
  expect_said("train.en has 60 lines");
  write_set();
  write("dev.de", "AB\n \n");
  expect_said("dev.de: line 2 is empty");
  write("dev.de", "AB\n\xff\n");
  expect_said("dev.de: line 2 is no text");
  write("dev.de", "AB\n" + std::string(16, 'A') + "\n");
  expect_said("dev.de: line 2 has 17 tokens with its end, the model reads 16");
  write("dev.de", "");
  expect_said("holds no sentence");
  std::filesystem::remove(folder_ / "set/dev.de");
  expect_said("has no dev.de");
  EXPECT_NE(said([&] { load("test"); }).find("has no test.en"), std::string::npos);
  for (const auto& [source, target] : {std::pair{"en", "en"}, {"", "de"}, {"en", "../de"}}) {
    EXPECT_THROW(load_pairs("pairs", folder_ / "set", source, target, "dev"), UsageError);
  }
  EXPECT_THROW(load_pairs("pairs", "", "en", "de", "dev"), UsageError);
}

}  // namespace
}  // namespace lpmm
