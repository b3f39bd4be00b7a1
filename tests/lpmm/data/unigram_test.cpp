// Unigram, WordLevel, Precompiled and Nmt of a tokenizer.json, and XLM-RoBERTa's and CamemBERT's numbers of a
// SentencePiece model: against what the `tokenizers` package and transformers make of strings of odd parts
// (tests/golden/make_unigram_encodings.py), and hostile files.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizers/pipeline.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

using GoldenJson = nlohmann::json;

const GoldenJson& unigram_golden() {
  static const GoldenJson all =
      GoldenJson::parse(std::ifstream(LPMM_SOURCE_DIR "/tests/golden/unigram_encodings.json"));
  return all;
}

// The same draws as in Python.
std::vector<std::string> odd_strings(std::size_t count) {
  std::uint64_t state = 1;
  const auto draw = [&](std::size_t n) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33U) % n;
  };
  const auto parts = unigram_golden()["parts"].get<std::vector<std::string>>();
  std::vector<std::string> strings(count);
  for (std::string& text : strings) {
    for (std::size_t left = draw(14); left > 0; --left) text += parts[draw(parts.size())];
  }
  return strings;
}

void expect_ids(const Tokenizer& tokenizer, const GoldenJson& checks, const std::string& name) {
  const std::vector<std::string> strings = odd_strings(checks.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::string ids = fmt::format("{}", fmt::join(tokenizer.encode(strings[i]), ","));
    const std::string check = fmt::format("{:08x}", crc32(std::as_bytes(std::span(ids))));
    if (check != checks[i].get<std::string>() && ++wrong < 4)
      ADD_FAILURE() << name << ": " << i << ": " << strings[i] << ": " << ids;
  }
  EXPECT_EQ(wrong, 0U) << name;
}

std::unique_ptr<PipelineTokenizer> read_from(const Scratch& scratch, const GoldenJson& file) {
  write_text(scratch / "tokenizer.json", file.dump());
  return load_pipeline_tokenizer(scratch.path());
}

TEST(Unigram, IdsAreThoseOfTheTokenizersPackage) {
  const Scratch scratch;
  ASSERT_EQ(unigram_golden()["cases"].size(), 3U);
  ASSERT_EQ(unigram_golden()["cases"][0]["ids"].size(), 1000U);
  for (const GoldenJson& c : unigram_golden()["cases"]) {
    const auto tokenizer = read_from(scratch, c["file"]);
    expect_ids(*tokenizer, c["ids"], c["name"]);
    if (c["name"] == "words") continue;
    Utf8Stream whole;
    const std::string decoded = tokenizer->decode(tokenizer->encode(c["text"].get<std::string>()));
    EXPECT_EQ(whole.push(decoded) + whole.finish(), c["decoded"].get<std::string>()) << c["name"];
  }
}

TEST(Unigram, PiecesOfAModelAreNumberedAsTransformersDoes) {
  const Scratch scratch;
  std::string model;
  const auto hex = unigram_golden()["model"].get<std::string>();
  for (std::size_t i = 0; i < hex.size(); i += 2)
    model.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  write_text(scratch / "sentencepiece.bpe.model", model);
  for (const GoldenJson& c : unigram_golden()["fairseq"]) {
    write_text(scratch / "config.json", GoldenJson{{"model_type", c["type"]}}.dump());
    const auto tokenizer = load_pipeline_tokenizer(scratch.path());
    expect_ids(*tokenizer, c["ids"], c["type"]);
    EXPECT_EQ(tokenizer->vocabulary(), c["tokens"].get<std::int64_t>()) << c["type"];
    EXPECT_EQ(tokenizer->encode_sentences("the fox", "lower").ids,
              c["pair"].get<std::vector<std::int32_t>>());
    EXPECT_EQ(make_tokenizer(tokenizer->describe(), scratch.path())->describe(), tokenizer->describe());
  }
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{3}, model.size() / 2}) {
    write_text(scratch / "sentencepiece.bpe.model", model.substr(0, bytes));
    EXPECT_NE(said([&] { load_pipeline_tokenizer(scratch.path()); }).find("sentencepiece.bpe.model"),
              std::string::npos);
  }
}

TEST(Unigram, HostileFilesAreRefusedByName) {
  const Scratch scratch;
  const GoldenJson good = unigram_golden()["cases"][0]["file"];
  const auto refused = [&](const char* at, const GoldenJson& value) {
    GoldenJson file = good;
    file[GoldenJson::json_pointer(at)] = value;
    return said([&] { read_from(scratch, file); });
  };
  const std::string map = "/normalizer/normalizers/0/precompiled_charsmap";
  const auto text = good[GoldenJson::json_pointer(map)].get<std::string>();
  const std::pair<std::string, std::string> maps[] = {{"", "damaged"},
                                                      {"AAA", "base64"},
                                                      {"%%%%", "base64"},
                                                      {text.substr(0, 400), "damaged"},
                                                      {"/" + text.substr(1), "damaged"}};
  for (const auto& [value, why] : maps)
    EXPECT_NE(refused(map.c_str(), value).find(why), std::string::npos) << value;
  const std::pair<const char*, GoldenJson> parts[] = {
      {"/model/vocab", GoldenJson::array()},
      {"/model/vocab", {{"a", 1}}},
      {"/model/vocab/5", {"b"}},
      {"/model/vocab/5", GoldenJson::array({"<s>", 0.5})},
      {"/model/vocab/5", GoldenJson::array({std::string(2000, 'a'), 0.5})},
      {"/model/unk_id", 130},
      {"/model/unk_id", -1}};
  for (const auto& [at, value] : parts)
    EXPECT_NE(refused(at, value).find("model"), std::string::npos) << at << value;
  GoldenJson open = good;
  open["model"]["unk_id"] = nullptr;
  const auto tokenizer = read_from(scratch, open);
  EXPECT_THROW(tokenizer->encode("\u4e00"), UsageError);
  // Words alone, without one for those that are not known.
  open = unigram_golden()["cases"][2]["file"];
  open["model"]["unk_token"] = "gone";
  EXPECT_NE(said([&] { read_from(scratch, open)->encode("the cat"); }).find("cat"), std::string::npos);
}

}  // namespace
}  // namespace lpmm
