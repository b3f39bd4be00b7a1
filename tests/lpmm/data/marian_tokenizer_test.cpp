// Marian's tokenizer against what transformers' made of the same files (tests/golden/make_marian_text.py).
#include "lpmm/data/pairs/marian_tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/pairs/pair_data.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/data/sentence_pieces.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;
using nlohmann::json;

const std::string kMarianText = LPMM_SOURCE_DIR "/tests/golden/marian_text";

class MarianTokenizerTest : public testing::Test {
 protected:
  MarianTokenizerTest() { take("tokenizer_config.json"); }
  void take(const std::string& name) const {
    fs::copy_file(kMarianText + "/" + name, folder_ / name, fs::copy_options::overwrite_existing);
  }
  // The folder as it was published, but for these files; null: none.
  void change(const json& files) const {
    for (const auto& item : fs::directory_iterator(folder_.path())) fs::remove(item);
    for (const std::string_view name : kMarianFiles) take(std::string(name));
    take("tokenizer_config.json");
    for (const auto& [name, content] : files.items()) {
      fs::remove(folder_ / name);
      if (!content.is_null())
        write_text(folder_ / name, content.is_string() ? content.get<std::string>() : content.dump());
    }
  }
  std::string refusal(const json& files) const {
    change(files);
    return said([&] { load_tokenizer(folder_.path()); });
  }
  static json read(const std::string& name) { return json::parse(std::ifstream(kMarianText + "/" + name)); }
  static void expect_read(const Tokenizer& t, const json& stored) {
    for (std::size_t i = 0; i < stored["texts"].size(); ++i) {
      const auto text = stored["texts"][i].get<std::string>();
      const auto ids = stored["target"][i].get<Ids>();
      EXPECT_EQ(t.encode(text), stored["source"][i].get<Ids>()) << text;
      EXPECT_EQ(t.target().encode(text), ids) << text;
      EXPECT_EQ(t.target().decode(ids), stored["decoded"][i].get<std::string>()) << text;
    }
  }
  Scratch folder_;
  json stored_ = read("expected.json");
};

TEST_F(MarianTokenizerTest, IdsAndTextsAreThoseOfTransformers) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  const auto t = load_tokenizer(kMarianText);
  ASSERT_GE(stored_["texts"].size(), 200U);
  expect_read(*t, stored_);
  for (const auto& drawn : stored_["drawn"])
    EXPECT_EQ(t->target().decode(drawn[0].get<Ids>()), drawn[1].get<std::string>()) << drawn[0];
  EXPECT_EQ(t->vocabulary(), 212);
  EXPECT_EQ(t->end_of_text(), 0);
  EXPECT_EQ(t->before_translation(), 211);
  EXPECT_THROW(t->target().decode(Ids{212}), UsageError);
  EXPECT_NE(said([&] { t->encode("a\xFF"); }).find("byte 1"), std::string::npos);
}

TEST_F(MarianTokenizerTest, FilesBesideSayWhatIsSpecial) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  ASSERT_EQ(stored_["variants"].size(), 5U);
  for (const auto& variant : stored_["variants"]) {
    SCOPED_TRACE(variant["files"].dump());
    json files = variant["files"];
    if (!files.contains("tokenizer_config.json")) files["tokenizer_config.json"] = nullptr;
    change(files);
    expect_read(*load_tokenizer(folder_.path()), variant);
  }
}

TEST_F(MarianTokenizerTest, ALongTextIsReadInPieces) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  const auto t = load_tokenizer(kMarianText);
  std::string all;
  for (const auto& text : stored_["texts"]) all += text.get<std::string>() + "\n";
  Ids pieces;
  int calls = 0;
  for (std::size_t at = 0; at < all.size(); ++calls)
    at = t->encode_from(all, at, std::min(at + 50, all.size()), pieces);
  EXPECT_GT(calls, 50);
  EXPECT_EQ(pieces, t->encode(all));
}

TEST_F(MarianTokenizerTest, ADescriptionIsOfAllFiles) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  const auto described = load_tokenizer(kMarianText)->describe();
  EXPECT_EQ(described["kind"], "marian");
  EXPECT_EQ(make_tokenizer(described, kMarianText)->describe(), described);
  EXPECT_EQ(load_tokenizer(kMarianText)->target().describe(), described);
  json vocabulary = read("vocab.json"), config = read("tokenizer_config.json");
  change({{"vocab.json", vocabulary.dump(3)}, {"tokenizer_config.json", {{"target_lang", "fr"}}}});
  EXPECT_EQ(load_tokenizer(folder_.path())->describe(), described);  // means the same
  std::swap(vocabulary["a"], vocabulary["e"]);
  config["clean_up_tokenization_spaces"] = true;
  const std::string source = read_text(kMarianText + "/source.spm", 1 << 20),
                    target = read_text(kMarianText + "/target.spm", 1 << 20);
  for (const json& files : {json{{"vocab.json", vocabulary}}, json{{"tokenizer_config.json", config}},
                            json{{"tokenizer_config.json", {{"bos_token", "a"}}}}}) {
    change(files);
    EXPECT_NE(said([&] { make_tokenizer(described, folder_.path()); }).find("its checksum is"),
              std::string::npos)
        << files;
  }
  for (const auto& [name, bytes] : {std::pair{"source.spm", target}, {"target.spm", source}}) {
    change({});
    write_text(folder_ / name, bytes);
    EXPECT_NE(said([&] { make_tokenizer(described, folder_.path()); }).find("its checksum is"),
              std::string::npos)
        << name;
  }
  const Scratch copy;
  copy_tokenizer(kMarianText, "marian", copy.path());
  EXPECT_EQ(load_tokenizer(copy.path())->describe(), described);
  EXPECT_EQ(tokenizer_paths(kMarianText).size(), 4U);
  EXPECT_EQ(tokenizer_in(kMarianText), kMarianText);
  EXPECT_EQ(marian_languages(kMarianText).target, "de");
  change({{"tokenizer_config.json", json{{"source_lang", "../../x"}, {"target_lang", "de"}}}});
  EXPECT_NE(said([&] { marian_languages(folder_.path()); }).find("source_lang is \"../../x\""),
            std::string::npos);
}

TEST_F(MarianTokenizerTest, WhatIsWrongWithFilesIsSaid) {
  for (const std::string_view name : kMarianFiles) {
    const std::string what = refusal({{std::string(name), nullptr}});
    EXPECT_NE(what.find(std::string(name) + ": there is no such file"), std::string::npos) << what;
  }
  const json vocabulary = read("vocab.json"), config = read("tokenizer_config.json");
  const auto refuses = [&](const char* file, const json& content, const std::string& part) {
    const std::string what = refusal({{file, content}});
    EXPECT_NE(what.find(std::string("/") + file), std::string::npos) << what;
    EXPECT_NE(what.find(part), std::string::npos) << what;
  };
  for (const json& id : {json(-1), json(1.5), json("2"), json(1 << 24), json(nullptr), json(1e300)}) {
    json other = vocabulary;
    other["a"] = id;
    refuses("vocab.json", other, "the token \"a\" has the id");
  }
  for (const json& id : {json(3), json(212), json((1 << 24) - 1)}) {  // taken, and past the others
    json other = vocabulary;
    other["a"] = id;
    refuses("vocab.json", other, "212 tokens have the ids 0 to 211, each once");
  }
  for (const char* token : {"</s>", "<unk>", "<pad>"}) {
    json other = vocabulary;
    other["renamed"] = other[token];
    other.erase(token);
    const std::string what = refusal({{"vocab.json", other}, {"tokenizer_config.json", nullptr}});
    EXPECT_NE(what.find(token), std::string::npos) << what;
  }
  refuses("vocab.json", json::array({1}), "no JSON object");
  refuses("vocab.json", vocabulary.dump().substr(0, 999), "is no JSON");
  refuses("vocab.json", json::object(), "has no token \"<unk>\"");
  const auto refuses_config = [&](const json& changes, const std::string& part) {
    json other = config;
    other.update(changes);
    refuses("tokenizer_config.json", other, part);
  };
  refuses_config({{"separate_vocabs", true}}, "separate_vocabs");
  refuses_config({{"sp_model_kwargs", {{"enable_sampling", true}}}}, "sp_model_kwargs");
  refuses_config({{"split_special_tokens", true}}, "split_special_tokens");
  refuses_config({{"eos_token", true}}, "a special token");
  refuses_config({{"pad_token", "<none>"}}, "<none>");
  refuses_config({{"additional_special_tokens", {1}}}, "a special token");
  refuses_config({{"extra_special_tokens", {"<none>"}}}, "<none>");
  const auto added = [](const char* id, const json& token) {
    return json{{"added_tokens_decoder", {{id, token}}}};
  };
  refuses_config(added("3", {{"content", "</s>"}}), "has the id 0 too");
  refuses_config(added("-3", {{"content", "x"}}), "an id that is none");
  refuses_config(added("3x", {{"content", "x"}}), "an id that is none");
  refuses_config(added("99999999999", {{"content", "x"}}), "an id that is none");
  refuses_config(added("0", {{"content", ""}}), "is empty");
  refuses_config(added("0", {{"content", "</s>"}, {"single_word", true}}), "single_word");
  refuses_config(added("0", "</s>"), "no JSON object");
  refuses("tokenizer_config.json", json::array(), "no JSON object");
  const std::string legacy =
      refusal({{"tokenizer_config.json", nullptr}, {"added_tokens.json", json::object()}});
  EXPECT_NE(legacy.find("added_tokens.json: is not supported"), std::string::npos) << legacy;
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  refuses("source.spm", "no model", "no SentencePiece model");
  refuses("target.spm", "", "no SentencePiece model");
  refuses_config(added("230", {{"content", "x"}}), "213 tokens have the ids");
}

// Each side by its own model.
TEST_F(MarianTokenizerTest, PairsAreReadByBothModels) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  for (const char* part : {"train", "dev"}) {
    write_text(folder_ / (std::string(part) + ".en"), stored_["texts"][0].get<std::string>() + "\n");
    write_text(folder_ / (std::string(part) + ".de"), stored_["texts"][5].get<std::string>() + "\n");
  }
  const auto t = load_tokenizer(kMarianText);
  const PairData data(load_pairs("pairs", folder_.path(), "en", "de", "dev"), *t, {211, 0}, {64});
  Batch batch;
  data.make_test_batch(0, 1, batch);
  Ids source = stored_["source"][0], target = stored_["target"][5];
  source.push_back(0);
  target.push_back(0);
  batch.source.resize(source.size());
  batch.labels.resize(target.size());
  EXPECT_EQ(batch.source, source);
  EXPECT_EQ(batch.labels, target);
  EXPECT_EQ(batch.tokens[0], 211);
}

}  // namespace
}  // namespace lpmm
