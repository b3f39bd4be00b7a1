#include "lpmm/data/text_data.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

class TextDataTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("lpmm_text_" + std::to_string(getpid()) + "_" +
                                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  // Token i is the character of code i % 90 + 33.
  std::string numbered(int count) const {
    std::string text;
    for (int i = 0; i < count; ++i) text += static_cast<char>(33 + i % 90);
    return write("numbered.txt", text);
  }
  static TextOptions options(const std::string& path, int length) {
    TextOptions o;
    o.path = path;
    o.length = length;
    return o;
  }
  fs::path folder_;
};

TEST_F(TextDataTest, LabelsAreTheTokensOnePlaceLater) {
  const TextData data(options(numbered(1000), 20));
  EXPECT_EQ(data.size(), 1000);
  EXPECT_EQ(data.tokenizer()->vocabulary(), 90);
  EXPECT_EQ(data.train_examples(), 899 / 20);
  EXPECT_EQ(data.test_examples(), 99 / 20);
  Batch batch;
  data.make_batch({1, 8, 2, false}, 0, 0, 1, batch);
  ASSERT_EQ(batch.count, 4);
  ASSERT_EQ(batch.tokens.size(), 80U);
  for (std::size_t i = 0; i < 80; ++i) {
    EXPECT_EQ(batch.labels[i], (batch.tokens[i] + 1) % 90);
    if (i % 20 > 0) {
      EXPECT_EQ(batch.tokens[i], batch.labels[i - 1]);
    }
  }
  // The last tenth, side by side.
  data.make_test_batch(1, 2, batch);
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(batch.tokens[i], (900 + 20 + static_cast<int>(i)) % 90);
}

// Windows start anywhere in the training part, every start as likely, and no later; chi-square over the
// starts.
TEST_F(TextDataTest, TrainingWindowsStartAnywhere) {
  TextOptions o = options(numbered(80), 10);
  o.validation_share = 0.25;  // 60 tokens to train on: starts 0 to 49
  const TextData data(o);
  std::vector<int> counts(50);
  Batch batch;
  for (std::int64_t epoch = 0; epoch < 1000; ++epoch) {
    data.make_batch({3, 50, 1, false}, epoch, 0, 0, batch);
    for (std::size_t i = 0; i < 50; ++i) ++counts.at(static_cast<std::size_t>(batch.tokens[10 * i]));
  }
  double chi_square = 0;
  for (const int c : counts) chi_square += (c - 1000.0) * (c - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 110);  // 49 degrees of freedom
  EXPECT_GT(chi_square, 20);
}

TEST_F(TextDataTest, MicrobatchesTogetherAreTheBatch) {
  const TextData data(options(numbered(2000), 16));
  Batch whole, part;
  data.make_batch({5, 12, 1, false}, 2, 3, 0, whole);
  std::vector<std::int32_t> tokens;
  for (int m = 0; m < 4; ++m) {
    data.make_batch({5, 12, 4, false}, 2, 3, m, part);
    tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
  }
  EXPECT_EQ(tokens, whole.tokens);
  data.make_batch({6, 12, 1, false}, 2, 3, 0, part);
  EXPECT_NE(part.tokens, whole.tokens);
}

TEST_F(TextDataTest, ATokenFileGivesTheSameBatches) {
  const std::string path = numbered(1500);
  const TextData text(options(path, 16));
  std::string content(1500, ' ');
  std::ifstream(path).read(content.data(), 1500);
  write_tokens((folder_ / "n.tokens").string(), *text.tokenizer(), content);
  const TextData file(options((folder_ / "n.tokens").string(), 16));
  Batch a, b;
  text.make_batch({1, 8, 1, false}, 0, 1, 0, a);
  file.make_batch({1, 8, 1, false}, 0, 1, 0, b);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(file.bytes(), 0);  // what was read of a file is not kept
}

TEST_F(TextDataTest, AGivenTokenizerIsTaken) {
  auto tokenizer = make_character_tokenizer("abcxyz\n");
  TextOptions o = options(write("a.txt", std::string(100, 'x')), 8);
  o.validation_share = 1;
  const TextData data(o, std::move(tokenizer));
  EXPECT_EQ(data.tokenizer()->vocabulary(), 7);
  EXPECT_EQ(data.test_examples(), 99 / 8);
  EXPECT_EQ(data.train_examples(), 0);
  EXPECT_THROW(TextData(options(write("b.txt", std::string(100, 'q')), 8), make_character_tokenizer("abc")),
               UsageError);
}

TEST_F(TextDataTest, TheDefaultTextIsTheSystemsLicences) {
  if (!fs::is_directory("/usr/share/common-licenses")) GTEST_SKIP() << "no licence texts on this system";
  const TextData data(options("", 64));
  EXPECT_GT(data.size(), 50'000);
  EXPECT_LT(data.tokenizer()->vocabulary(), 200);
}

TEST_F(TextDataTest, WithBlocksAnEpochHasEachPartOnce) {
  TextOptions o = options(numbered(90), 7);
  o.validation_share = 0.2;  // 72 tokens to train on: 10 blocks
  o.blocks = true;
  const TextData data(o);
  Batch batch;
  std::set<std::vector<std::int32_t>> orders;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int32_t> starts;
    for (std::int64_t index = 0; index < 2; ++index) {
      data.make_batch({3, 5, 1, false}, epoch, index, 0, batch);
      for (std::size_t i = 0; i < 5; ++i) starts.push_back(batch.tokens[7 * i]);
    }
    orders.insert(starts);
    std::ranges::sort(starts);
    EXPECT_EQ(starts, (std::vector<std::int32_t>{0, 7, 14, 21, 28, 35, 42, 49, 56, 63}));
  }
  EXPECT_EQ(orders.size(), 3U);
}

TEST_F(TextDataTest, AnotherTextMayBeTheTest) {
  TextOptions o = options(numbered(90), 8);
  o.test_path = write("test.txt", "ABCDEFGHIJKLMNOPQRST~\n");
  const TextData data(o);
  EXPECT_EQ(data.train_examples(), 89 / 8);
  EXPECT_EQ(data.test_examples(), 2);
  Batch batch;
  data.make_test_batch(0, 2, batch);
  EXPECT_EQ(data.tokenizer()->decode(batch.tokens), "ABCDEFGHIJKLMNOP");
  EXPECT_EQ(data.tokenizer()->decode(batch.labels), "BCDEFGHIJKLMNOPQ");
  const std::uint32_t sum = data.checksum();
  write("test.txt", "ABCDEFGHIJKLMNOPQRSU~\n");
  EXPECT_NE(TextData(o).checksum(), sum);
  o.test_path = (folder_ / "none.txt").string();
  EXPECT_THROW(TextData{o}, RunError);
  // There may be nothing to test on.
  o.test_path.clear();
  o.validation_share = 0;
  EXPECT_EQ(TextData(o).test_examples(), 0);
  EXPECT_EQ(TextData(o).train_examples(), 89 / 8);
}

TEST_F(TextDataTest, TheTextsOfAFolderFollowEachOther) {
  fs::create_directories(folder_ / "texts/more");
  write("texts/b.txt", "bbbb");
  write("texts/a.md", "aaaa");
  write("texts/more/c.txt", "cccc");
  write("texts/d.pdf", "\xFF");
  write("texts/E.TXT", "eeee");
  write("texts/empty.txt", "");
  TextOptions o = options((folder_ / "texts").string(), 4);
  o.validation_share = 0;
  testing::internal::CaptureStderr();
  const TextData data(o);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("are left out; the first is " + (folder_ / "texts/E.TXT").string()), std::string::npos)
      << told;
  Batch batch;
  o.blocks = true;
  EXPECT_EQ(data.size(), 12);
  o.validation_share = 1;
  TextData(o).make_test_batch(0, 2, batch);
  EXPECT_EQ(data.tokenizer()->decode(batch.tokens), "aaaabbbb");
  write("texts/train.txt", "ffff");
  write("texts/test.md", "gggg");
  testing::internal::CaptureStderr();
  EXPECT_EQ(TextData(o).size(), 20);
  const std::string warned = testing::internal::GetCapturedStderr();
  EXPECT_NE(warned.find("all its files are trained on, " + (folder_ / "texts/test.md").string() + " too"),
            std::string::npos)
      << warned;
  fs::remove_all(folder_ / "texts");
  fs::create_directories(folder_ / "texts");
  EXPECT_THROW(TextData{o}, RunError);
  write("texts/rows.jsonl", "{}");
  try {
    const TextData rows(o);
    FAIL() << "rows are no text";
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("`lpmm train chat_tune`"), std::string::npos) << e.what();
  }
}

TEST_F(TextDataTest, BadTextsAreNamed) {
  const auto message = [](const TextOptions& o) -> std::string {
    try {
      const TextData data(o);
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  };
  const std::string missing = message(options((folder_ / "none.txt").string(), 8));
  EXPECT_NE(missing.find("none.txt: there is no such file"), std::string::npos) << missing;
  EXPECT_NE(missing.find("lpmm data get"), std::string::npos) << missing;
  EXPECT_NE(message(options(write("empty.txt", ""), 8)).find("empty.txt"), std::string::npos);
  EXPECT_NE(message(options(write("bad.txt", "abc\xFF"), 8)).find("bad.txt"), std::string::npos);
  for (const auto& [begin, advice] :
       {std::pair("\x1F\x8B", "gunzip"), {"%PDF-", "pdftotext"}, {"PK\x03\x04", "a zip"}}) {
    const std::string said = message(options(write("file.bin", begin + std::string("\xFF\xFF\xFF")), 2));
    EXPECT_NE(said.find("file.bin: is no text: it is "), std::string::npos) << said;
    EXPECT_NE(said.find(advice), std::string::npos) << said;
  }
  const std::string shorter = message(options(write("short.txt", "abcdefghijklmnop"), 8));
  EXPECT_NE(shorter.find("short.txt"), std::string::npos);
  EXPECT_NE(shorter.find("a sequence takes 9"), std::string::npos) << shorter;
  TextOptions o = options(numbered(500), 8);
  o.tokenizer = "charakters";
  EXPECT_NE(message(o).find("did you mean characters?"), std::string::npos);
  try {
    find_tokenizer_files("none.model");
    FAIL() << "found";
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("none.model: there is no such file"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("lpmm data tokenizer"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace lpmm
