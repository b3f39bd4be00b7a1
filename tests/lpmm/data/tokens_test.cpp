// Token files: what was written comes back, and a reader that survives any file.
#include "lpmm/data/tokens.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/noise.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

// An id for each line, its length with the newline; a line is a word.
class LineTokenizer : public Tokenizer {
 public:
  LineTokenizer() : Tokenizer(std::vector<std::string>(100, "x")) {}
  std::size_t encode_from(std::string_view text, std::size_t first, std::size_t until,
                          Ids& ids) const override {
    while (first < until) {
      const std::size_t end = std::min(text.find('\n', first), text.size() - 1) + 1;
      ids.push_back(static_cast<std::int32_t>(end - first));
      first = end;
    }
    return first;
  }
  Json describe() const override { return {{"kind", "lines"}}; }
};

Ids all_ids(const TokenFile& file) {
  Ids ids(static_cast<std::size_t>(file.size()));
  file.read(0, ids);
  return ids;
}

std::string refusal(const std::string& path) {
  try {
    const TokenFile file(path);
    all_ids(file);
  } catch (const RunError& e) {
    return e.what();
  }
  return "accepted";
}

// A file of these header fields, description and ids.
struct Made {
  std::string magic = "lpmmtok\n";
  std::uint32_t version = 1;
  std::uint64_t vocabulary = 256, count = 4;
  std::string description = R"({"kind":"bytes"})";
  std::uint32_t description_bytes = 16;
  std::string ids = std::string("a\0b\0c\0d\0", 8);

  std::string write(const Scratch& scratch) const {
    std::string text = magic;
    const auto append = [&](auto value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); };
    append(version);
    append(description_bytes);
    append(vocabulary);
    append(count);
    text += description;
    text.resize((text.size() + 63) / 64 * 64);
    const std::string path = scratch / "made";
    std::ofstream(path, std::ios::binary) << text << ids;
    return path;
  }
};

void expect_refused(const Made& made, const std::vector<std::string>& parts) {
  const Scratch scratch;
  const std::string path = made.write(scratch), said = refusal(path);
  EXPECT_EQ(said.find(path), 0U) << said;
  for (const std::string& part : parts)
    EXPECT_NE(said.find(part), std::string::npos) << part << "\nin: " << said;
}

TEST(Tokens, ReadsWhatItWrote) {
  const Scratch scratch;
  const std::string path = scratch / "t.tokens", text = "hello hello, it's caf\u00E9\n\n  yes abab";
  // More than 65536 characters take ids of 4 bytes.
  std::string many = text;
  for (int c = 0x20000; c < 0x30100; ++c) {
    many += {static_cast<char>(0xF0), static_cast<char>(0x80 | c >> 12),
             static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
  }
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.push_back(make_byte_tokenizer());
  all.push_back(make_character_tokenizer(text));
  all.push_back(make_character_tokenizer(many));
  ASSERT_GT(all[2]->vocabulary(), 65536);
  for (const auto& t : all) {
    const std::int64_t count = write_tokens(path, *t, t->vocabulary() > 65536 ? many : text);
    const TokenFile file(path);
    EXPECT_EQ(file.path(), path);
    EXPECT_EQ(file.size(), count);
    EXPECT_EQ(file.vocabulary(), t->vocabulary());
    EXPECT_EQ(file.description(), t->describe());
    const Ids ids = all_ids(file);
    EXPECT_EQ(ids, t->encode(t->vocabulary() > 65536 ? many : text));
    Ids some(5);
    file.read(7, some);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), ids.begin() + 7));
    EXPECT_EQ(leftovers_in(scratch.path()), std::set<std::string>{});
  }
}

TEST(Tokens, RefusesToReadPastTheEnd) {
  const Scratch scratch;
  const TokenFile file(Made().write(scratch));
  Ids none, two(2);
  file.read(2, two);
  EXPECT_EQ(two, (Ids{'c', 'd'}));
  file.read(4, none);
  for (const std::int64_t first :
       {std::int64_t{3}, std::int64_t{5}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::max(),
        std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_THROW(file.read(first, two), RunError);
  }
}

// More text than one piece: the ids are those of the whole, and progress comes to the end.
TEST(Tokens, WritesLongTextsInPieces) {
  const Scratch scratch;
  const std::string path = scratch / "t.tokens";
  std::string text;
  for (std::uint32_t i = 0; text.size() < (9 << 20); ++i) {
    text.append(philox4x32_10({{i, 0, 0, 0}}, 3, 4).x[0] % 99, 'x') += '\n';
  }
  const LineTokenizer t;
  std::vector<std::int64_t> done;
  write_tokens(path, t, text, [&](std::int64_t bytes, std::int64_t all) {
    EXPECT_EQ(all, static_cast<std::int64_t>(text.size()));
    done.push_back(bytes);
  });
  EXPECT_EQ(done.size(), 3U);
  EXPECT_GT(done[0], 4 << 20);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), static_cast<std::int64_t>(text.size()));
  EXPECT_EQ(all_ids(TokenFile(path)), t.encode(text));
}

TEST(Tokens, AFailedWriteLeavesTheOldFile) {
  const Scratch scratch;
  const std::string path = scratch / "t.tokens";
  const auto t = make_character_tokenizer("abc");
  write_tokens(path, *t, "abc");
  const std::string before = read_text(path, 1 << 20);
  EXPECT_THROW(write_tokens(path, *t, ""), UsageError);
  EXPECT_THROW(write_tokens(path, *t, "ab\xFF"), UsageError);
  EXPECT_THROW(write_tokens(path, *t, "abd"), UsageError);
  // The offset is in the whole text, not in a piece of it.
  try {
    write_tokens(path, *t, std::string(5 << 20, 'a') + "\xFF");
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("byte 5242880 "), std::string::npos) << e.what();
  }
  EXPECT_THROW(write_tokens(path, *t, "abc", [](auto, auto) { throw std::runtime_error("stopped"); }),
               std::runtime_error);
  EXPECT_EQ(read_text(path, 1 << 20), before);
  EXPECT_THROW(write_tokens(scratch / "absent/t.tokens", *t, "abc"), RunError);
  std::filesystem::create_directories(scratch / "folder/inside");
  EXPECT_THROW(write_tokens(scratch / "folder", *t, "abc"), RunError);
  EXPECT_EQ(leftovers_in(scratch.path()), std::set<std::string>{});
}

TEST(Tokens, RefusesHeadersThatLie) {
  const Scratch scratch;
  EXPECT_EQ(refusal(Made().write(scratch)), "accepted");
  expect_refused({.magic = "lpmmtok "}, {"no token file"});
  expect_refused({.version = 2}, {"version 2", "version 1 is read"});
  expect_refused({.vocabulary = 0}, {"vocabulary of 0"});
  expect_refused({.vocabulary = 1ULL << 31}, {"vocabulary of 2147483648", "2147483647"});
  expect_refused({.vocabulary = ~0ULL}, {"vocabulary of"});
  expect_refused({.vocabulary = 65537}, {"4 ids of 4 bytes", "72 bytes", "cut off"});
  expect_refused({.count = 3}, {"3 ids of 2 bytes after 64", "72 bytes"});
  expect_refused({.count = 5}, {"5 ids"});
  expect_refused({.count = 0}, {"0 ids"});
  expect_refused({.count = (1ULL << 63) + 4}, {"ids"});
  expect_refused({.count = ~0ULL}, {"ids"});
  expect_refused({.count = 0, .ids = ""}, {"0 ids"});
  expect_refused({.ids = "a"}, {"65 bytes"});
  expect_refused({.description_bytes = 41}, {"description of 41 bytes", "72 bytes"});
  expect_refused({.description_bytes = ~0U}, {"description of 4294967295 bytes"});
  expect_refused({.description_bytes = 0}, {"no JSON"});
  expect_refused({.description_bytes = 32}, {"no JSON"});
  expect_refused({.description = R"(["kind","bytes"])"}, {"no JSON object"});
  std::string deep(4096 - 32, '['), names = "{";
  expect_refused({.description = deep, .description_bytes = static_cast<std::uint32_t>(deep.size())},
                 {"more in it"});
  for (int i = 0; i < 17; ++i) names += "\"" + std::to_string(i) + "\":0,";
  names += "\"x\":0}";
  expect_refused({.description = names, .description_bytes = static_cast<std::uint32_t>(names.size())},
                 {"more in it"});
}

TEST(Tokens, RefusesWhatIsNoTokenFile) {
  const Scratch scratch;
  const auto refuses = [&](const std::string& name, const std::string& part) {
    const std::string said = refusal(scratch / name);
    EXPECT_EQ(said.find(scratch / name), 0U) << said;
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  refuses("absent", "No such file");
  refuses(".", "not a file");
  write_text(scratch / "empty", "");
  refuses("empty", "0 bytes, at least 32");
  write_text(scratch / "short", "lpmmtok\n" + std::string(23, '\1'));
  refuses("short", "31 bytes, at least 32");
  write_text(scratch / "text", std::string(1000, 'x'));
  refuses("text", "does not start with");
  ASSERT_EQ(::mkfifo((scratch / "pipe").c_str(), 0600), 0);
  refuses("pipe", "not a file");
}

TEST(Tokens, NamesIdsPastTheVocabulary) {
  expect_refused({.vocabulary = 100}, {"position 3 is 100", "vocabulary of 100"});
  const std::string wide("\1\0\0\0\xFF\xFF\xFF\xFF", 8);
  expect_refused({.vocabulary = 70000, .count = 2, .ids = wide},
                 {"position 1 is 4294967295", "vocabulary of 70000"});
  // The ids before it are read.
  const Scratch scratch;
  const TokenFile file(Made{.vocabulary = 100}.write(scratch));
  Ids three(3), last(1);
  file.read(0, three);
  EXPECT_EQ(three, (Ids{'a', 'b', 'c'}));
  EXPECT_THROW(file.read(3, last), RunError);
}

TEST(Tokens, EveryTruncationIsRefused) {
  const Scratch scratch;
  write_tokens(scratch / "good", *make_byte_tokenizer(), "some text");
  const std::string good = read_text(scratch / "good", 1 << 20);
  ASSERT_EQ(good.size() % 64, 9U * 2);
  for (std::size_t size = 0; size < good.size(); ++size) {
    std::ofstream(scratch / "cut", std::ios::binary) << good.substr(0, size);
    EXPECT_NE(refusal(scratch / "cut"), "accepted") << size;
  }
}

TEST(Tokens, SurvivesRandomDamage) {
  const Scratch scratch;
  write_tokens(scratch / "good", *make_character_tokenizer("some text"), "some text");
  const std::string good = read_text(scratch / "good", 1 << 20);
  int refused = 0;
  constexpr int kTrials = 600;
  for (std::uint32_t trial = 0; trial < kTrials; ++trial) {
    std::string bad = good;
    const PhiloxWords w = philox4x32_10({{trial, 0, 0, 0}}, 1, 2);
    bad[w.x[0] % 72] = static_cast<char>(w.x[2]);
    if (w.x[1] % 4 == 0) bad.insert(w.x[3] % bad.size(), w.x[3] % 9, 'x');
    std::ofstream(scratch / "bad", std::ios::binary) << bad;
    refused += refusal(scratch / "bad") != "accepted";
  }
  EXPECT_GT(refused, kTrials / 2);
}

}  // namespace
}  // namespace lpmm
