// GGUF: blocks as the publisher's own library reads and writes them (PyPI's gguf 0.17), models there and
// back, tokenizers, and files that lie.
#include "models/gguf/gguf.h"

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <limits>
#include <random>

#include "lpmm/data/tokenizer.h"
#include "lpmm/data/tokenizers/sentence_piece/sentence_piece.h"
#include "lpmm/files/files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"
#include "models/gguf/file.h"
#include "models/gguf/layout.h"
#include "models/gguf/tokenizer.h"
#include "models/published/published.h"
#include "tests/lpmm/data/sentence_pieces.h"
#include "tests/lpmm/said.h"
#include "tests/models/imported.h"
#include "tests/models/through.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

std::string golden(const std::string& name) {
  return LPMM_SOURCE_DIR "/tests/golden/" + name;
}

// ---- blocks --------------------------------------------------------------------------------------------------
struct BlockCase {
  const char* type;
  std::uint32_t crc;                // of what the library decodes four blocks to
  std::vector<std::size_t> halves;  // where scales are
};

TEST(GgufTypes, BlocksAreDecodedAsTheirLibraryDoes) {
  const BlockCase cases[] = {{"f16", 0x548ADDEFU, {0}},     {"bf16", 0x514544C0U, {}},
                             {"q8_0", 0xBD626810U, {0}},    {"q4_0", 0xA4DCD03DU, {0}},
                             {"q4_1", 0xB7E71E23U, {0, 2}}, {"q5_0", 0x270329F9U, {0}},
                             {"q5_1", 0x465B0668U, {0, 2}}, {"q4_k", 0xD15731FCU, {0, 2}},
                             {"q5_k", 0x33DF79E0U, {0, 2}}, {"q6_k", 0x1476CFE8U, {208}}};
  for (const BlockCase& c : cases) {
    const GgufType& type = *find_gguf_type(c.type);
    const auto bytes = static_cast<std::size_t>(type.bytes),
               elements = static_cast<std::size_t>(type.elements);
    std::vector<float> values(4 * elements);
    for (std::size_t b = 0; b < 4; ++b) {
      std::vector<std::byte> block(bytes);
      for (std::size_t i = 0; i < bytes; ++i) block[i] = static_cast<std::byte>(97 * (b * bytes + i) + 13);
      for (const std::size_t at : c.halves) {
        block[at] = static_cast<std::byte>(17 * b + at);
        block[at + 1] = static_cast<std::byte>(0x2C + b);
      }
      if (type.name == "bf16") block[1] = std::byte{0x3E};
      type.decode(block.data(), &values[b * elements]);
    }
    EXPECT_EQ(crc32(std::as_bytes(std::span(values))), c.crc) << c.type;
  }
}

TEST(GgufTypes, BlocksAreWrittenAsTheirLibraryDoes) {
  constexpr std::pair<const char*, std::uint32_t> kCases[] = {
      {"q8_0", 0xAF83C0CCU}, {"q4_0", 0x77E836CEU}, {"bf16", 0x03046036U}, {"f16", 0xBC55C552U}};
  std::vector<float> values(128);
  for (int i = 0; i < 128; ++i) {
    values[static_cast<std::size_t>(i)] =
        i / 32 == 2 ? 0 : static_cast<float>((i * 7919 + 31) % 2003 - 1001) / 500;
  }
  for (const auto& [name, crc] : kCases) {
    const GgufType& type = *find_gguf_type(name);
    const auto elements = static_cast<std::size_t>(type.elements);
    std::vector<std::byte> blocks(values.size() / elements * static_cast<std::size_t>(type.bytes));
    for (std::size_t i = 0; i < values.size() / elements; ++i) {
      type.encode(&values[i * elements], &blocks[i * static_cast<std::size_t>(type.bytes)]);
    }
    EXPECT_EQ(crc32(blocks), crc) << name;
  }
}

// ---- models --------------------------------------------------------------------------------------------------
class GgufModelTest : public TemporaryFolderTest, public testing::WithParamInterface<const char*> {
 protected:
  // A fixture as a GGUF of that type.
  std::string packed(const std::string& fixture, std::string_view type) const {
    const Published& published = *published_family(golden(fixture)).published;
    const ModelConfig config = published.read(golden(fixture));
    Imported model(published, config, golden(fixture));
    const StoredWeights stored(save_checkpoint(path("of_" + std::string(type)), 0, config.name, model.memory,
                                               Buffers({}, model.device), {{"x", 1}}, 0));
    const Kept kept(stored, golden(fixture));
    write_gguf_model(kept, published, config, *find_gguf_type(type), path("m.gguf"), model.device,
                     [](const std::string&) {});
    return path("m.gguf");
  }
};
INSTANTIATE_TEST_SUITE_P(, GgufModelTest,
                         testing::Values("llama_tiny", "qwen2_tiny", "qwen3_tiny", "llama_biased_tiny",
                                         "phi3_tiny", "phi3_long_tiny", "olmo2_tiny", "granite_tiny",
                                         "gemma3_tiny"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(GgufModelTest, EveryTensorComesBack) {
  const UnpackedGguf unpacked(packed(GetParam(), "f32"));
  const PublishedTensors first(golden(GetParam())), second(unpacked.folder());
  const auto values = [](const PublishedTensors::Place& place) {
    std::vector<float> out(place.entry->bytes / sizeof(float));
    place.file->read(*place.entry, 0, std::as_writable_bytes(std::span(out)));
    return out;
  };
  for (const PublishedTensors::Place& place : second.all()) {
    const auto was = first.find(place.entry->name);
    ASSERT_NE(was.entry, nullptr) << place.entry->name;
    EXPECT_EQ(place.entry->shape, was.entry->shape);
    EXPECT_EQ(values(place), values(was)) << place.entry->name;
  }
  const Published& published = *published_family(unpacked.folder()).published;
  Imported a(published, published.read(golden(GetParam())), golden(GetParam()));
  Imported b(published, published.read(unpacked.folder()), unpacked.folder());
  EXPECT_EQ(a.logits({1, 2, 3}), b.logits({1, 2, 3}));
}

TEST_P(GgufModelTest, HalvesComeBackAsWhatTheyStandFor) {
  for (const char* type : {"f16", "bf16"}) {
    const UnpackedGguf unpacked(packed(GetParam(), type));
    const Published& published = *published_family(unpacked.folder()).published;
    Imported a(published, published.read(golden(GetParam())), golden(GetParam()));
    Imported b(published, published.read(unpacked.folder()), unpacked.folder());
    const std::vector<float> whole = a.logits({1, 2, 3}), halved = b.logits({1, 2, 3});
    ASSERT_EQ(whole.size(), halved.size());
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], halved[i], 0.05F) << type;
  }
}

class GgufTest : public TemporaryFolderTest {};

// llama.cpp multiplies by what it finds, transformers by 1 more than that.
TEST_F(GgufTest, NormsOfAGemmaAreOneMore) {
  const GgufModel &gemma = *find_gguf_model("gemma3_text"), &llama = *find_gguf_model("llama");
  EXPECT_EQ(gguf_name(gemma, "model.layers.1.post_attention_layernorm.weight"),
            "blk.1.post_attention_norm.weight");
  EXPECT_EQ(gguf_name(gemma, "model.layers.1.pre_feedforward_layernorm.weight"), "blk.1.ffn_norm.weight");
  for (const char* name : {"output_norm.weight", "blk.0.attn_q_norm.weight", "blk.1.ffn_norm.weight"}) {
    EXPECT_EQ(shift_of(gemma, name), 1) << name;
    EXPECT_EQ(shift_of(llama, name), 0) << name;
  }
  EXPECT_EQ(shift_of(gemma, "blk.0.attn_q.weight"), 0);
}

TEST_P(GgufModelTest, SizesAndSettingsComeBack) {
  const UnpackedGguf unpacked(packed(GetParam(), "f32"));
  const ModelConfig was = published_family(golden(GetParam())).published->read(golden(GetParam())),
                    is = published_family(unpacked.folder()).published->read(unpacked.folder());
  for (const auto& [key, value] : was.settings) {
    EXPECT_TRUE(key == "head_width" || is.value(key) == value) << key;
  }
}

TEST_F(GgufTest, WhatLlamaCppDoesOtherwiseIsRefused) {
  const auto keys = [](const std::string& fixture) {
    const Json config = parse_json(read_text(golden(fixture) + "/config.json", 1 << 20));
    return said([&] { keys_of(config, *find_gguf_model(config["model_type"].get<std::string>())); });
  };
  EXPECT_NE(keys("mistral_tiny").find("hidden_act"), std::string::npos);
  EXPECT_NE(keys("smollm3_tiny").find("no_rope_layer_interval"), std::string::npos);
  Json gemma = parse_json(read_text(golden("gemma3_tiny") + "/config.json", 1 << 20));
  gemma["query_pre_attn_scalar"] = 10;
  EXPECT_NE(said([&] { keys_of(gemma, *find_gguf_model("gemma3_text")); }).find("llama.cpp's it is 6"),
            std::string::npos);
  EXPECT_NE(keys("gpt2_wide_tiny").find("\"relu\" has no GGUF"), std::string::npos);
}

TEST_F(GgufTest, MatricesOfAGpt2AreTurned) {
  const std::string from = golden("gpt2_wide_tiny");
  const SafetensorsFile first(from + "/model.safetensors");
  std::vector<GgufSource> sources;
  std::vector<std::vector<float>> held;
  for (const SafetensorsEntry& entry : first.entries()) held.push_back(values_of<float>(first, entry.name));
  const GgufModel& model = *find_gguf_model("gpt2");
  for (std::size_t i = 0; i < held.size(); ++i) {
    const SafetensorsEntry& entry = first.entries()[i];
    GgufSource source{gguf_name(model, entry.name), entry.shape, find_gguf_type("f32"), {}};
    std::vector<float> values = held[i];
    if (is_turned(model, source.name)) {
      std::swap(source.shape[0], source.shape[1]);
      const auto rows = static_cast<std::size_t>(entry.shape[0]),
                 columns = static_cast<std::size_t>(entry.shape[1]);
      for (std::size_t j = 0; j < values.size(); ++j) values[j % columns * rows + j / columns] = held[i][j];
    }
    source.emit = [values](const GgufSource::Sink& sink) { sink(values); };
    sources.push_back(std::move(source));
  }
  Json config = parse_json(read_text(from + "/config.json", 1 << 20));
  config["activation_function"] = "gelu_new";
  write_gguf(path("g.gguf"), keys_of(config, model), sources);
  const UnpackedGguf unpacked(path("g.gguf"));
  const PublishedTensors second(unpacked.folder());
  for (std::size_t i = 0; i < held.size(); ++i) {
    const SafetensorsEntry& entry = first.entries()[i];
    const auto place = second.find(entry.name, "transformer.");
    ASSERT_NE(place.entry, nullptr) << entry.name;
    std::vector<float> got(held[i].size());
    place.file->read(*place.entry, 0, std::as_writable_bytes(std::span(got)));
    EXPECT_EQ(got, held[i]) << entry.name;
  }
  EXPECT_EQ(published_family(unpacked.folder()).published->read(unpacked.folder()).integer("mlp_width"), 12);
}

// ---- tokenizers ------------------------------------------------------------------------------------------------
// Four merges, bytes spelled as GPT-2's, one added token; split as Llama 3.
Json byte_level_document() {
  Json vocabulary = Json::object();
  for (int c = 33; c < 127; ++c) vocabulary[std::string(1, static_cast<char>(c))] = c - 33;
  vocabulary["\u0120"] = 94;  // a space
  for (const char* token : {"th", "the", "\u0120the", "er"}) vocabulary[token] = vocabulary.size();
  return {{"added_tokens",
           {{{"id", 99},
             {"content", "<|end|>"},
             {"special", true},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Digits"}, {"individual_digits", true}},
              {{"type", "ByteLevel"},
               {"add_prefix_space", false},
               {"trim_offsets", true},
               {"use_regex", true}}}}}},
          {"post_processor", nullptr},
          {"decoder",
           {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"ignore_merges", false},
            {"vocab", vocabulary},
            {"merges", {"t h", "th e", "\u0120 the", "e r"}}}}};
}

TEST_F(GgufTest, ATokenizerOfBytesComesBack) {
  fs::create_directories(path("hf"));
  write_text(path("hf/tokenizer.json"), byte_level_document().dump());
  write_text(path("hf/tokenizer_config.json"), R"({"eos_token": "<|end|>"})");
  write_text(path("hf/chat_template.jinja"), "{{ messages }}");
  write_text(path("hf/config.json"), "{}");
  Json keys = {{"general.architecture", "llama"}};
  EXPECT_EQ(add_tokenizer(path("hf"), 104, keys), "");
  EXPECT_EQ(keys["tokenizer.ggml.pre"], "smollm");
  EXPECT_EQ(keys["tokenizer.ggml.tokens"].size(), 104);  // as many as the model has rows
  EXPECT_EQ(keys["tokenizer.ggml.token_type"][99], 3);
  EXPECT_EQ(keys["tokenizer.ggml.eos_token_id"], 99);
  write_gguf(path("t.gguf"), keys, {});
  fs::create_directories(path("back"));
  Json config;
  EXPECT_EQ(unpack_tokenizer(GgufFile(path("t.gguf")), path("back"), config), "");
  EXPECT_EQ(config["eos_token_id"], 99);
  EXPECT_EQ(read_text(path("back/chat_template.jinja"), 100), "{{ messages }}");
  const auto was = load_tokenizer(path("hf")), is = load_tokenizer(path("back"));
  for (const char* text : {"the other 12 the", "x<|end|>the", "", "<|end|>", "ether"}) {
    EXPECT_EQ(was->encode(text), is->encode(text)) << text;
  }
  EXPECT_EQ(is->end_of_text(), 99);
}

TEST_F(GgufTest, AWayToSplitThatLlamaCppHasNotIsSaid) {
  fs::create_directories(path("hf"));
  Json document = byte_level_document();
  document["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = false;
  write_text(path("hf/tokenizer.json"), document.dump());
  Json keys = Json::object();
  EXPECT_NE(add_tokenizer(path("hf"), 104, keys).find("splits words"), std::string::npos);
  EXPECT_EQ(keys["tokenizer.ggml.model"], "no_vocab");
}

// Gemma's files call <unk> a control token.
TEST_F(GgufTest, TheUnknownTokenIsTheOneThatIsNamed) {
  const Json keys = {
      {"general.architecture", "gemma3"},
      {"tokenizer.ggml.model", "llama"},
      {"tokenizer.ggml.tokens", {"<pad>", "<unk>", "a", "b", "ab", "\u2581\u2581", "\u2581", "\u2581a"}},
      {"tokenizer.ggml.scores", {0.0, 0.0, -1.0, -2.0, -3.0, 0.0, -5.0, -6.0}},
      {"tokenizer.ggml.token_type", {3, 3, 1, 1, 1, 4, 1, 1}},
      {"tokenizer.ggml.unknown_token_id", 1},
      {"tokenizer.ggml.add_space_prefix", false}};
  write_gguf(path("t.gguf"), keys, {});
  fs::create_directory(path("back"));
  Json config = Json::object();
  EXPECT_EQ(unpack_tokenizer(GgufFile(path("t.gguf")), path("back"), config), "");
  const auto tokenizer = load_tokenizer(path("back"));
  EXPECT_EQ(tokenizer->encode("abx"), (std::vector<std::int32_t>{4, 1}));
  EXPECT_EQ(tokenizer->encode("a   a"),
            (std::vector<std::int32_t>{2, 5, 7}));  // a user's token is a piece too
}

// Llama 2's kind: bytes of what has no piece, a space before each text, and a user's token.
TEST_F(GgufTest, PiecesAreJoinedByTheirScores) {
  const Json keys = {
      {"general.architecture", "llama"},
      {"tokenizer.ggml.model", "llama"},
      {"tokenizer.ggml.tokens",
       {"<unk>", "<s>", "</s>", "<0xC3>", "<0xA9>", "\u2581", "a", "b", "ab", "\u2581a", "bb", "ba"}},
      {"tokenizer.ggml.scores", {0.0, 0.0, 0.0, 0.0, 0.0, -3.0, -4.0, -5.0, -1.0, -2.0, 0.0, -0.5}},
      {"tokenizer.ggml.token_type", {2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 4, 1}},
      {"tokenizer.ggml.unknown_token_id", 0},
      {"tokenizer.ggml.bos_token_id", 1},
      {"tokenizer.ggml.eos_token_id", 2}};
  write_gguf(path("t.gguf"), keys, {});
  fs::create_directory(path("back"));
  Json config = Json::object();
  EXPECT_EQ(unpack_tokenizer(GgufFile(path("t.gguf")), path("back"), config), "");
  const auto tokenizer = load_tokenizer(path("back"));
  const std::pair<const char*, std::vector<std::int32_t>> cases[] = {
      {"ab", {5, 8}},        // "ab" has a higher score than "\u2581a"
      {"aba", {9, 11}},      // "ba" first
      {"abba", {9, 10, 9}},  // the user's token is taken out before
      {"\u00e9", {5, 3, 4}}, {"x", {5, 0}}, {"</s>a", {2, 9}}};
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(tokenizer->encode(text), ids) << text;
  }
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{5, 3, 4, 9}), "\u00e9 a");
  Json again = {{"general.architecture", "llama"}};
  EXPECT_EQ(add_tokenizer(path("back"), 12, again), "");
  for (const char* key : {"tokens", "token_type", "model", "bos_token_id", "unknown_token_id"}) {
    EXPECT_EQ(again[fmt::format("tokenizer.ggml.{}", key)],
              keys.value(fmt::format("tokenizer.ggml.{}", key), Json()))
        << key;
  }
  EXPECT_EQ(again["tokenizer.ggml.add_bos_token"], true);
  EXPECT_EQ(again["tokenizer.ggml.add_space_prefix"], true);
}

TEST_F(GgufTest, ScoresThatAreNoNumbersAndTooManyMergesAreRefused) {
  Json keys = {{"general.architecture", "llama"},
               {"tokenizer.ggml.model", "llama"},
               {"tokenizer.ggml.tokens", {"a", "b"}},
               {"tokenizer.ggml.scores", {0.5, std::numeric_limits<float>::quiet_NaN()}}};
  const auto said_of = [&] {
    write_gguf(path("t.gguf"), keys, {});
    fs::create_directories(path("back"));
    return said([&] {
      Json config = Json::object();
      unpack_tokenizer(GgufFile(path("t.gguf")), path("back"), config);
    });
  };
  EXPECT_NE(said_of().find("tokenizer.ggml.scores has a number that is not finite"), std::string::npos);
  Json tokens = Json::array(), scores = Json::array();
  for (std::size_t i = 1; i <= 600; ++i) tokens.push_back(std::string(i, 'a')), scores.push_back(-1.5);
  keys["tokenizer.ggml.tokens"] = tokens;
  keys["tokenizer.ggml.scores"] = scores;
  EXPECT_NE(said_of().find("too many ways"), std::string::npos);
}

TEST_F(GgufTest, KeysOfAnotherKindAreNamed) {
  const Json right = {{"general.architecture", "llama"},
                      {"tokenizer.ggml.model", "llama"},
                      {"tokenizer.ggml.tokens", {"<unk>", "<s>", "a"}},
                      {"tokenizer.ggml.scores", {0.0, 0.0, -1.0}},
                      {"tokenizer.ggml.token_type", {2, 3, 1}},
                      {"tokenizer.ggml.bos_token_id", 1}};
  Json keys = right, config;
  const auto unpacked = [&] {
    write_gguf(path("t.gguf"), keys, {});
    fs::create_directories(path("back"));
    config = Json::object();
    return unpack_tokenizer(GgufFile(path("t.gguf")), path("back"), config);
  };
  EXPECT_EQ(unpacked(), "");
  for (const auto& [key, value, why] : {std::tuple{"bos_token_id", Json("1"), "is \"1\", expected a number"},
                                        {"eos_token_id", Json(true), "is true, expected a number"},
                                        {"token_type", Json({2, 3, 7}), "has 7, expected 1 to 6"},
                                        {"token_type", Json({2, 3, 0}), "has 0, expected 1 to 6"},
                                        {"add_bos_token", Json(1), "is 1, expected true or false"},
                                        {"add_space_prefix", Json("no"), "is \"no\", expected true or false"},
                                        {"model", Json(5), "is 5, expected a text"}}) {
    keys = right;
    const std::string name = fmt::format("tokenizer.ggml.{}", key);
    keys[name] = value;
    EXPECT_NE(said(unpacked).find(fmt::format("{} {}", name, why)), std::string::npos) << said(unpacked);
  }
  // An unused token keeps its place, whether another is behind it or it stands before texts.
  keys = right;
  for (const int begin : {1, 2}) {
    keys["tokenizer.ggml.token_type"] = {2, begin == 1 ? 5 : 1, begin == 1 ? 1 : 5};
    keys["tokenizer.ggml.bos_token_id"] = begin;
    for (const bool adds : {true, false}) {
      keys["tokenizer.ggml.add_bos_token"] = adds;
      EXPECT_EQ(unpacked(), "");
      const std::vector<std::int32_t> before = load_tokenizer(path("back"))->before_text();
      EXPECT_EQ(before, adds ? std::vector<std::int32_t>{begin} : std::vector<std::int32_t>());
    }
  }
}

TEST_F(GgufTest, ASentencePieceModelGivesTheSameIds) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += "the quick brown fox jumps over the lazy dog, the newest of the lower dogs\n";
  write_text(path("text"), text);
  fs::create_directory(path("hf"));
  write_text(path("hf/tokenizer.model"), train_sentence_piece({"bpe", 50}, {path("text")}));
  const auto was = load_tokenizer(path("hf"));
  Json keys = {{"general.architecture", "llama"}};
  EXPECT_EQ(add_tokenizer(path("hf"), 50, keys), "");
  EXPECT_EQ(keys["tokenizer.ggml.add_space_prefix"], true);
  write_gguf(path("t.gguf"), keys, {});
  fs::create_directory(path("back"));
  Json config = Json::object();
  EXPECT_EQ(unpack_tokenizer(GgufFile(path("t.gguf")), path("back"), config), "");
  write_text(path("hf/tokenizer_config.json"), R"({"add_prefix_space": false})");
  EXPECT_EQ(add_tokenizer(path("hf"), 50, keys), "");
  EXPECT_EQ(keys["tokenizer.ggml.add_space_prefix"], false);
  const auto is = load_tokenizer(path("back"));
  std::mt19937 draw(5);
  for (int i = 0; i < 300; ++i) {
    std::string line;
    for (int n = 0; n < 30; ++n) line += text[draw() % 73];
    while (line.find("  ") != std::string::npos) line.erase(line.find("  "), 1);
    line = "a" + line + "a";  // SentencePiece trains models that take spaces at the ends away
    EXPECT_EQ(is->encode(line), was->encode(line)) << line;
  }
}

// ---- files that lie --------------------------------------------------------------------------------------------
std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string small_file(const std::string& path) {
  const Json keys = {{"general.architecture", "llama"},
                     {"llama.block_count", 1},
                     {"llama.rope.freq_base", 1e4},
                     {"tokenizer.ggml.tokens", {"a", "bc"}},
                     {"tokenizer.ggml.token_type", {1, 3}}};
  const std::vector<float> values(64, 0.5F);
  const GgufSource tensor{
      "token_embd.weight", {2, 32}, find_gguf_type("q8_0"), [&](const GgufSource::Sink& sink) {
        sink(values);
      }};
  write_gguf(path, keys, std::span(&tensor, 1));
  return bytes_of(path);
}

TEST_F(GgufTest, ADamagedFileIsRefusedOrReadWithinItsBounds) {
  const std::string whole = small_file(path("x"));
  const auto open = [&](const std::string& bytes) {
    std::ofstream(path("y"), std::ios::binary) << bytes;
    const GgufFile file(path("y"));
    for (const GgufTensor& tensor : file.tensors()) {
      std::vector<std::byte> all(tensor.bytes);
      file.read(tensor, 0, all);
    }
  };
  open(whole);
  for (std::size_t size = 0; size < whole.size() - 28; ++size) {  // which fill up the last tensor
    EXPECT_THROW(open(whole.substr(0, size)), RunError) << size;
  }
  for (std::size_t at = 0; at < whole.size() - 96; ++at) {
    for (const char value : {'\x01', '\xFF'}) {
      std::string bytes = whole;
      bytes[at] = value;
      try {
        open(bytes);
      } catch (const RunError&) {
      }
    }
  }
}

TEST_F(GgufTest, TensorsThatShareAPlaceOrBeginBetweenPlacesAreNamed) {
  const std::vector<float> values(32, 0.5F);
  std::vector<GgufSource> tensors;
  for (const char* name : {"a.weight", "b.weight"}) {
    tensors.push_back(
        {name, {32}, find_gguf_type("f32"), [&](const GgufSource::Sink& sink) { sink(values); }});
  }
  write_gguf(path("x"), {{"general.architecture", "llama"}}, tensors);
  const std::string whole = bytes_of(path("x"));
  const auto said_of = [&](char a, char b) {
    std::string bytes = whole;
    for (const auto& [name, offset] : {std::pair{"a.weight", a}, {"b.weight", b}}) {
      bytes[bytes.find(name) + 8 + 4 + 8 + 4] = offset;
    }
    std::ofstream(path("y"), std::ios::binary) << bytes;
    return said([&] { GgufFile(path("y")); });
  };
  EXPECT_EQ(said_of(0, '\x80'), "no error");
  EXPECT_EQ(said_of('\x80', 0), "no error");  // any order is right
  for (const auto& [a, b] : {std::pair{0, 0}, {0, 0x60}, {0x60, 0}}) {
    const std::string what = said_of(static_cast<char>(a), static_cast<char>(b));
    EXPECT_NE(what.find("a.weight"), std::string::npos) << what;
    EXPECT_NE(what.find("b.weight"), std::string::npos) << what;
    EXPECT_NE(what.find("overlap"), std::string::npos) << what;
  }
  EXPECT_NE(said_of(1, '\x80').find("a.weight begins at byte 1, no multiple of 32"), std::string::npos);
}

TEST_F(GgufTest, NumbersThatAreNotFiniteAreNamed) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    write_gguf(path("x"), {{"llama.attention.layer_norm_epsilon", value}}, {});
    const std::string what = said([&] { GgufFile(path("x")); });
    EXPECT_NE(what.find("llama.attention.layer_norm_epsilon has a number that is not finite"),
              std::string::npos)
        << what;
  }
}

TEST_F(GgufTest, KeysKeepTheirKinds) {
  small_file(path("x"));
  const GgufFile file(path("x"));
  EXPECT_EQ(file.keys()["llama.rope.freq_base"], 1e4);
  EXPECT_EQ(file.keys()["tokenizer.ggml.token_type"][1], 3);
  EXPECT_EQ(file.keys()["tokenizer.ggml.tokens"][1], "bc");
  ASSERT_NE(file.find("token_embd.weight"), nullptr);
  EXPECT_EQ(file.find("token_embd.weight")->shape, (std::vector<std::int64_t>{2, 32}));
}

}  // namespace
}  // namespace lpmm
