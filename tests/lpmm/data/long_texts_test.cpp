// Texts that were made to take long: what they become, and that it takes little time.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "lpmm/data/tokenizers/decoder.h"
#include "lpmm/data/tokenizers/normalizer.h"
#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/tokenizers/sentence_piece/sentence_piece.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/data/sentence_pieces.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

std::string times(const std::string& text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

std::string in_form(const char* form, const std::string& text) {
  const nlohmann::json file = {{"normalizer", {{"type", form}}}};
  return make_normalizer(Part(file, "file", ""))(text, std::size_t{1} << 30);
}

TEST(LongTexts, UnicodeFormsAreThoseOfTheStandard) {
  EXPECT_EQ(in_form("NFD", "\u1E69\uAC01"), "s\u0323\u0307\u1100\u1161\u11A8");
  EXPECT_EQ(in_form("NFC", "s\u0307\u0323 \u1100\u1161\u11A8"), "\u1E69 \uAC01");
  EXPECT_EQ(in_form("NFKC", "\uFB01\u2460\u00C5"), "fi1\u00C5");
  EXPECT_EQ(in_form("NFKD", "\u00C5\uFDFA").substr(0, 3), "A\u030A");
  EXPECT_EQ(in_form("NFC", "\u0958\u0301 a"), "\u0915\u093C\u0301 a");  // never composed again
  EXPECT_EQ(in_form("NFC", "\u0323\u0301a\u0301\u0301"), "\u0323\u0301\u00E1\u0301");
  EXPECT_NE(said([] { in_form("NFC", "a\xFF"); }), "no error");
}

// Step by step each of the marks below would pass each of those above: 27 s.
TEST(LongTexts, RunsOfMarksTakeLittleTime) {
  constexpr std::size_t kMarks = 60000;
  const std::string above = times("\u0301", kMarks), below = times("\u0323", kMarks);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(in_form("NFD", "a" + above + below) == "a" + below + above);
  EXPECT_TRUE(in_form("NFC", "a" + above + below) == "\u1EA1" + times("\u0323", kMarks - 1) + above);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

// Quadratic time would be a minute.
TEST(LongTexts, LongListsOfObjectsTakeLittleTime) {
  const Scratch folder;
  write_text(folder / "list.json", R"({"added_tokens": [{"x": "[\"{"})" + times(",{}", 200000) + "]}");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(read_sorted_json(folder / "list.json")["added_tokens"].size(), 200001U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  write_text(folder / "deep.json", times("[", 33) + times("]", 33));
  EXPECT_NE(said([&] { read_sorted_json(folder / "deep.json"); }).find("nested"), std::string::npos);
  write_text(folder / "flat.json", times("[", 32) + times("]", 32));
  EXPECT_EQ(said([&] { read_sorted_json(folder / "flat.json"); }), "no error");
}

TEST(LongTexts, StrippedTokensTakeLittleTime) {
  constexpr std::size_t kSpaces = 1 << 20;
  const nlohmann::json file = {
      {"decoder", {{"type", "Strip"}, {"content", " "}, {"start", kSpaces - 1}, {"stop", 2}}}};
  const Decoder strip = make_decoder(Part(file, "file", ""));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(strip(std::string(kSpaces, ' ') + times("ab", kSpaces) + "   ", true, 1 << 24) ==
              " " + times("ab", kSpaces) + " ");
  EXPECT_EQ(strip("  ", false, 100), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(LongTexts, SentencePieceTakesLinesOfALength) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  const Scratch scratch;
  write_text(scratch / "text", times("the quick brown fox jumps over the lazy dog\n", 40));
  write_text(scratch / "a.model", train_sentence_piece({"bpe", 35}, {scratch / "text"}));
  const auto tokenizer = load_tokenizer(scratch / "a.model");
  EXPECT_NE(
      said([&] { tokenizer->encode(std::string((1 << 21) + 1, 'a')); }).find("break the text into lines"),
      std::string::npos);
  EXPECT_EQ(tokenizer->encode(times(times("a", 99) + "\n", 22000)).size() % 22000, 0U);
  // The library's errors name its options as ours.
  const std::string small = said([&] { train_sentence_piece({"bpe", 9}, {scratch / "text"}); });
  EXPECT_NE(small.find("--coverage"), std::string::npos) << small;
  EXPECT_EQ(small.find("----"), std::string::npos) << small;
}

}  // namespace
}  // namespace lpmm
