// Tests of the files that belong beside a tokenizer's own, and of models with fewer rows than it has tokens.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizers/pipeline.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

using Ids = std::vector<std::int32_t>;
using AnyJson = nlohmann::json;

class TokenizerBeside : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  // [PAD] [UNK] [CLS] [SEP] [MASK] a b c
  std::unique_ptr<PipelineTokenizer> words() const {
    write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n");
    return load_pipeline_tokenizer(folder_ / "vocab.txt");
  }
  // Bytes as GPT-2 spells them, behind <s> and <pad>, and "ab" in the end.
  void write_bytes(const std::string& more = "") const {
    AnyJson vocabulary = {{"<s>", 0}, {"<pad>", 1}};
    for (char c = 'a'; c <= 'z'; ++c) vocabulary[std::string(1, c)] = vocabulary.size();
    vocabulary["ab"] = vocabulary.size();
    if (!more.empty()) vocabulary[more] = vocabulary.size();
    write("vocab.json", vocabulary.dump());
    write("merges.txt", "#version: 0.2\na b\n");
  }
  // A copy of the tokenizer in that file.
  std::string copied(const std::string& name) const {
    copy_tokenizer(folder_ / name, name, folder_ / "copy");
    return folder_ / "copy";
  }
  Scratch folder_;
};

TEST_F(TokenizerBeside, AddedTokensOfAVocabTxtAreFound) {
  const std::string alone = words()->describe().dump();
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"8": {"content": "[E]", "special": true}}, "cls_token": "[CLS]"})");
  const auto decoder = words();
  EXPECT_EQ(decoder->encode("a[E] b [E]"), (Ids{5, 8, 6, 8}));
  EXPECT_NE(decoder->describe().dump(), alone);
  // Files from before transformers 4.34 have this form; a token without a number gets the next one.
  write("tokenizer_config.json", R"({"additional_special_tokens": ["[F]", "b"]})");
  write("added_tokens.json", R"({"[E]": 8})");
  EXPECT_EQ(words()->encode("a[E]b[F]"), (Ids{5, 8, 6, 9}));
  write("added_tokens.json", R"({"[E]": -1})");
  EXPECT_NE(said([&] { words(); }).find("added_tokens.json: the id \"-1\""), std::string::npos);
}

TEST_F(TokenizerBeside, SpecialTokensMayHaveOtherNames) {
  write("vocab.txt", "<pad>\n<unk>\n<s>\n</s>\n<mask>\na\n");
  EXPECT_THROW(load_pipeline_tokenizer(folder_ / "vocab.txt"), RunError);
  write("special_tokens_map.json",
        R"({"unk_token": "<unk>", "sep_token": {"content": "</s>"}, "pad_token": "<pad>", "cls_token": "<s>",
            "mask_token": "<mask>"})");
  const auto t = load_pipeline_tokenizer(folder_ / "vocab.txt");
  EXPECT_EQ(t->encode_sentences("a z").ids, (Ids{2, 5, 1, 3}));
}

// MPNet puts around sentences what RoBERTa does, as either file says.
TEST_F(TokenizerBeside, AVocabTxtMayBeMpnets) {
  write("vocab.txt", "<s>\n<pad>\n</s>\n<mask>\na\nb\n[UNK]\n");
  write("config.json", R"({"model_type": "mpnet"})");
  const auto pair = [&] {
    return load_pipeline_tokenizer(folder_ / "vocab.txt")->encode_sentences("A z", "b");
  };
  EXPECT_EQ(pair().ids, (Ids{0, 4, 6, 2, 2, 5, 2}));
  EXPECT_EQ(pair().types, Ids(7));
  EXPECT_EQ(load_tokenizer(copied("vocab.txt"))->describe(),
            load_tokenizer(folder_ / "vocab.txt")->describe());
  write("config.json", R"({"model_type": "bert"})");
  EXPECT_NE(said(pair).find("as BERT's has"), std::string::npos);
  write("tokenizer_config.json", R"({"tokenizer_class": "MPNetTokenizer"})");
  EXPECT_EQ(pair().ids, (Ids{0, 4, 6, 2, 2, 5, 2}));
}

TEST_F(TokenizerBeside, VocabJsonWithMergesIsOneWithTokensOfItsOwn) {
  write_bytes();
  const auto t = load_tokenizer(folder_ / "vocab.json");
  EXPECT_EQ(t->encode("abba"), (Ids{28, 3, 2}));
  EXPECT_EQ(t->describe()["kind"], "vocab.json");
  EXPECT_EQ(make_tokenizer(t->describe(), folder_.path())->describe(), t->describe());
  EXPECT_EQ(tokenizer_paths(folder_.path()).size(), 2U);
  EXPECT_FALSE(is_plain_gpt2(folder_.path()));
  // Special tokens are found where a file says so.
  write("tokenizer_config.json",
        R"({"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "GPT2Tokenizer"})");
  const auto special = load_tokenizer(folder_ / "vocab.json");
  EXPECT_EQ(special->encode("<s>ab</s>"), (Ids{0, 28, 29}));
  EXPECT_EQ(special->end_of_text(), 29);
  EXPECT_EQ(load_tokenizer(copied("vocab.json"))->describe(), special->describe());
  // A file that lost merges does not pass.
  write_bytes("cd");
  EXPECT_NE(said([&] { load_tokenizer(folder_ / "vocab.json"); }).find("no merge gives the token"),
            std::string::npos);
}

TEST_F(TokenizerBeside, OfRobertaItPutsTokensAround) {
  AnyJson vocabulary = {{"<s>", 0},    {"<pad>", 1}, {"</s>", 2},   {"<unk>", 3},
                        {"<mask>", 4}, {"a", 5},     {"\u0120", 7}, {"b", 6}};
  write("vocab.json", vocabulary.dump());
  write("merges.txt", "#version: 0.2\n");
  write("config.json", R"({"model_type": "roberta"})");
  const auto t = load_pipeline_tokenizer(folder_.path());
  EXPECT_EQ(t->encode_sentences("a", "b").ids, (Ids{0, 5, 2, 2, 6, 2}));
  EXPECT_EQ(t->encode("a <mask>b"), (Ids{5, 7, 4, 6}));
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"4": {"content": "<mask>", "lstrip": true}}})");
  EXPECT_EQ(load_pipeline_tokenizer(folder_.path())->encode("a <mask>b"), (Ids{5, 4, 6}));
}

TEST_F(TokenizerBeside, AddedTokensWithoutARowAreRefusedInTexts) {
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"8": {"content": "[E]"}, "9": {"content": "[F]"}}})");
  const auto t = words();
  EXPECT_EQ(t->fit(10), "");
  EXPECT_EQ(t->fit(7), "");  // c has no row: it is the tokenizer of another model
  EXPECT_EQ(t->vocabulary(), 10);
  const std::string described = t->describe().dump();
  EXPECT_EQ(t->fit(9), "\"[F]\"");
  EXPECT_EQ(t->vocabulary(), 9);
  EXPECT_EQ(t->describe().dump(), described);
  EXPECT_EQ(t->encode("a[E]"), (Ids{5, 8}));
  EXPECT_NE(said([&] { t->encode("a[F]"); }).find("the token \"[F]\" (id 9), for which the model has no row"),
            std::string::npos);
  EXPECT_THROW(t->decode(Ids{9}), UsageError);
}

}  // namespace
}  // namespace lpmm
