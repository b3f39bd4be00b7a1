// Tokenizers: GPT-2's against stored encodings of an independent program, and each against hostile input.
#include "lpmm/data/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/noise.h"
#include "lpmm/base/error.h"
#include "lpmm/data/images.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/data/tiny_bpe.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;
using namespace std::string_literals;

template <class Error, class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

void expect_says(const std::string& said, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(said.find(part), std::string::npos) << part << "\nin: " << said;
}

const Json& golden() {
  static const Json all = Json::parse(std::ifstream(LPMM_SOURCE_DIR "/tests/golden/gpt2_encodings.json"));
  return all;
}

std::vector<std::size_t> words_of(std::string_view text) {
  std::vector<std::size_t> lengths;
  for (std::size_t at = 0; at < text.size(); at += lengths.back()) {
    lengths.push_back(gpt2_word_end(text, at) - at);
  }
  return lengths;
}

// GPT-2's own files; null where they are not here.
const Tokenizer* gpt2() {
  static const std::string folder = data_folder() + "/gpt2-bpe";
  static const auto tokenizer = std::filesystem::is_directory(folder) ? load_gpt2_tokenizer(folder) : nullptr;
  return tokenizer.get();
}
constexpr const char* kNoFiles = "$LPMM_DATA/gpt2-bpe, with encoder.json and vocab.bpe, is not here";

void write_quickly(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

// ---- Bytes

TEST(ByteTokenizer, TakesAllBytes) {
  const auto t = make_byte_tokenizer();
  EXPECT_EQ(t->vocabulary(), 256);
  EXPECT_EQ(t->describe(), Json({{"kind", "bytes"}}));
  EXPECT_EQ(t->end_of_text(), std::nullopt);
  std::string all;
  for (int b = 0; b < 256; ++b) all.push_back(static_cast<char>(b));
  const Ids ids = t->encode(all);
  for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(ids[i], static_cast<std::int32_t>(i));
  EXPECT_EQ(t->decode(ids), all);
  EXPECT_TRUE(t->encode("").empty());
}

TEST(Tokenizer, RefusesIdsPastTheVocabulary) {
  const auto t = make_byte_tokenizer();
  for (const std::int32_t id : {256, -1, std::numeric_limits<std::int32_t>::min()}) {
    expect_says(refusal<UsageError>([&] { t->decode(Ids{65, id}); }), {std::to_string(id), "256"});
  }
}

// ---- Characters

TEST(CharacterTokenizer, NumbersCharactersInOrder) {
  const auto t = make_character_tokenizer("banana \U0001F600\u00E9\n");
  EXPECT_EQ(t->vocabulary(), 7);
  EXPECT_EQ(t->describe(), Json({{"kind", "characters"}, {"characters", "\n abn\u00E9\U0001F600"}}));
  const std::string text = "nab\u00E9 \U0001F600\n";
  const Ids ids = t->encode(text);
  EXPECT_EQ(ids, (Ids{4, 2, 3, 5, 1, 6, 0}));
  EXPECT_EQ(t->decode(ids), text);
  EXPECT_TRUE(t->encode("").empty());
}

TEST(CharacterTokenizer, NamesWhatItDoesNotHave) {
  const auto t = make_character_tokenizer("abc\u0100");
  const auto says = [&](std::string_view text) { return refusal<UsageError>([&] { t->encode(text); }); };
  expect_says(says("ab\u00FC"), {"byte 2", "U+00FC \"\u00FC\"", "4"});
  expect_says(says("abx"), {"byte 2", "U+0078 \"x\""});
  expect_says(says("a\U0010FFFF"), {"byte 1", "U+10FFFF "});
  // The error holds nothing that changes how a terminal prints.
  EXPECT_EQ(says("a\x1B").find('\x1B'), std::string::npos);
  expect_says(says("a\x1B"), {"U+001B is"});
  EXPECT_EQ(says("\u202E").find("\u202E"), std::string::npos);
}

TEST(CharacterTokenizer, RefusesWhatIsNotUtf8) {
  const auto t = make_character_tokenizer("ab");
  for (const std::string bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF", "\xC3", "\xE2\x82", "\xF0\x9F\x98", "\xC3\x41"}) {
    expect_says(refusal<UsageError>([&] { t->encode("ab" + bad); }), {"byte 2 ", "not UTF-8"});
    expect_says(refusal<UsageError>([&] { make_character_tokenizer("x\u00E9" + bad); }),
                {"byte 3 ", "not UTF-8"});
    expect_says(refusal<UsageError>([&] { gpt2_word_end("x" + bad, 0); }), {"byte 1 ", "not UTF-8"});
  }
  expect_says(refusal<UsageError>([] { make_character_tokenizer(""); }), {"empty"});
}

// ---- Words

TEST(WordTokenizer, NumbersTheMostFrequentWords) {
  const std::string text = " the cat <unk> the\tdog\n\n a cat the\u3000end \n";
  const auto t = make_word_tokenizer(text, 0);
  EXPECT_EQ(t->describe(), Json({{"kind", "words"}, {"words", "<unk> <eos> the cat dog a end"}}));
  const Ids ids = t->encode(text);
  EXPECT_EQ(ids, (Ids{2, 3, 0, 2, 4, 1, 1, 5, 3, 2, 6, 1}));
  EXPECT_EQ(t->decode(ids), "the cat <unk> the dog \n\na cat the end \n");
  const auto few = make_word_tokenizer(text, 4);
  EXPECT_EQ(few->vocabulary(), 4);
  EXPECT_EQ(few->encode("the cat dog\nunseen"), (Ids{2, 3, 0, 1, 0}));
  EXPECT_EQ(make_word_tokenizer(text, 1)->vocabulary(), 2);
  for (const std::string piece : {"", " \n \t"}) EXPECT_THROW(make_word_tokenizer(piece, 0), UsageError);
  EXPECT_THROW(make_word_tokenizer("a \xFF", 0), UsageError);
  EXPECT_THROW(t->encode("a \xFF"), UsageError);
}

// ---- GPT-2's words and ids

TEST(Gpt2Tokenizer, SplitsWordsAsStored) {
  ASSERT_GT(golden()["cases"].size(), 100U);
  for (const Json& c : golden()["cases"]) {
    EXPECT_EQ(words_of(c["text"].get<std::string>()), c["words"].get<std::vector<std::size_t>>())
        << c["text"];
  }
}

TEST(Gpt2Tokenizer, EncodesAsStored) {
  if (gpt2() == nullptr) GTEST_SKIP() << kNoFiles;
  EXPECT_EQ(gpt2()->vocabulary(), 50257);
  EXPECT_EQ(gpt2()->end_of_text(), 50256);
  for (const Json& c : golden()["cases"]) {
    const auto text = c["text"].get<std::string>();
    const Ids ids = gpt2()->encode(text);
    EXPECT_EQ(ids, c["ids"].get<Ids>()) << c["text"];
    EXPECT_EQ(gpt2()->decode(ids), text);
  }
  EXPECT_EQ(gpt2()->decode(Ids{50256}), "<|endoftext|>");
}

// Pieces of any size give the ids of the whole.
void expect_pieces(const Tokenizer& t, const std::string& text) {
  const Ids whole = t.encode(text);
  for (const std::size_t piece : {1, 2, 3, 7, 50}) {
    Ids ids;
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = t.encode_from(text, at, at + piece, ids);
      ASSERT_GE(end, std::min(at + piece, text.size()));
      at = end;
    }
    EXPECT_EQ(at, text.size());
    EXPECT_EQ(ids, whole) << Json(text) << " in pieces of " << piece;
  }
}

TEST(Tokenizer, PiecesGiveTheIdsOfTheWhole) {
  const Scratch scratch;
  const auto tiny = load_gpt2_tokenizer(
      tiny_bpe(scratch.path(), {"a a", "aa aa", "h e", "he l", "hel l", "\u0120 a", "e r"}));
  for (const Json& c : golden()["cases"]) {
    const auto text = c["text"].get<std::string>();
    expect_pieces(*tiny, text);
    expect_pieces(*make_byte_tokenizer(), text);
    expect_pieces(*make_character_tokenizer(text), text);
    expect_pieces(*make_word_tokenizer("a text of words\n", 0), text);
    if (gpt2() != nullptr) expect_pieces(*gpt2(), text);
  }
}

// ---- A small vocabulary of the test's own

TEST(Gpt2Tokenizer, MergesByRankThenFromTheLeft) {
  const Scratch scratch;
  const auto t = load_gpt2_tokenizer(
      tiny_bpe(scratch.path(), {"l l", "h e", "he ll", "a a", "a b", "aa a", "\u0120 w"}));
  EXPECT_EQ(t->vocabulary(), 256 + 7 + 1);
  const auto spelled = [&](const std::string& text) {
    std::vector<std::string> tokens;
    for (const std::int32_t id : t->encode(text)) tokens.push_back(t->decode(Ids{id}));
    return tokens;
  };
  using Tokens = std::vector<std::string>;
  EXPECT_EQ(spelled("hello"), (Tokens{"hell", "o"}));
  EXPECT_EQ(spelled("hhelll w"), (Tokens{"h", "hell", "l", " w"}));
  EXPECT_EQ(spelled("aaa"), (Tokens{"aaa"}));
  EXPECT_EQ(spelled("aaaaa"), (Tokens{"aa", "aaa"}));
  EXPECT_EQ(spelled("aab"), (Tokens{"aa", "b"}));
  EXPECT_EQ(spelled("aaab"), (Tokens{"aa", "ab"}));
  EXPECT_EQ(spelled("\u00E9"), (Tokens{"\xC3", "\xA9"}));
  EXPECT_EQ(t->end_of_text(), 256 + 7);
  EXPECT_EQ(t->encode("<|endoftext|>").size(), 13U);
  EXPECT_THROW(t->encode("hello \xFF"), UsageError);
}

// OpenAI's loop, word for word.
std::vector<std::string> merged_plainly(const std::vector<std::string>& merges,
                                        std::vector<std::string> parts) {
  const auto rank = [&](std::size_t i) {
    return std::find(merges.begin(), merges.end(), parts[i] + " " + parts[i + 1]) - merges.begin();
  };
  while (parts.size() > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) best = rank(i) < rank(best) ? i : best;
    if (rank(best) == std::ssize(merges)) break;
    const std::string first = parts[best], second = parts[best + 1];
    std::vector<std::string> next;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const bool both = i + 1 < parts.size() && parts[i] == first && parts[i + 1] == second;
      next.push_back(both ? first + second : parts[i]);
      i += both ? 1 : 0;
    }
    parts = std::move(next);
  }
  return parts;
}

// Random merges in random order, those that no training gives too: a part merged before it can be made, one
// token from two pairs.
TEST(Gpt2Tokenizer, MergesAsThePlainLoopForAnyMerges) {
  const Scratch scratch;
  for (std::uint32_t trial = 0; trial < 60; ++trial) {
    std::uint32_t drawn = 0;
    const auto draw = [&](std::size_t below) {
      return philox4x32_10({{trial, drawn++, 0, 0}}, 7, 9).x[0] % below;
    };
    std::vector<std::string> tokens = {"a", "b", "c"}, merges;
    while (merges.size() < 14) {
      const std::string left = tokens[draw(tokens.size())], right = tokens[draw(tokens.size())];
      const std::string merge = left + " " + right;
      if (left.size() + right.size() > 6 || std::find(merges.begin(), merges.end(), merge) != merges.end())
        continue;
      if (std::find(tokens.begin(), tokens.end(), left + right) == tokens.end())
        tokens.push_back(left + right);
      merges.insert(merges.begin() + static_cast<std::ptrdiff_t>(draw(merges.size() + 1)), merge);
    }
    const auto t = load_gpt2_tokenizer(tiny_bpe(scratch.path(), merges));
    for (int word = 0; word < 20; ++word) {
      std::string text;
      std::vector<std::string> parts, found;
      for (std::size_t n = 1 + draw(40); n > 0; --n) parts.emplace_back(1, static_cast<char>('a' + draw(3)));
      for (const std::string& part : parts) text += part;
      for (const std::int32_t id : t->encode(text)) found.push_back(t->decode(Ids{id}));
      ASSERT_EQ(found, merged_plainly(merges, parts)) << text << " with " << Json(merges);
    }
  }
}

TEST(Gpt2Tokenizer, LongWordsTakeNoQuadraticTime) {
  const Scratch scratch;
  const auto t = load_gpt2_tokenizer(tiny_bpe(scratch.path(), {"a a", "aa aa", "aaaa aaaa", "b a"}));
  const auto start = std::chrono::steady_clock::now();
  const std::string same(1 << 20, 'a');
  EXPECT_EQ(t->encode(same).size(), same.size() / 8);
  EXPECT_EQ(t->decode(t->encode(same)), same);
  std::string mixed;
  for (int i = 0; i < 1 << 19; ++i) mixed += "ba";
  EXPECT_EQ(t->encode(mixed).size(), mixed.size() / 2);
  EXPECT_EQ(t->encode(std::string(1 << 20, ' ') + "a").size(), (1U << 20) + 1);
  // Quadratic time would be an hour.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

// ---- Hostile files

const std::vector<std::string> kMerges = {"a b", "ab c"};

std::string load_refusal(const Scratch& scratch) {
  return refusal<RunError>([&] { load_gpt2_tokenizer(scratch.path()); });
}

TEST(Gpt2Tokenizer, RefusesHostileEncoderJson) {
  const Scratch scratch;
  const auto refuses = [&](const std::string& json, const std::vector<std::string>& parts) {
    tiny_bpe(scratch.path(), kMerges);
    write_quickly(scratch / "encoder.json", json);
    const std::string said = load_refusal(scratch);
    expect_says(said, {scratch / "encoder.json"});
    expect_says(said, parts);
  };
  tiny_bpe(scratch.path(), kMerges);
  ASSERT_EQ(load_refusal(scratch), "accepted");
  const Json good = Json::parse(read_text(scratch / "encoder.json", 1 << 20));
  const auto changed = [&](const std::string& token, const Json& id) {
    Json json = good;
    json[token] = id;
    return json.dump();
  };
  refuses("", {"no JSON"});
  refuses(good.dump().substr(0, 1000), {"no JSON"});
  refuses(good.dump() + '\0', {"no JSON"});
  refuses("[]", {"no JSON object"});
  refuses("{}", {"no token for the byte 0x00"});
  refuses("{\"a\":" + std::string(100000, '['), {"nested"});
  refuses("{\"a\":{\"b\":[0]}}", {"nested"});
  refuses("{\"a\":\"\xFF\"}", {"no JSON"});
  refuses(changed("a", 5000), {"\"a\"", "5000", "0 to 258"});
  refuses(changed("a", 258 + 1), {"\"a\"", "259", "0 to 258"});
  refuses(changed("a", -1), {"\"a\"", "-1"});
  refuses(changed("a", 1.0), {"\"a\"", "1.0"});
  refuses(changed("a", "1"), {"\"a\""});
  refuses(changed("a", Json::array()), {"\"a\""});
  refuses(changed("a", std::numeric_limits<std::uint64_t>::max()), {"\"a\"", "18446744073709551615"});
  refuses(changed("a", good["b"]), {"each once"});
  refuses(changed("", good.size()), {"stand for bytes"});
  refuses(changed("a b", good.size()), {"\"a b\"", "stand for bytes"});
  refuses(changed("a\u4E00", good.size()), {"a\\u4e00", "stand for bytes"});
  Json without = good;
  without.erase("\u0120");
  for (Json& id : without) id = id > good["\u0120"] ? id.get<int>() - 1 : id.get<int>();
  refuses(without.dump(), {"no token for the byte 0x20"});
  std::filesystem::remove(scratch / "encoder.json");
  expect_says(load_refusal(scratch),
              {scratch / "encoder.json", "cannot be opened", "expected in one folder"});
  std::filesystem::create_directory(scratch / "encoder.json");
  expect_says(load_refusal(scratch), {scratch / "encoder.json", "not a file"});
  expect_says(refusal<RunError>([] { load_gpt2_tokenizer(""); }), {"folder"});
}

TEST(Gpt2Tokenizer, RefusesHostileVocabBpe) {
  const Scratch scratch;
  tiny_bpe(scratch.path(), kMerges);
  const auto refuses = [&](const std::string& text, const std::vector<std::string>& parts) {
    write_quickly(scratch / "vocab.bpe", text);
    const std::string said = load_refusal(scratch);
    expect_says(said, {scratch / "vocab.bpe"});
    expect_says(said, parts);
  };
  const std::string start = "#version: 0.2\n";
  write_quickly(scratch / "vocab.bpe", start + "a b\nab c\n");
  ASSERT_EQ(load_refusal(scratch), "accepted");
  refuses("", {"#version"});
  refuses("a b\nab c\n", {"#version"});
  refuses("#version", {"cut off"});
  refuses(start + "a b\nab c", {"cut off"});
  refuses(start + "a b\n", {"\"abc\"", "no merge gives"});
  refuses(start, {"no merge gives"});
  refuses(start + "a b\nab c\n\n", {"vocab.bpe:4", "not two tokens"});
  refuses(start + "a b\nabc\n", {"vocab.bpe:3", "\"abc\"", "not two tokens"});
  refuses(start + "a b\nab c\r\n", {"vocab.bpe:3", "no token"});
  refuses(start + "a b c\nab c\n", {"vocab.bpe:2", "no token"});
  refuses(start + " b\nab c\n", {"vocab.bpe:2", "no token"});
  refuses(start + "a b\nab c\na \n", {"vocab.bpe:4", "no token"});
  refuses(start + "a b\nab c\nzz a\n", {"vocab.bpe:4", "\"zz a\"", "no token"});
  refuses(start + "a b\nab c\na c\n", {"vocab.bpe:4", "gives what is no token"});
  refuses(start + "a b\nab c\na b\n", {"vocab.bpe:4", "twice"});
  refuses(start + "a b\nab c\n\xFF b\n", {"vocab.bpe:4", "no token"});
  refuses(start + "a b\nab c\n" + std::string(5000, 'a') + "\n", {"vocab.bpe:4"});
  // The end of a text must not come out of a text.
  tiny_bpe(scratch.path(), {"a b", "< |endoftext|>", "| endoftext|>"}, {"|endoftext|>", "endoftext|>"});
  expect_says(load_refusal(scratch), {"vocab.bpe:3", "ends a text"});
  std::filesystem::remove(scratch / "vocab.bpe");
  expect_says(load_refusal(scratch), {scratch / "vocab.bpe", "cannot be opened", "expected in one folder"});
}

TEST(Gpt2Tokenizer, SurvivesRandomDamage) {
  const Scratch scratch;
  tiny_bpe(scratch.path(), {"a b", "ab c", "h e", "he l"});
  int refused = 0;
  constexpr int kTrials = 300;
  for (std::uint32_t trial = 0; trial < kTrials; ++trial) {
    const std::string name = trial % 2 == 0 ? "encoder.json" : "vocab.bpe";
    const std::string good = read_text(scratch / name, 1 << 20);
    const PhiloxWords w = philox4x32_10({{trial, 0, 0, 0}}, 1, 2);
    std::string bad = good;
    const std::size_t at = w.x[0] % bad.size();
    if (w.x[1] % 3 == 0) {
      bad[at] = static_cast<char>(w.x[2]);
    } else if (w.x[1] % 3 == 1) {
      bad.erase(at, w.x[2] % 9);
    } else {
      bad.insert(at, good, w.x[2] % good.size(), w.x[3] % 16);
    }
    write_quickly(scratch / name, bad);
    try {
      const auto t = load_gpt2_tokenizer(scratch.path());
      EXPECT_EQ(t->decode(t->encode("abc hello abab")), "abc hello abab");
    } catch (const RunError&) {
      ++refused;
    }
    write_quickly(scratch / name, good);
  }
  EXPECT_GT(refused, kTrials / 2);
}

// ---- Descriptions

TEST(Tokenizer, IsMadeAgainFromItsDescription) {
  const Scratch scratch;
  const std::string folder = tiny_bpe(scratch.path(), kMerges);
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.push_back(make_byte_tokenizer());
  all.push_back(make_character_tokenizer("some text \u00E9\"\\"s + '\0'));
  all.push_back(load_gpt2_tokenizer(folder));
  all.push_back(make_word_tokenizer("some text of words", 0));
  for (const auto& t : all) {
    const auto again = make_tokenizer(Json::parse(t->describe().dump()), folder);
    EXPECT_EQ(again->describe(), t->describe());
    EXPECT_EQ(again->vocabulary(), t->vocabulary());
    EXPECT_EQ(again->encode("some text"), t->encode("some text"));
  }
  // The same tokens and merges in another JSON are the same tokenizer; others are not.
  const Json description = all[2]->describe();
  write_quickly(scratch / "encoder.json",
                Json::parse(read_text(scratch / "encoder.json", 1 << 20)).dump(4, ' ', true));
  EXPECT_EQ(make_tokenizer(description, folder)->describe(), description);
  tiny_bpe(scratch.path(), {"a b", "a c"});
  expect_says(refusal<RunError>([&] { make_tokenizer(description, folder); }), {folder, "checksum"});
}

TEST(Tokenizer, RefusesHostileDescriptions) {
  const auto refuses = [](const Json& description, const std::string& part) {
    expect_says(refusal<RunError>([&] { make_tokenizer(description, ""); }), {part});
  };
  refuses(Json(), "\"kind\"");
  refuses(Json::array({"kind"}), "\"kind\"");
  refuses({{"kind", 3}}, "\"kind\"");
  refuses({{"kind", "word\x1Bs"}}, "word\\u001bs");
  refuses({{"kind", "characters"}}, "\"characters\"");
  refuses({{"kind", "characters"}, {"characters", "ba"}}, "order");
  refuses({{"kind", "characters"}, {"characters", "aab"}}, "twice");
  refuses({{"kind", "words"}, {"words", "<unk> <eos> a a"}}, "twice");
  refuses({{"kind", "words"}, {"words", "<unk> a"}}, "<eos>");
  refuses({{"kind", "words"}, {"words", ""}}, "<unk>");
  refuses({{"kind", "words"}, {"words", "<unk> <eos> \xFF"}}, "UTF-8");
  for (const char* kind : {"tokenizer.json", "vocab.txt", "sentencepiece"}) {
    refuses({{"kind", kind}}, "\"checksum\"");
    refuses({{"kind", kind}, {"checksum", "0"}}, "data.tokenizer names the file");
  }
  refuses({{"kind", "gpt2"}}, "\"checksum\"");
  refuses({{"kind", "gpt2"}, {"checksum", "0"}}, "folder");
  EXPECT_THROW(make_tokenizer({{"kind", "characters"}, {"characters", ""}}, ""), UsageError);
}

// ---- Streams

TEST(Utf8Stream, HoldsBackWhatIsNotComplete) {
  Utf8Stream s;
  EXPECT_EQ(s.push("a\xF0\x9F"), "a");
  EXPECT_EQ(s.push("\x98"), "");
  EXPECT_EQ(s.push("\x80z\xC3"), "\U0001F600z");
  EXPECT_EQ(s.push(""), "");
  EXPECT_EQ(s.push("\xA9"), "\u00E9");
  EXPECT_EQ(s.finish(), "");
  EXPECT_EQ(s.push("\xE2\x82"), "");
  EXPECT_EQ(s.push("\x41"), "\uFFFDA");
  EXPECT_EQ(s.push("\xE2\x82"), "");
  EXPECT_EQ(s.finish(), "\uFFFD");
  EXPECT_EQ(s.finish(), "");
}

// Damaged bytes become what Python's decoder makes of them, in pieces of one, two and all bytes.
TEST(Utf8Stream, ReplacesAsStored) {
  ASSERT_GE(golden()["damaged"].size(), 50U);
  for (const Json& c : golden()["damaged"]) {
    const auto hex = c["bytes"].get<std::string>();
    std::string bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2) {
      bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, bytes.size()}) {
      Utf8Stream s;
      std::string out;
      for (std::size_t at = 0; at < bytes.size(); at += piece)
        out += s.push(std::string_view(bytes).substr(at, piece));
      EXPECT_EQ(out + s.finish(), c["text"].get<std::string>()) << hex;
    }
  }
}

}  // namespace
}  // namespace lpmm
