// Tokenizers of tokenizer.json and vocab.txt: against stored encodings of the `tokenizers` package, and
// against hostile files.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizers/pipeline.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

using PlainJson = nlohmann::json;
using TokenList = std::vector<std::int32_t>;

const PlainJson& stored() {
  static const PlainJson all =
      PlainJson::parse(std::ifstream(LPMM_SOURCE_DIR "/tests/golden/tokenizer_encodings.json"));
  return all;
}

PlainJson patched(PlainJson json, const PlainJson& patch) {
  for (const auto& [key, value] : patch.items()) {
    if (key == "model") {
      json[key].update(value);
    } else {
      json[key] = value;
    }
  }
  return json;
}

std::unique_ptr<PipelineTokenizer> loaded(const Scratch& scratch, const PlainJson& json) {
  std::ofstream(scratch / "tokenizer.json", std::ios::binary) << json.dump();
  return load_pipeline_tokenizer(scratch.path());
}

std::string refused_as(const Scratch& scratch, const std::string& text) {
  std::ofstream(scratch / "tokenizer.json", std::ios::binary) << text;
  try {
    load_pipeline_tokenizer(scratch / "tokenizer.json");
  } catch (const RunError& e) {
    return e.what();
  }
  return "accepted";
}

void expect_parts(const std::string& said, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(said.find(part), std::string::npos) << part << "\nin: " << said;
}

TEST(TokenizerJson, EncodesAndDecodesAsStored) {
  const Scratch scratch;
  ASSERT_GE(stored()["cases"].size(), 28U);
  for (const PlainJson& c : stored()["cases"]) {
    const auto t = loaded(scratch, patched(stored()["bases"][c["base"]], c["patch"]));
    for (std::size_t i = 0; i < c["texts"].size(); ++i) {
      const auto text = stored()["texts"][c["texts"][i].get<std::size_t>()].get<std::string>();
      const auto ids = c["ids"][i].get<TokenList>();
      EXPECT_EQ(t->encode(text), ids) << c["name"] << ": " << text;
      if (c.contains("decoded")) {
        Utf8Stream whole, pieces;
        const auto decoded = c["decoded"][i].get<std::string>();
        EXPECT_EQ(whole.push(t->decode(ids)) + whole.finish(), decoded) << c["name"] << ": " << text;
        std::string bytes;
        for (std::size_t k = 0; k < ids.size(); ++k) bytes += t->decode(std::span(ids).subspan(k, 1), k == 0);
        EXPECT_EQ(pieces.push(bytes) + pieces.finish(), decoded) << c["name"] << ": " << text;
      }
    }
  }
}

TEST(TokenizerJson, PutsSentencesIntoTheirTemplateAsStored) {
  const Scratch scratch;
  int compared = 0;
  for (const PlainJson& c : stored()["cases"]) {
    if (!c.contains("pairs")) continue;
    const auto t = loaded(scratch, patched(stored()["bases"][c["base"]], c["patch"]));
    for (std::size_t i = 0; i < stored()["pairs"].size(); ++i, ++compared) {
      const PlainJson& pair = stored()["pairs"][i];
      const auto first = pair[0].get<std::string>();
      std::optional<std::string> second;
      if (!pair[1].is_null()) second = pair[1].get<std::string>();
      const Sentences found = t->encode_sentences(first, second, pair[2].get<std::size_t>());
      EXPECT_EQ(found.ids, c["pairs"][i][0].get<TokenList>()) << c["name"] << ": " << pair;
      EXPECT_EQ(found.types, c["pairs"][i][1].get<TokenList>()) << c["name"] << ": " << pair;
    }
  }
  EXPECT_GE(compared, 36);
  const auto bert = loaded(scratch, stored()["bases"]["words"]);
  EXPECT_EQ(bert->encode_sentences("the", "fox", 3).ids, (TokenList{2, 3, 3}));
  EXPECT_THROW(bert->encode_sentences("the", "fox", 2), UsageError);
}

// A text is cut only where that changes nothing.
TEST(TokenizerJson, PiecesGiveTheIdsOfTheWhole) {
  const Scratch scratch;
  std::string text;
  for (const PlainJson& one : stored()["texts"]) text += one.get<std::string>() + "\n";
  text += text + "the\n\n\nend\n" + text;
  for (const PlainJson& c : stored()["cases"]) {
    int pieces = 0;
    const auto t = loaded(scratch, patched(stored()["bases"][c["base"]], c["patch"]));
    const TokenList whole = t->encode(text);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{100}, std::size_t{700}}) {
      TokenList ids;
      std::size_t at = 0;
      for (; at < text.size(); ++pieces) {
        const std::size_t end = t->encode_from(text, at, std::min(at + piece, text.size()), ids);
        ASSERT_GE(end, std::min(at + piece, text.size()));
        at = end;
      }
      EXPECT_EQ(ids, whole) << c["name"] << " in pieces of " << piece;
    }
    EXPECT_GT(pieces, 20) << c["name"] << " finds no place to cut";
  }
}

TEST(TokenizerJson, IsDescribedByWhatItSaysNotHowItIsSpelled) {
  const Scratch scratch;
  const PlainJson& json = stored()["bases"]["bytes"];
  const auto t = loaded(scratch, json);
  EXPECT_EQ(t->describe()["kind"], "tokenizer.json");
  EXPECT_EQ(t->vocabulary(), 320);
  EXPECT_EQ(t->end_of_text(), 1);
  std::ofstream(scratch / "tokenizer.json", std::ios::binary) << json.dump(3, ' ', true);
  const auto again = make_tokenizer(nlohmann::ordered_json(t->describe()), scratch.path());
  EXPECT_EQ(again->describe(), t->describe());
  PlainJson other = json;
  other["model"]["merges"].erase(3);
  std::ofstream(scratch / "tokenizer.json", std::ios::binary) << other.dump();
  try {
    make_tokenizer(t->describe(), scratch.path());
    ADD_FAILURE() << "accepted";
  } catch (const RunError& e) {
    expect_parts(e.what(), {scratch.path(), "checksum"});
  }
  std::ofstream(scratch / "tokenizer_config.json") << R"({"eos_token": {"content": "<pad>"}})";
  EXPECT_EQ(load_pipeline_tokenizer(scratch.path())->end_of_text(), 2);
}

TEST(TokenizerJson, RefusesWhatItDoesNotHave) {
  const Scratch scratch;
  const PlainJson& bytes = stored()["bases"]["bytes"];
  const auto refuses = [&](const PlainJson& patch, const std::vector<std::string>& parts) {
    const std::string said = refused_as(scratch, patched(bytes, patch).dump());
    expect_parts(said, {scratch / "tokenizer.json"});
    expect_parts(said, parts);
  };
  ASSERT_EQ(refused_as(scratch, bytes.dump()), "accepted");
  refuses({{"normalizer", {{"type", "Nfx"}}}},
          {"normalizer \"Nfx\" is not supported", "BertNormalizer, NFC"});
  refuses({{"pre_tokenizer", {{"type", "UnicodeScripts"}}}},
          {"pre-tokenizer \"UnicodeScripts\"", "Metaspace"});
  refuses({{"decoder", {{"type", "CTC"}}}}, {"decoder \"CTC\"", "ByteFallback"});
  refuses({{"post_processor", {{"type", "Foo"}}}}, {"post-processor \"Foo\"", "TemplateProcessing"});
  refuses({{"model", {{"type", "Trigram"}}}}, {"model \"Trigram\"", "BPE, WordPiece, Unigram"});
  refuses({{"model", {{"dropout", 0.1}}}}, {"model: dropout"});
  refuses({{"normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"typ", 1}}}}}}},
          {"normalizer.normalizers[1]: has no type"});
  refuses({{"pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "a(b"}}}, {"behavior", "Isolated"}}}},
          {"pre_tokenizer: the regular expression \"a(b\""});
  refuses({{"pre_tokenizer", {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Other"}}}},
          {"behavior \"Other\"", "MergedWithNext"});
  refuses({{"decoder", {{"type", "Sequence"}, {"decoders", {{{"type", "Fuse"}}, {{"type", "ByteLevel"}}}}}}},
          {"decoder.decoders[1]", "behind Fuse"});
  refuses({{"normalizer", "NFC"}}, {"normalizer: is no JSON object"});
}

TEST(TokenizerJson, RefusesHostileFiles) {
  const Scratch scratch;
  const PlainJson& bytes = stored()["bases"]["bytes"];
  const auto refuses = [&](const std::string& text, const std::vector<std::string>& parts) {
    const std::string said = refused_as(scratch, text);
    expect_parts(said, {scratch / "tokenizer.json"});
    expect_parts(said, parts);
  };
  const auto changed = [&](const std::string& pointer, const PlainJson& value) {
    PlainJson json = bytes;
    json[PlainJson::json_pointer(pointer)] = value;
    return json.dump();
  };
  refuses("", {"no JSON"});
  refuses(bytes.dump().substr(0, 3000), {"no JSON"});
  refuses(bytes.dump() + '\0', {"no JSON"});
  refuses("[]", {"no JSON object"});
  refuses("{}", {"has no model"});
  refuses("{\"model\":" + std::string(100000, '['), {"nested"});
  refuses("{\"model\":{\"vocab\":{\"\xFF\":0}}}", {"no JSON"});
  refuses(changed("/model/vocab/zz", 1000), {"\"zz\"", "1000", "0 to 320"});
  refuses(changed("/model/vocab/zz", 5), {"has the id 5", "each once"});
  refuses(changed("/model/vocab/zz", -1), {"\"zz\"", "-1"});
  refuses(changed("/model/vocab/zz", 1.5), {"\"zz\"", "1.5"});
  refuses(changed("/model/vocab/zz", 1 << 30), {"\"zz\"", "1073741824"});
  refuses(changed("/model/vocab", 3), {"model.vocab: is no JSON object"});
  refuses(changed("/model/merges/0", "a"), {"the merge \"a\" is not two tokens"});
  refuses(changed("/model/merges/0", 3), {"merge"});
  refuses(changed("/model/merges/0", "zq a"), {"merge of \"zq\" and \"a\"", "no token"});
  refuses(changed("/model/merges/0", "a q"), {"gives what is no token"});
  refuses(changed("/model/merges/0", bytes["model"]["merges"][1]), {"comes twice"});
  refuses(changed("/model/merges", 3), {"merges is no list"});
  refuses(changed("/model/unk_token", "none"), {"unk_token"});
  refuses(changed("/added_tokens/0/id", 7), {"\"<s>\"", "7"});
  refuses(changed("/added_tokens/0/id", -7), {"added_tokens[0]: id"});
  refuses(changed("/added_tokens/0/content", ""), {"added_tokens[0]: is empty"});
  refuses(changed("/added_tokens", 1), {"added_tokens is no list"});
  refuses(changed("/post_processor", {{"type", "BertProcessing"}, {"sep", {"x", 9999}}, {"cls", {"y", 1}}}),
          {"9999", "320 tokens"});
  refuses(changed("/post_processor", {{"type", "RobertaProcessing"}, {"sep", {"x", 1}}, {"cls", 1}}),
          {"cls"});
  std::filesystem::remove(scratch / "tokenizer.json");
  try {
    load_pipeline_tokenizer(scratch.path());
    ADD_FAILURE() << "accepted";
  } catch (const RunError& e) {
    expect_parts(e.what(), {scratch.path(), "none of tokenizer.json, vocab.txt"});
  }
}

TEST(TokenizerJson, GivesUpOnPatternsThatTakeForever) {
  const Scratch scratch;
  const PlainJson pattern = {
      {"type", "Split"}, {"pattern", {{"Regex", "(x+x+)+y"}}}, {"behavior", "Isolated"}};
  const auto t = loaded(scratch, patched(stored()["bases"]["bytes"], {{"pre_tokenizer", pattern}}));
  EXPECT_EQ(t->encode("xxxy").size(), 4U);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(t->encode(std::string(5000, 'x') + "zy"), UsageError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_THROW(t->encode("a\xFF"), UsageError);
}

// PCRE2 reads past the end of a text that is not UTF-8.
TEST(TokenizerJson, PatternsMeetNoPartsOfCharacters) {
  const Scratch scratch;
  const auto replaces = [](const char* first, const char* pattern) {
    return PlainJson{
        {"type", "Sequence"},
        {"decoders",
         {{{"type", first}}, {{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", "b"}}}}};
  };
  PlainJson json = stored()["bases"]["pieces"];
  json["decoder"] = replaces("ByteFallback", "\\p{L}|[^a]$");
  auto t = loaded(scratch, json);
  const PlainJson& vocabulary = json["model"]["vocab"];
  const auto ids = [&](const std::vector<std::string>& tokens) {
    TokenList list;
    for (const std::string& token : tokens) list.push_back(vocabulary[token].get<std::int32_t>());
    return list;
  };
  EXPECT_EQ(t->decode(ids({"d", "x", "<0xA9>"})), "bb\xA9");
  // A character of several tokens stays whole.
  EXPECT_EQ(t->decode(ids({"<0xC3>", "<0xA9>", "<0xF0>"})), "\u00E9\xF0");

  const PlainJson model = {{"type", "BPE"},
                           {"vocab", {{"a\u00C3", 0}, {"\u00A9a", 1}, {"\u00C3a\u00C3a", 2}, {"a", 3}}},
                           {"merges", PlainJson::array()}};
  t = loaded(scratch, {{"model", model}, {"decoder", replaces("ByteLevel", "a")}});
  EXPECT_EQ(t->decode(TokenList{0, 1}), "b\u00E9b");
  EXPECT_EQ(t->decode(TokenList{2, 3}),
            "\xC3"
            "b\xC3"
            "bb");
  t = loaded(scratch, {{"model", model}, {"decoder", replaces("ByteLevel", "x*")}});
  EXPECT_EQ(t->decode(TokenList{0, 1}), "bab\u00E9bab");
}

TEST(TokenizerJson, StagesMakeNoTextExplode) {
  const Scratch scratch;
  const auto many = [](std::size_t n, const PlainJson& one, const char* list) {
    return PlainJson{{"type", "Sequence"}, {list, std::vector<PlainJson>(n, one)}};
  };
  const auto replace = [](const std::string& by) {
    return PlainJson{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", by}};
  };
  const std::string text(1000, 'a'), wide = "a \u00E9 a \u00E9";
  const auto refuses = [&](const PlainJson& patch, const std::string& part) {
    const std::string what = said([&] {
      const auto t = loaded(scratch, patched(stored()["bases"]["bytes"], patch));
      t->encode(text + wide);
    });
    expect_parts(what, {scratch / "tokenizer.json: " + part, "makes more than 32 times as much"});
  };
  const PlainJson bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const PlainJson spaces = {{"type", "Metaspace"}, {"replacement", "  "}, {"split", false}};
  const PlainJson mark = {{"type", "Metaspace"}, {"replacement", std::string(1 << 20, 'x')}};
  refuses({{"normalizer", many(16, replace("aa"), "normalizers")}}, "normalizer.normalizers[5]: ");
  refuses({{"normalizer", many(3, many(5, replace("aa"), "normalizers"), "normalizers")}},
          "normalizer.normalizers[1].normalizers[0]: ");
  refuses({{"normalizer", many(16, bytes, "normalizers")}}, "normalizer.normalizers[");
  refuses({{"normalizer", replace(std::string(1 << 16, 'b'))}}, "normalizer: ");
  refuses({{"normalizer", {{"type", "Prepend"}, {"prepend", std::string(1 << 16, 'b')}}}}, "normalizer: ");
  refuses({{"pre_tokenizer", many(16, bytes, "pretokenizers")}}, "pre_tokenizer.pretokenizers[");
  refuses({{"pre_tokenizer", many(16, spaces, "pretokenizers")}}, "pre_tokenizer.pretokenizers[");
  refuses({{"pre_tokenizer", mark}}, "pre_tokenizer: ");
  refuses({{"decoder", many(20, replace("aa"), "decoders")}}, "decoder.decoders[");
  refuses({{"decoder", replace(std::string(1 << 16, 'b'))}}, "decoder: ");
  // The parts of a text share what there is.
  std::string parts;
  for (int i = 0; i < 100; ++i) parts += "<s>a";
  const PlainJson prepend = {{"type", "Prepend"}, {"prepend", std::string(4000, 'b')}};
  const auto t = loaded(scratch, patched(stored()["bases"]["bytes"], {{"normalizer", prepend}}));
  EXPECT_EQ(t->encode("a<s>").size(), 4002U);
  EXPECT_THROW(t->encode(parts), RunError);
}

// U+FDFA is 18 letters to NFKC.
TEST(TokenizerJson, TheLargestOfRealTextsHaveRoom) {
  const Scratch scratch;
  const auto t = loaded(scratch, patched(stored()["bases"]["bytes"], {{"normalizer", {{"type", "NFKC"}}}}));
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "\uFDFA";
  EXPECT_EQ(t->decode(t->encode(text)).size(), 5000U * 33);
}

TEST(TokenizerJson, MergesByRankThenFromTheLeft) {
  const Scratch scratch;
  const PlainJson model = {
      {"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"aa", 2}, {"ab", 3}}}, {"merges", {"a a", "a b"}}};
  const auto t = loaded(scratch, {{"model", model}});
  EXPECT_EQ(t->encode("aaa"), (TokenList{2, 0}));
  EXPECT_EQ(t->encode("aab"), (TokenList{2, 1}));
  EXPECT_EQ(t->encode("bab?"), (TokenList{1, 3}));
}

TEST(TokenizerJson, LongWordsTakeNoQuadraticTime) {
  const Scratch scratch;
  const auto t = loaded(scratch, stored()["bases"]["bytes"]);
  const auto start = std::chrono::steady_clock::now();
  std::string same;
  while (same.size() < 1 << 20) same += "the";
  EXPECT_EQ(t->decode(t->encode(same)), same);
  // Quadratic time would be an hour.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

// ---- vocab.txt

TEST(VocabTxt, IsTheSameAsTheTokenizerJson) {
  const Scratch scratch;
  const PlainJson& json = stored()["bases"]["words"];
  const auto t = loaded(scratch, json);
  std::vector<std::string> lines(json["model"]["vocab"].size());
  for (const auto& [token, id] : json["model"]["vocab"].items()) lines[id.get<std::size_t>()] = token;
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  std::ofstream(scratch / "vocab.txt", std::ios::binary) << text;
  const auto same = load_pipeline_tokenizer(scratch / "vocab.txt");
  EXPECT_EQ(same->vocabulary(), t->vocabulary());
  for (const PlainJson& one : stored()["texts"]) {
    const auto ids = t->encode(one.get<std::string>());
    EXPECT_EQ(same->encode(one.get<std::string>()), ids) << one;
    EXPECT_EQ(same->decode(ids), t->decode(ids)) << one;
  }
  EXPECT_EQ(same->encode_sentences("the fox", "the dog").ids, t->encode_sentences("the fox", "the dog").ids);
  EXPECT_EQ(same->describe()["kind"], "vocab.txt");
  EXPECT_EQ(make_tokenizer(same->describe(), scratch / "vocab.txt")->describe(), same->describe());
  // A cased one says so in the file beside it.
  std::ofstream(scratch / "tokenizer_config.json") << R"({"do_lower_case": false})";
  const auto cased = load_pipeline_tokenizer(scratch / "vocab.txt");
  EXPECT_NE(cased->describe(), same->describe());
  EXPECT_EQ(cased->encode("THE"), TokenList{1});
  EXPECT_NE(same->encode("THE"), TokenList{1});

  const auto refuses = [&](const std::string& what, const std::vector<std::string>& parts) {
    std::ofstream(scratch / "vocab.txt", std::ios::binary) << what;
    try {
      load_pipeline_tokenizer(scratch / "vocab.txt");
      ADD_FAILURE() << "accepted";
    } catch (const RunError& e) {
      expect_parts(e.what(), {scratch / "vocab.txt"});
      expect_parts(e.what(), parts);
    }
  };
  refuses(text + "the\n", {":121: the token \"the\" comes twice"});
  refuses("", {"[UNK]"});
  refuses("a\n\xFF\n", {":2: is no UTF-8"});
}

}  // namespace
}  // namespace lpmm
