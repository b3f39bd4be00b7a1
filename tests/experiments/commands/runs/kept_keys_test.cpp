// Keys and files beside a published model that its library goes by: they are followed, come back as they
// came, or are named.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "lpmm/files/safetensors.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

class KeptKeys : public ProgramTest {
 protected:
  // A fixture, some of whose tensors may be left out or of another type, whose config.json says more.
  std::string published(const std::string& fixture, const json& more = json::object(),
                        const std::vector<std::string>& without = {},
                        const std::string& as_halves = "") const {
    const std::string from = LPMM_SOURCE_DIR "/tests/golden/" + fixture;
    fs::create_directories(path("pub"));
    const SafetensorsFile file(from + "/model.safetensors");
    std::vector<SafetensorsSource> tensors;
    for (const SafetensorsEntry& entry : file.entries()) {
      const auto is_in_name = [&](const std::string& part) {
        return entry.name.find(part) != std::string::npos;
      };
      if (std::ranges::any_of(without, is_in_name)) continue;
      const bool is_half = !as_halves.empty() && is_in_name(as_halves);
      tensors.push_back({entry.name, is_half ? "F16" : entry.dtype, entry.shape,
                         [&file, &entry, is_half](const auto& sink) {
                           std::vector<std::byte> bytes(entry.bytes);
                           file.read(entry, 0, bytes);
                           if (is_half) bytes.assign(bytes.size() / 2, std::byte{0});
                           sink(bytes);
                         }});
    }
    write_safetensors(path("pub/model.safetensors"), {}, tensors);
    json config = json::parse(read_file(from + "/config.json"));
    config.update(more);
    write("pub/config.json", config.dump());
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (char c = 'a'; c <= 'z'; ++c) words += std::string(1, c) + "\n##" + c + "\n";
    if (fixture == "bert_tiny") write("pub/vocab.txt", words);
    return path("pub");
  }
  std::string imported(const std::string& run = "run") const {
    const Outcome in = run_lpmm({"import", path("pub"), "--preset", "fp32", "--out", path(run)});
    EXPECT_EQ(in.code, 0) << in.err;
    return in.err;
  }
  // What an export says, and its config.json.
  std::pair<std::string, json> exported(const std::string& run = "run") const {
    const Outcome out = run_lpmm({"export", path(run), "--hf", "--overwrite", "--out", path("hf")});
    EXPECT_EQ(out.code, 0) << out.err;
    return {out.err, json::parse(read_file(path("hf/config.json")))};
  }
  std::string vectors(const std::string& lines, const std::string& run = "run") const {
    const Outcome out = run_lpmm(
        {"embed", path(run), "--compute", "fp32", "--file", write("l.txt", lines), "--out", path("v.npy")});
    return out.code == 0 ? read_file(path("v.npy")) : out.err;
  }
};

TEST_F(KeptKeys, TokensThatAnotherFileSaysAreNamed) {
  published("llama_tiny", {{"bos_token_id", nullptr}, {"eos_token_id", {2, 5}}, {"pad_token_id", -1}});
  write("pub/generation_config.json", R"({"bos_token_id": 1, "eos_token_id": 2})");
  const std::string said = imported();
  EXPECT_NE(said.find("generation_config.json counts before config.json: bos_token_id is 1, not null, "
                      "eos_token_id is 2, not [2,5]\n"),
            std::string::npos)
      << said;
  EXPECT_EQ(exported().second["pad_token_id"], -1);
}

TEST_F(KeptKeys, NamesOfClassesStayAsTheyCame) {
  const json by_name = {{"a", 2}, {"b", 1}, {"c", 0}};
  published("bert_tiny", {{"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}}, {"label2id", by_name}});
  imported();
  EXPECT_EQ(exported().second["label2id"], by_name);
}

TEST_F(KeptKeys, AMarianHasNoBadWordsThatItCameWithout) {
  published("marian_tiny");
  json config = json::parse(read_file(path("pub/config.json")));
  config.erase("bad_words_ids");
  write("pub/config.json", config.dump());
  imported();
  EXPECT_FALSE(exported().second.contains("bad_words_ids"));
}

TEST_F(KeptKeys, TensorsOfSeveralTypesKeepTheirOwn) {
  published("llama_tiny", json::object(), {}, "norm");
  imported();
  const auto types = [&](const std::string& folder) {
    std::map<std::string, std::string> out;
    const SafetensorsFile file(path(folder) + "/model.safetensors");
    for (const SafetensorsEntry& entry : file.entries()) out[entry.name] = entry.dtype;
    return out;
  };
  exported();
  EXPECT_EQ(types("hf"), types("pub"));
  EXPECT_EQ(types("hf").at("model.norm.weight"), "F16");
  EXPECT_FALSE(fs::exists(path("hf/weight_types.json")));
  EXPECT_EQ(run_lpmm({"export", path("run"), "--hf", "--type", "bf16", "--out", path("narrow")}).code, 0);
  for (const auto& [name, type] : types("narrow")) EXPECT_EQ(type, "BF16") << name;
}

// With so many positions a frequency is scaled almost as the longest ones, or almost not at all.
TEST_F(KeptKeys, AScalingGoesThroughAGguf) {
  for (const int positions : {640, 2500}) {
    published("llama_biased_tiny", {{"rope_parameters",
                                     {{"rope_type", "llama3"},
                                      {"rope_theta", 1e4},
                                      {"factor", 8.0},
                                      {"low_freq_factor", 1.0},
                                      {"high_freq_factor", 4.0},
                                      {"original_max_position_embeddings", positions}}}});
    const std::string run = fmt::format("run{}", positions), again = path("again" + run);
    imported(run);
    EXPECT_EQ(run_lpmm({"export", path(run), "--gguf", "--out", path(run + ".gguf")}).code, 0);
    const Outcome in = run_lpmm({"import", path(run + ".gguf"), "--out", again});
    EXPECT_EQ(in.code, 0) << in.err;
    EXPECT_NE(read_file(again + "/config.toml").find(fmt::format("rope_context = {}\n", positions)),
              std::string::npos);
  }
}

TEST_F(KeptKeys, OldShardsAreNamed) {
  published("llama_tiny");
  write("pub/model-00001-of-00002.safetensors", "");
  write("pub/model.safetensors.index.json", "{}");
  write("pub/tokenizer_config.json", R"({"truncation_side": "left"})");
  write("pub/chat_template.json", R"({"chat_template": ""})");
  const std::string said = imported();
  for (const char* part :
       {"not used: model-00001-of-00002.safetensors, model.safetensors.index.json, tokenizer_config.json: "
        "truncation_side\n",
        "its chat templates have other names than chat_template.jinja: chat_template.json"}) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
}

TEST_F(KeptKeys, UnknownKeysOfOtherFilesAreNamed) {
  const auto expect_named = [&](const std::vector<std::string>& files) {
    std::string all;
    for (const std::string& file : files) {
      json said = fs::exists(path("pub/" + file)) ? json::parse(read_file(path("pub/" + file))) : json();
      (said.is_array() ? said[0] : said)["key_of_nobody"] = 1;
      write("pub/" + file, said.dump());
      all += (all.empty() ? "" : ", ") + file + ": key_of_nobody";
    }
    const std::string said = imported("run" + files[0].substr(0, 3));
    EXPECT_NE(said.find("not used: " + all + "\n"), std::string::npos) << said;
  };
  published("bert_tiny", json::object(), {"classifier."});
  fs::create_directories(path("pub/1_Pooling"));
  write("pub/1_Pooling/config.json", R"({"word_embedding_dimension": 24, "pooling_mode": "mean"})");
  write("pub/modules.json",
        R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
            {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  expect_named({"1_Pooling/config.json", "config_sentence_transformers.json", "generation_config.json",
                "modules.json", "sentence_bert_config.json", "special_tokens_map.json",
                "tokenizer_config.json"});
  fs::remove_all(path("pub"));
  published("vit_transformers_tiny");
  expect_named({"preprocessor_config.json"});
  // Those that are done otherwise here.
  fs::remove_all(path("pub"));
  published("llama_tiny");
  write("pub/generation_config.json", R"({"temperature": 0.6, "do_sample": true, "bad_words_ids": [[3]]})");
  write("pub/tokenizer_config.json", R"({"split_special_tokens": true})");
  const std::string said = imported();
  EXPECT_NE(said.find("not used: generation_config.json: temperature, generation_config.json: bad_words_ids, "
                      "tokenizer_config.json: "
                      "split_special_tokens\n"),
            std::string::npos)
      << said;
}

TEST_F(KeptKeys, VectorsAreThoseOfTheirLibrary) {
  published("bert_tiny", json::object(), {"classifier."});
  fs::create_directories(path("pub/1_Pooling"));
  const std::string pooling = "pub/1_Pooling/config.json", library = "pub/config_sentence_transformers.json";
  write(pooling, R"({"pooling_mode": "mean"})");
  write("pub/modules.json",
        R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
            {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  write("pub/sentence_bert_config.json", R"({"max_seq_length": null})");
  write("pub/tokenizer_config.json", R"({"model_max_length": 6})");
  imported("plain");
  EXPECT_NE(read_file(path("plain/config.toml")).find("length = 6"), std::string::npos);
  EXPECT_EQ(vectors("a b c d e\n", "plain"), vectors("a b c d\n", "plain"));
  write(library, R"({"prompts": {"query": "a b "}, "default_prompt_name": "query", "truncate_dim": 4})");
  imported();
  const std::string whole = vectors("a b c\n", "plain"), cut = vectors("c\n");
  constexpr std::size_t kBytes = 16 * sizeof(float);
  EXPECT_EQ(cut.substr(cut.size() - kBytes / 4), whole.substr(whole.size() - kBytes, kBytes / 4));
  EXPECT_NE(cut.find("(1, 4)"), std::string::npos);
  write(pooling, R"({"pooling_mode": "mean", "include_prompt": false})");
  imported("without");
  EXPECT_NE(vectors("c\n", "without").find("include_prompt is false"), std::string::npos);
  write(library, R"({"prompts": {}, "default_prompt_name": "query"})");
  const Outcome in = run_lpmm({"import", path("pub"), "--out", path("x")});
  EXPECT_NE(in.err.find("default_prompt_name is none of the prompts: \"query\""), std::string::npos)
      << in.err;
}

// transformers' BERT has a pooler in front of its head; one that told masked words is saved without.
TEST_F(KeptKeys, AHeadIsDrawnWithThePoolerThatTheModelCameWithout) {
  published("bert_tiny", {{"architectures", {"BertForMaskedLM"}}}, {"classifier.", "pooler."});
  write("pub/modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"}])");
  imported();
  const std::string rows = write("x.csv", "text,label\na b,x\nb c,y\na a,x\nc c,y\na c,x\nc b,y\n");
  const Outcome tuned = run_lpmm({"train", "--init", path("run"), "--set", "data.path=" + rows, "--set",
                                  "train.steps=1", "--set", "train.batch=2", "--out", path("tuned")});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const auto [said, config] = exported("tuned");
  EXPECT_NE(said.find("not written, as the model has a head now and makes no vectors: modules.json"),
            std::string::npos)
      << said;
  EXPECT_EQ(config["architectures"][0], "BertForSequenceClassification");
  EXPECT_NE(SafetensorsFile(path("hf/model.safetensors")).find("bert.pooler.dense.weight"), nullptr);
}

}  // namespace
}  // namespace lpmm
