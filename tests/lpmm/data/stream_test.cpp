// Tokens that are made once and read from a file: the same batches, one maker, and nothing that is half made.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <random>
#include <thread>

#include "lpmm/base/error.h"
#include "lpmm/data/conversations/conversation_data.h"
#include "lpmm/data/conversations/kept_documents.h"
#include "lpmm/data/corpus/kept_files.h"
#include "lpmm/data/text_data.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/data/tiny_bpe.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

class StreamTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* given = std::getenv("LPMM_DATA")) before_ = given;
    ::setenv("LPMM_DATA", (scratch_ / "data").c_str(), 1);
  }
  void TearDown() override {
    before_.empty() ? ::unsetenv("LPMM_DATA") : ::setenv("LPMM_DATA", before_.c_str(), 1);
  }
  std::string text(const std::string& name, int bytes, unsigned seed = 1) const {
    std::mt19937 draw(seed);
    std::string content;
    for (int i = 0; i < bytes; ++i) content += static_cast<char>(i % 70 == 69 ? '\n' : 'a' + draw() % 26);
    fs::create_directories(fs::path(scratch_ / name).parent_path());
    std::ofstream(scratch_ / name, std::ios::binary) << content;
    return scratch_ / name;
  }
  static TextOptions options(const std::string& path, bool streams) {
    TextOptions o;
    o.path = path;
    o.tokenizer = "bytes";
    o.length = 32;
    o.streams = streams;
    return o;
  }
  std::vector<fs::path> kept() const {
    std::vector<fs::path> all;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(scratch_ / "data/tokens", none))
      all.push_back(entry.path());
    return all;
  }
  Scratch scratch_;
  std::string before_;
};

void expect_same_batches(const Sequences& a, const Sequences& b) {
  ASSERT_EQ(a.train_examples(), b.train_examples());
  ASSERT_EQ(a.test_examples(), b.test_examples());
  Batch one, other;
  for (std::int64_t index = 0; index < std::min<std::int64_t>(40, a.train_examples() / 4); ++index) {
    a.make_batch({3, 4, 2}, index % 3, index, 1, one);
    b.make_batch({3, 4, 2}, index % 3, index, 1, other);
    ASSERT_EQ(one.tokens, other.tokens);
    ASSERT_EQ(one.labels, other.labels);
    ASSERT_EQ(one.starts, other.starts);
    ASSERT_EQ(one.step_labels, other.step_labels);
  }
  for (std::int64_t i = 0; i < a.test_examples(); ++i) {
    a.make_test_batch(i, 1, one);
    b.make_test_batch(i, 1, other);
    ASSERT_EQ(one.tokens, other.tokens);
    ASSERT_EQ(one.labels, other.labels);
  }
}

TEST_F(StreamTest, ATextGivesTheSameBatchesAndIsEncodedOnce) {
  const std::string path = text("a.txt", 9'000'000);  // three pieces
  const TextData whole(options(path, false)), streamed(options(path, true));
  expect_same_batches(whole, streamed);
  EXPECT_EQ(streamed.bytes(), 0);
  EXPECT_EQ(streamed.size(), whole.size());
  ASSERT_EQ(kept().size(), 1U);
  const auto made = fs::last_write_time(kept()[0]);
  bool is_encoded = false;
  const TextData again(options(path, true), nullptr, [&](std::int64_t, std::int64_t) { is_encoded = true; });
  EXPECT_FALSE(is_encoded);
  EXPECT_EQ(fs::last_write_time(kept()[0]), made);
  // It is a token file as any other.
  expect_same_batches(TextData(options(kept()[0].string(), false)), whole);
}

TEST_F(StreamTest, AFolderFollowsAsItDoesInMemory) {
  text("folder/a.txt", 3000, 1);
  text("folder/b.md", 2000, 2);
  text("folder/c.txt", 0);
  expect_same_batches(TextData(options(scratch_ / "folder", false)),
                      TextData(options(scratch_ / "folder", true)));
}

// What is empty counts for nothing: a text alone in a folder has no token behind it that ends it.
TEST_F(StreamTest, EmptyFilesAreThereForNobody) {
  text("folder/a.txt", 3000, 1);
  text("folder/b.txt", 0);
  const std::shared_ptr<const Tokenizer> ends = load_gpt2_tokenizer(tiny_bpe(scratch_.path(), {}));
  for (const int others : {0, 1}) {
    const TextData whole(options(scratch_ / "folder", false), ends),
        streamed(options(scratch_ / "folder", true), ends);
    EXPECT_EQ(whole.size(), 3000 + others * 502);
    EXPECT_EQ(streamed.size(), whole.size());
    text("folder/c.txt", 500, 2);
  }
  text("nothing/a.txt", 0);
  for (const std::string& path : {text("empty.txt", 0), std::string(scratch_ / "nothing")}) {
    for (const bool streams : {false, true}) {
      const std::string why = said([&] { const TextData data(options(path, streams)); });
      EXPECT_EQ(why, path + ": is empty: there is no text to encode");
    }
  }
}

TEST_F(StreamTest, AFileOfAFolderThatIsNoTextIsNamed) {
  text("many/a.txt", 3000);
  for (const auto& [tokenizer, streams] :
       {std::pair("characters", false), {"words", false}, {"gpt2", false}, {"gpt2", true}}) {
    TextOptions many = options(scratch_ / "many", streams);
    many.tokenizer = tokenizer;
    many.folder = tiny_bpe(scratch_.path(), {});
    for (const auto& [content, why] :
         {std::pair("ab\xE9", "many/b.txt: byte 2 of the text, 0xE9, is not UTF-8: save the text as UTF-8"),
          {"%PDF-\xE9", "many/b.txt: is no text: it is a PDF"}}) {
      std::ofstream(scratch_ / "many/b.txt", std::ios::binary) << content;
      const std::string told = said([&] { const TextData data(many); });
      EXPECT_NE(told.find(why), std::string::npos) << tokenizer << ": " << told;
    }
  }
}

// The same name and files, and other ids: a program in which an error was mended.
class Mended : public Tokenizer {
 public:
  explicit Mended(std::int32_t shift) : Tokenizer(std::vector<std::string>(300)), shift_(shift) {}
  std::size_t encode_from(std::string_view text, std::size_t first, std::size_t until,
                          std::vector<std::int32_t>& ids) const override {
    for (std::size_t i = first; i < until; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      ids.push_back(byte >= 0x80 ? byte + shift_ : byte);
    }
    return until;
  }
  nlohmann::ordered_json describe() const override { return {{"kind", "bytes"}}; }

 private:
  std::int32_t shift_;
};

TEST_F(StreamTest, AMendedTokenizerServesNoOldIds) {
  const Mended before(1), after(2);
  EXPECT_EQ(kept_key({{"files", "a"}}, before), kept_key({{"files", "a"}}, Mended(1)));
  EXPECT_NE(kept_key({{"files", "a"}}, before), kept_key({{"files", "a"}}, after));
  EXPECT_NE(kept_key({{"files", "a"}}, before), kept_key({{"files", "b"}}, before));
}

TEST_F(StreamTest, AnotherTextOrTokenizerIsAnotherFile) {
  const std::string path = text("a.txt", 5000);
  const TextData first(options(path, true));
  text("a.txt", 5001, 2);
  const TextData second(options(path, true));
  EXPECT_EQ(second.size(), 5001);
  EXPECT_EQ(kept().size(), 2U);
  const TextData third(options(path, true), make_character_tokenizer("abcdefghijklmnopqrstuvwxyz\n"));
  EXPECT_EQ(kept().size(), 3U);
  EXPECT_THROW(TextData(options("", true)), UsageError);
  TextOptions characters = options(path, true);
  characters.tokenizer = "characters";
  EXPECT_THROW(TextData{characters}, UsageError);
  EXPECT_THROW(TextData(options(text("empty.txt", 0), true)), UsageError);
  EXPECT_THROW(TextData(options(scratch_ / "gone.txt", true)), RunError);
}

TEST_F(StreamTest, WhatIsCutOffIsMadeAgain) {
  const std::string path = text("a.txt", 5000);
  const TextData first(options(path, true));
  const std::string file = kept().at(0).string();
  fs::resize_file(file, fs::file_size(file) - 7);
  testing::internal::CaptureStderr();
  const TextData again(options(path, true));
  const std::string told = testing::internal::GetCapturedStderr(), part = "it is made again";
  EXPECT_NE(told.find(part), std::string::npos);
  EXPECT_EQ(told.find(part), told.rfind(part)) << told;
  expect_same_batches(again, TextData(options(path, false)));
}

// ---- conversations ---------------------------------------------------------------------------------------

std::vector<Document> documents(int count) {
  std::mt19937 draw(7);
  std::vector<Document> all;
  for (int i = 0; i < count; ++i) {
    Document d;
    const auto tokens = 2 + static_cast<int>(draw() % 90);
    for (int t = 0; t < tokens; ++t) {
      d.ids.push_back(static_cast<std::int32_t>(draw() % 500));
      d.learnt.push_back(i % 9 == 0 ? 0 : draw() % 3 == 0);
    }
    all.push_back(std::move(d));
  }
  return all;
}

DocumentsToKeep to_keep(const std::vector<Document>& all, TooLong too_long) {
  DocumentsToKeep what;
  what.key = "documents " + std::to_string(all.size()) + " " + std::to_string(static_cast<int>(too_long));
  what.vocabulary = 500;
  what.length = 50;
  what.too_long = too_long;
  what.share = 0.1;
  what.read = [&](const auto& take, bool) {
    for (const Document& document : all) take(document);
  };
  return what;
}

ConversationData opened(const DocumentsToKeep& what) {
  return {"kept", kept_documents(what)};
}

TEST_F(StreamTest, DocumentsArePackedAsInMemory) {
  const std::vector<Document> all = documents(3000);
  for (const TooLong too_long : {TooLong::kCut, TooLong::kDrop, TooLong::kSplit}) {
    const DocumentsToKeep what = to_keep(all, too_long);
    const ConversationData memory("memory", all, {}, 0.1, 50, too_long), file = opened(what);
    expect_same_batches(memory, file);
    EXPECT_EQ(memory.summary().substr(6), file.summary().substr(4));
    EXPECT_EQ(memory.learnt_labels(), file.learnt_labels());
    EXPECT_EQ(file.bytes(), 0);
    DocumentsToKeep unread = what;
    unread.read = [](const auto&, bool) { FAIL() << "it is there"; };
    expect_same_batches(memory, opened(unread));
  }
  DocumentsToKeep tested = to_keep(all, TooLong::kCut);
  tested.key += " with a test file";
  tested.has_test = true;
  const ConversationData memory("memory", all, all, 0, 50, TooLong::kCut);
  expect_same_batches(memory, opened(tested));
}

TEST_F(StreamTest, AMakerThatFailsLeavesNoLock) {
  DocumentsToKeep what = to_keep({}, TooLong::kCut);
  what.read = [](const auto&, bool) { throw RunError("stop"); };
  EXPECT_THROW(kept_documents(what), RunError);
  EXPECT_TRUE(kept().empty());
}

TEST_F(StreamTest, AMakerThatIsKilledLeavesNothingThatIsTakenForWhole) {
  const std::vector<Document> all = documents(200);
  DocumentsToKeep what = to_keep(all, TooLong::kCut);
  const pid_t child = ::fork();
  if (child == 0) {
    what.read = [&](const auto& take, bool) {
      for (int i = 0; i < 100; ++i) take(all[static_cast<std::size_t>(i)]);
      ::_exit(9);
    };
    kept_documents(what);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 9);
  const std::string path = kept_path(what.key, ".packed");
  EXPECT_FALSE(fs::exists(path));
  EXPECT_GE(kept().size(), 2U);  // the lock, and what it began
  expect_same_batches(opened(what), ConversationData("memory", all, {}, 0.1, 50, TooLong::kCut));
  ASSERT_EQ(kept().size(), 1U);
  EXPECT_EQ(kept()[0], path);
}

TEST_F(StreamTest, OneMakesItAndTheOthersWait) {
  const std::string path = scratch_ / "data/tokens/x.packed";
  std::latch was_missing(1), begins(1);
  std::atomic<int> made = 0;
  const auto is_there = [&] { return fs::exists(path); };
  std::thread first([&] {
    make_once(path, is_there, [&] {
      begins.count_down();
      was_missing.wait();  // the other one has seen that it is not there
      ++made;
      write_text(path, "made");
    });
  });
  begins.wait();
  std::atomic<int> checks = 0;
  make_once(
      path,
      [&] {
        const bool found = is_there();
        if (checks++ == 0) was_missing.count_down();
        return found;
      },
      [&] {
        ++made;
        write_text(path, "again");
      });
  first.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(checks, 2);
  EXPECT_EQ(read_text(path, 10), "made");
}

TEST_F(StreamTest, DamagedDocumentsAreRefusedOrMadeAgain) {
  const std::vector<Document> all = documents(300);
  const DocumentsToKeep what = to_keep(all, TooLong::kCut);
  const ConversationData whole = opened(what);
  const std::string path = kept_path(what.key, ".packed"), content = read_text(path, 1 << 26);
  const auto with = [&](std::size_t at, char byte) {
    std::string other = content;
    other[at] = byte;
    write_text(path, other);
  };
  // The header, the description, the length: it is made again.
  for (const std::size_t at : {std::size_t{0}, std::size_t{8}, std::size_t{12}, std::size_t{17}}) {
    with(at, '\x7f');
    expect_same_batches(opened(what), whole);
    EXPECT_EQ(read_text(path, 1 << 26), content);
  }
  write_text(path, content.substr(0, content.size() - 64));
  expect_same_batches(opened(what), whole);
  // An id that still is one.
  const std::size_t ids = (16 + 2048) / 64 * 64 + 4096;
  with(ids, static_cast<char>(content[ids] ^ 1));
  expect_same_batches(opened(what), whole);
  EXPECT_EQ(read_text(path, 1 << 26), content);
  // Anything in the rest: a batch is made or refused, and nothing else happens.
  std::mt19937 draw(3);
  int refused = 0;
  constexpr std::size_t kFirst = 3000;  // behind the description
  for (int i = 0; i < 300; ++i) {
    std::string other = content;
    other[kFirst + draw() % (content.size() - kFirst)] = static_cast<char>(draw());
    write_text(path, other);
    try {
      const ConversationData data = opened(what);
      Batch batch;
      for (std::int64_t s = 0; s < data.train_examples(); ++s) {
        data.append(1, 0, s, true, batch);
        for (const std::int32_t id : batch.tokens) ASSERT_TRUE(id >= 0 && id < 500);
        batch = {};
      }
    } catch (const RunError& e) {
      EXPECT_NE(std::string(e.what()).find("damaged"), std::string::npos) << e.what();
      ++refused;
    } catch (const UsageError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace lpmm
