// All that belongs to a published model stays with it: it is read, kept and written back, or named as not
// used; and a run works when the download is gone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "lpmm/files/safetensors.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

class ModelFolder : public ProgramTest {
 protected:
  // A fixture as its publisher would have it in a folder: weights and config.json.
  std::string published(const std::string& name, const json& more = json::object()) const {
    const fs::path golden = LPMM_SOURCE_DIR "/tests/golden/";
    const bool is_folder = fs::is_directory(golden / name);
    fs::create_directories(path(name));
    fs::copy_file(is_folder ? golden / name / "model.safetensors" : golden / (name + ".safetensors"),
                  path(name + "/model.safetensors"), fs::copy_options::overwrite_existing);
    json config =
        is_folder ? json::parse(read_file((golden / name / "config.json").string())) : json::object();
    config.update(more);
    write(name + "/config.json", config.dump());
    return path(name);
  }
  // Adds a tokenizer of letters.
  std::string with_words(const std::string& name, const json& more = json::object()) const {
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (char c = 'a'; c <= 'z'; ++c) words += std::string(1, c) + "\n##" + c + "\n";
    const std::string folder = published(name, more);
    write(name + "/vocab.txt", words);
    return folder;
  }
  std::string import(const std::string& from, const std::string& run) const {
    const Outcome in = run_lpmm({"import", from, "--preset", "fp32", "--out", path(run)});
    EXPECT_EQ(in.code, 0) << in.err;
    return in.err;
  }
  json exported(const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {"export",      path(run), "--hf",
                                        "--overwrite", "--out",   path(run + "_hf")};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome out = run_lpmm(command);
    EXPECT_EQ(out.code, 0) << out.err;
    return json::parse(read_file(path(run + "_hf/config.json")));
  }
  // A step of three classes from path("run").
  Outcome tune(const std::string& out) const {
    for (const std::string name : {"train", "dev"}) {
      write("set/" + name + ".tsv", "sentence\tlabel\na\tx\nb\ty\nc\tz\n");
    }
    return run_lpmm({"train", path("run/config.toml"), "--init", path("run"), "--set", "data.set=sentences",
                     "--set", "data.path=" + path("set"), "--set", "data.length=8", "--out", path(out)});
  }
};

TEST_F(ModelFolder, AnUnknownFileAndAnUnknownKeyAreNamed) {
  for (const std::string name : {"llama_tiny",
                                 "qwen2_tiny",
                                 "qwen3_tiny",
                                 "smollm3_tiny",
                                 "bert_tiny",
                                 "roberta_tiny",
                                 "distilbert_tiny",
                                 "xlm-roberta_tiny",
                                 "phi3_tiny",
                                 "olmo2_tiny",
                                 "granite_tiny",
                                 "gpt2_wide_tiny",
                                 "vit_transformers_tiny",
                                 "resnet_transformers_tiny",
                                 "marian_tiny",
                                 "gpt2_tiny",
                                 "vit_tiny",
                                 "resnet_basic",
                                 "gemma3_tiny",
                                 "mistral_tiny",
                                 "mpnet_tiny",
                                 "modernbert_tiny",
                                 "qwen3_moe_tiny"}) {
    const json type = name == "gpt2_tiny" ? json{{"model_type", "gpt2"}, {"n_head", 2}} : json::object();
    const std::string known = import(published(name, type), name + "_known");
    EXPECT_EQ(known.find("not used"), std::string::npos) << known;
    json more = type;
    more["key_of_nobody"] = 1;
    published(name, more);
    write(name + "/file_of_nobody.json", "{}");
    fs::create_directories(path(name + "/folder_of_nobody"));
    const std::string said = import(path(name), name + "_run");
    EXPECT_NE(said.find("not used: file_of_nobody.json, folder_of_nobody/, config.json: key_of_nobody\n"),
              std::string::npos)
        << name << ": " << said;
  }
}

TEST_F(ModelFolder, FilesAndKeysComeBackAsTheyCame) {
  const json more = {
      {"attention_dropout", 0.25}, {"tie_word_embeddings", false}, {"_name_or_path", "some/where"}};
  const std::string from = with_words("llama_tiny", more);
  const json original = json::parse(read_file(from + "/config.json"));
  const std::map<std::string, std::string> files = {
      {"chat_template.jinja", "{% for m in messages %}{{ m }}{% endfor %}"},
      {"generation_config.json", R"({"eos_token_id": [2, 5], "temperature": 0.6})"},
      {"tokenizer_config.json", R"({"do_lower_case": false, "pad_token": "[PAD]"})"},
      {"special_tokens_map.json", R"({"pad_token": "[PAD]"})"},
      {"additional_chat_templates/tools.jinja", "tools"},
      {"LICENSE", "as you like"}};
  fs::create_directories(from + "/additional_chat_templates");
  for (const auto& [name, text] : files) write("llama_tiny/" + name, text);
  EXPECT_NE(import(from, "run").find("not used: generation_config.json: temperature\n"), std::string::npos);
  // The download is gone, and the run is moved.
  fs::remove_all(from);
  fs::rename(path("run"), path("moved"));
  const Outcome sampled = run_lpmm({"sample", path("moved"), "--prompt", "a b", "--tokens", "2"});
  EXPECT_EQ(sampled.code, 0) << sampled.err;
  const std::string tune = write(
      "tune.toml",
      fmt::format(
          "[model]\nname = 'llama'\nlayers = 2\nheads = 4\nkv_heads = 2\nembedding = 16\nmlp_width "
          "= 20\ncontext = 64\nvocabulary = 61\nepsilon = 1e-6\nrope_factor = 4.0\nrope_context = "
          "16\n[data]\nset = 'text'\npath = '{}'\nlength = 8\n[train]\nsteps = 1\nbatch = "
          "2\n[optimizer]\nlearning_rate = 0.001\n",
          write("text.txt", std::string(600, 'a') + std::string(300, ' ') +
                                "b c d e f g h i j k "
                                "l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s")));
  const Outcome tuned = run_lpmm(
      {"train", tune, "--set", "data.validation_share=0.4", "--init", path("moved"), "--out", path("tuned")});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  for (const std::string run : {"moved", "tuned"}) {
    const json config = exported(run);
    for (const auto& [name, text] : files) EXPECT_EQ(read_file(path(run + "_hf/" + name)), text) << run;
    EXPECT_TRUE(fs::exists(path(run + "_hf/vocab.txt")));
    for (const auto& [key, value] : original.items()) {
      if (key == "rope_parameters") continue;  // written as rope_theta and rope_scaling
      ASSERT_TRUE(config.contains(key)) << run << ": " << key;
      if (key == "eos_token_id") continue;
      EXPECT_EQ(config[key], value) << run << ": " << key;
    }
    // These are the tokens of generation_config.json, at which transformers stops.
    EXPECT_EQ(config["eos_token_id"], json({2, 5}));
    fs::remove_all(path("moved"));  // the tuned run has its own
  }
}

TEST_F(ModelFolder, AnExportIsOfTheTypeThatTheModelCameIn) {
  // config.json says what the weights are not.
  const std::string said = import(published("llama_tiny", {{"dtype", "bfloat16"}}), "lie");
  EXPECT_NE(said.find("config.json: dtype is bfloat16, the weights are float32"), std::string::npos) << said;
  EXPECT_EQ(exported("lie")["dtype"], "float32");
  exported("lie", {"--type", "bf16"});
  EXPECT_EQ(import(path("lie_hf"), "run").find("the weights are"), std::string::npos);
  const auto stored = [&] {
    const SafetensorsFile file(path("run_hf/model.safetensors"));
    return file.entries()[0].dtype;
  };
  EXPECT_EQ(exported("run")["dtype"], "bfloat16");
  EXPECT_EQ(stored(), "BF16");
  EXPECT_EQ(exported("run", {"--type", "fp16"})["dtype"], "float16");
  EXPECT_EQ(stored(), "F16");
  import(path("run_hf"), "half");
  const Outcome a = run_lpmm({"logits", path("run"), "--ids", "1,2,3", "--json"}),
                b = run_lpmm({"logits", path("half"), "--ids", "1,2,3", "--json"});
  constexpr double kTwoGaps = 0.03125;  // two gaps between numbers of bf16 from 2 to 4
  EXPECT_NEAR(a.json()["logits"][2][7].get<double>(), b.json()["logits"][2][7].get<double>(), kTwoGaps);
  EXPECT_EQ(exported("run", {"--type", "fp32"})["dtype"], "float32");
  EXPECT_EQ(stored(), "F32");
  expect_failure(run_lpmm({"export", path("run"), "--type", "fp16", "--out", path("x")}), 2, {"--type fp16"});
}

TEST_F(ModelFolder, SentencesBecomeVectorsAsModulesSay) {
  const std::string from = with_words("bert_tiny");
  {  // without its head it embeds
    const SafetensorsFile file(from + "/model.safetensors");
    std::vector<SafetensorsSource> rest;
    for (const SafetensorsEntry& entry : file.entries()) {
      if (entry.name.starts_with("classifier.")) continue;
      rest.push_back({entry.name, entry.dtype, entry.shape, [&file, &entry](const auto& sink) {
                        std::vector<std::byte> bytes(entry.bytes);
                        file.read(entry, 0, bytes);
                        sink(bytes);
                      }});
    }
    write_safetensors(path("headless"), {}, rest);
  }
  fs::rename(path("headless"), from + "/model.safetensors");
  const auto vectors = [&](const std::string& modes, const std::string& module, const std::string& run) {
    fs::create_directories(from + "/1_Pooling");
    write("bert_tiny/1_Pooling/config.json", modes);
    write(
        "bert_tiny/modules.json",
        R"([{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "1_Pooling", "type": )"
        R"("sentence_transformers.models.Pooling"})" +
            module + "]");
    import(from, run);
    const Outcome out = run_lpmm({"embed", path(run), "--compute", "fp32", "--file",
                                  write("lines.txt", "a b\nc d e\n"), "--out", path(run + ".npy")});
    EXPECT_EQ(out.code, 0) << out.err;
    const std::string bytes = read_file(path(run + ".npy"));
    std::vector<float> values(16);
    std::memcpy(values.data(), bytes.data() + bytes.size() - 2 * 16 * sizeof(float), 16 * sizeof(float));
    return values;
  };
  const std::string unit = R"(, {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})";
  const std::vector<float> mean = vectors(R"({"pooling_mode_mean_tokens": true})", "", "mean"),
                           first = vectors(R"({"pooling_mode": "cls"})", "", "first"),
                           of_unit = vectors(R"({"pooling_mode_cls_token": true})", unit, "unit");
  EXPECT_NE(mean, first);
  double length = 0;
  for (const float x : first) length += double{x} * double{x};
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(of_unit[i], first[i] / std::sqrt(length), 1e-6);
  exported("unit");
  EXPECT_EQ(read_file(path("unit_hf/modules.json")), read_file(from + "/modules.json"));
  EXPECT_TRUE(fs::exists(path("unit_hf/1_Pooling/config.json")));
  write("bert_tiny/1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
  expect_failure(run_lpmm({"import", from, "--out", path("x")}), 1, {"1_Pooling/config.json", "max_tokens"});
  write("bert_tiny/modules.json", R"([{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])");
  expect_failure(run_lpmm({"import", from, "--out", path("x")}), 1, {"modules.json", "Dense"});
}

// The older key counts where there are both, as in transformers 5.
TEST_F(ModelFolder, ScalingBesideParametersOfRotaryPositionsCounts) {
  import(published("llama_tiny", {{ "rope_scaling", { {"type", "linear"}, { "factor", 3.0 } } }}), "run");
  const std::string config = read_file(path("run/config.toml"));
  EXPECT_NE(config.find("rope_factor = 3"), std::string::npos) << config;
  EXPECT_NE(config.find("rope_context = 0"), std::string::npos) << config;
}

TEST_F(ModelFolder, PicturesAreNormalisedAsTheModelSays) {
  const std::string golden = LPMM_SOURCE_DIR "/tests/golden/";
  for (const char* split : {"train", "test"}) {
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      const fs::path folder = path("set") + "/" + split + "/" + name;
      fs::create_directories(folder);
      fs::copy(golden + "pictures/stripes.png", folder / "1.png");
    }
  }
  ASSERT_EQ(run_lpmm({"data", "pack-images", path("set"), path("five.images"), "--size", "16"}).code, 0);
  const auto loss = [&](const std::string& run) {
    const Outcome out = run_lpmm({"eval", path(run), "--data", path("five.images"), "--json"});
    EXPECT_EQ(out.code, 0) << out.err;
    EXPECT_NE(out.err.find("pictures are normalised by the model's mean"), std::string::npos) << out.err;
    return out.json()["test_loss"].get<double>();
  };
  EXPECT_NE(import(published("resnet_basic"), "usual").find("by mean 0.485, 0.456, 0.406"),
            std::string::npos);
  const json cfg = {
      {"mean", {0.1, 0.2, 0.3}}, {"std", {0.4, 0.5, 0.6}}, {"crop_pct", 0.9}, {"num_classes", 7}};
  const json said = {{"architecture", "resnet10t"},
                     {"pretrained_cfg", cfg},
                     {"model_args", {{"num_classes", 7}, {"in_chans", 3}, {"global_pool", "avg"}}}};
  EXPECT_EQ(import(published("resnet_basic", said), "said"), "");
  const json config = exported("said");
  EXPECT_EQ(config["architecture"], "resnet10t");
  EXPECT_EQ(config["model_args"], json({{"num_classes", 5}, {"in_chans", 3}, {"global_pool", "avg"}}));
  EXPECT_EQ(config["pretrained_cfg"]["mean"], cfg["mean"]);
  EXPECT_EQ(config["pretrained_cfg"]["crop_pct"], 0.9);
  EXPECT_EQ(config["pretrained_cfg"]["num_classes"], 5);
  EXPECT_NE(loss("usual"), loss("said"));
  // transformers' file says the same.
  published("resnet_basic");
  write("resnet_basic/preprocessor_config.json",
        R"({"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]})");
  import(path("resnet_basic"), "theirs");
  EXPECT_EQ(loss("theirs"), loss("said"));
  write("resnet_basic/preprocessor_config.json",
        R"({"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0, 0.6]})");
  expect_failure(run_lpmm({"import", path("resnet_basic"), "--out", path("x")}), 1,
                 {"image_std is [0.4,0,0.6]"});
}

// ---- hostile and odd folders -----------------------------------------------------------------------------

// Files that lie where a run would keep its own are never lost: neither a user's, nor the download itself.
TEST_F(ModelFolder, NothingIsLostWhereARunKeepsItsFiles) {
  const std::string from = published("llama_tiny");
  write("out/model_files/mine.txt", "mine");
  expect_failure(run_lpmm({"import", from, "--out", path("out")}), 2, {"out/model_files", "mine.txt"});
  EXPECT_EQ(read_file(path("out/model_files/mine.txt")), "mine");
  fs::create_directories(path("inside"));
  fs::rename(from, path("inside/model_files"));
  expect_failure(run_lpmm({"import", path("inside/model_files"), "--out", path("inside")}), 2,
                 {"inside/model_files", "model.safetensors"});
  EXPECT_TRUE(fs::exists(path("inside/model_files/model.safetensors")));
  EXPECT_FALSE(fs::exists(path("inside/checkpoints")));
  // An import that was killed leaves files of the same names, which the next one replaces.
  write("again/model_files/config.json", "{");
  import(published("llama_tiny"), "again");
  EXPECT_EQ(json::parse(read_file(path("again/model_files/config.json")))["model_type"], "llama");
  // A link is replaced, not what it leads to.
  fs::create_directories(path("linked"));
  write("elsewhere/config.json", "{");
  fs::create_directory_symlink(path("elsewhere"), path("linked/model_files"));
  import(path("llama_tiny"), "linked");
  EXPECT_EQ(read_file(path("elsewhere/config.json")), "{");
  EXPECT_FALSE(fs::is_symlink(path("linked/model_files")));
}

// A run takes files along, and neither follows links to folders nor mixes them with what is there.
TEST_F(ModelFolder, ARunTakesFilesAlongAndNothingElse) {
  import(with_words("bert_tiny"), "run");
  write("mixed/model_files/chat_template.jinja", "of another");
  expect_failure(tune("mixed"), 2, {"mixed/model_files", "chat_template.jinja"});
  EXPECT_EQ(tune("good").code, 0);
  fs::create_directory_symlink("..", path("run/model_files/up"));
  expect_failure(tune("endless"), 1, {"model_files/up"});
  EXPECT_FALSE(fs::exists(path("endless/model_files")));
}

TEST_F(ModelFolder, FoldersAreNotTakenForFiles) {
  const std::string from = published("llama_tiny");
  fs::create_directories(from + "/LICENSES");
  EXPECT_NE(import(from, "run").find("not used: LICENSES/"), std::string::npos);
}

TEST_F(ModelFolder, UnknownKeysAreNamedAndComeBack) {
  const json odd = {{"key_of_nobody", {{"a", {1}}}}, {"rope_scaling.x", 1}};
  const std::string said = import(published("llama_tiny", odd), "run");
  EXPECT_NE(said.find("config.json: key_of_nobody"), std::string::npos) << said;
  EXPECT_NE(said.find("config.json: rope_scaling.x"), std::string::npos) << said;
  const json config = exported("run");
  for (const auto& [key, value] : odd.items()) EXPECT_EQ(config[key], value) << key;
  EXPECT_NE(import(published("llama_tiny",
                             {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}, {"odd", 1}}}}),
                   "inner")
                .find("config.json: rope_parameters.odd"),
            std::string::npos);
  // Settings that change the arithmetic are refused.
  const auto refused = [&](const std::string& name, const json& more, const std::string& word) {
    expect_failure(run_lpmm({"import", published(name, more), "--out", path("x")}), 1, {word});
  };
  refused("llama_tiny", {{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}},
          "partial_rotary_factor is 0.5");
  refused("qwen2_tiny", {{"layer_types", {"full_attention", "sliding_attention"}}}, "layer_types");
  refused("gpt2_tiny", {{"model_type", "gpt2"}, {"n_head", 2}, {"n_layer", 1}}, "n_layer is 1");
  refused("vit_tiny", {{"model_args", {{"num_heads", 2}, {"act_layer", "relu"}}}}, "act_layer");
  refused("vit_tiny", {{"model_args", {{"num_heads", 2}, {"global_pool", "avg"}}}}, "global_pool");
  refused("resnet_basic", {{"model_args", {{"output_stride", 8}}}}, "output_stride");
  refused("resnet_basic", {{"architecture", "resnetblur18"}}, "resnetblur18");
  refused("roberta_tiny", {{"id2label", {"a", "b", "c"}}}, "id2label is [");
  refused("resnet_basic", {{"label_names", "abc"}}, "label_names is \"abc\"");
}

TEST_F(ModelFolder, WhatTheHeadTellsStaysWhileItIsTheHead) {
  const json head = {{"problem_type", "single_label_classification"},
                     {"finetuning_task", "mood"},
                     {"id2label", {{"0", "bad"}, {"1", "so so"}, {"2", "good"}}},
                     {"label2id", {{"bad", 0}, {"so so", 1}, {"good", 2}}}};
  import(with_words("bert_tiny", head), "run");
  const json config = exported("run");
  for (const auto& [key, value] : head.items()) EXPECT_EQ(config.value(key, json()), value) << key;
  const Outcome tuned = tune("tuned");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const json other = exported("tuned");
  EXPECT_FALSE(other.contains("finetuning_task"));
  EXPECT_EQ(other["id2label"]["0"], "x");
  const json names = {{"label_names", {"a", "b", "c", "d", "e"}},
                      {"label_descriptions", {{"a", "the first"}}},
                      {"pretrained_cfg", {{"label_names", {"a", "b", "c", "d", "e"}}, {"tag", "t"}}}};
  import(published("resnet_basic", names), "five");
  const json five = exported("five");
  EXPECT_EQ(five["label_descriptions"], names["label_descriptions"]);
  EXPECT_EQ(five["pretrained_cfg"]["label_names"], names["label_names"]);
}

// The library's default for an absent key depends on the kind of model.
TEST_F(ModelFolder, AbsentKeysAreWhatTheLibraryTakes) {
  const auto without = [&](const std::string& name, const std::vector<std::string>& keys) {
    published(name);
    json config = json::parse(read_file(path(name + "/config.json")));
    for (const std::string& key : keys) config.erase(key);
    write(name + "/config.json", config.dump());
    return path(name);
  };
  import(without("llama_tiny", {"bos_token_id", "eos_token_id"}), "llama");
  EXPECT_EQ(exported("llama")["bos_token_id"], 1);
  EXPECT_EQ(exported("llama")["eos_token_id"], 2);
  expect_failure(run_lpmm({"import", without("qwen3_tiny", {"head_dim"}), "--out", path("x")}), 1,
                 {"512 x 16"});
  expect_failure(run_lpmm({"import", without("qwen2_tiny", {"num_key_value_heads"}), "--out", path("x")}), 1,
                 {"model.kv_heads = 32"});
  // A Mistral without a window stays one, and a translator's own token fills up.
  import(published("mistral_tiny", {{ "sliding_window", nullptr }}), "mistral");
  EXPECT_EQ(exported("mistral")["model_type"], "mistral");
  EXPECT_TRUE(exported("mistral").at("sliding_window").is_null());
  import(published("marian_tiny", {{ "pad_token_id", 3 }}), "marian");
  EXPECT_EQ(exported("marian")["pad_token_id"], 3);
}

TEST_F(ModelFolder, ARescaledPictureIsOf255Values) {
  published("resnet_basic");
  write("resnet_basic/preprocessor_config.json", R"({"size": 96})");
  import(path("resnet_basic"), "run");  // with the usual mean beside
  const json kept = json::parse(read_file(path("run/model_files/preprocessor_config.json")));
  EXPECT_EQ(kept.value("size", 0), 96);
  EXPECT_EQ(kept["image_mean"][0], 0.485);
  write("resnet_basic/preprocessor_config.json", "[]");
  expect_failure(run_lpmm({"import", path("resnet_basic"), "--out", path("x")}), 1, {"no JSON object"});
  write("resnet_basic/preprocessor_config.json",
        R"({"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6], "rescale_factor": 0.0078431})");
  expect_failure(run_lpmm({"import", path("resnet_basic"), "--out", path("x")}), 1, {"rescale_factor"});
}

TEST_F(ModelFolder, DropoutThatIsNotTakenOverIsNamed) {
  const std::string said =
      import(published("bert_tiny", {{"hidden_dropout_prob", 0.1}, {"classifier_dropout", 0.25}}), "run");
  EXPECT_NE(said.find("hidden_dropout_prob = 0.1"), std::string::npos) << said;
  EXPECT_NE(said.find("classifier_dropout = 0.25"), std::string::npos) << said;
  EXPECT_NE(said.find("model.dropout"), std::string::npos) << said;
  const std::string usual = import(published("gpt2_tiny", {{"model_type", "gpt2"}, {"n_head", 2}}), "usual");
  EXPECT_NE(usual.find("attn_pdrop = 0.1"), std::string::npos) << usual;
}

// An export removes those files of another model's export that its library would read.
TEST_F(ModelFolder, AnExportOverAnotherIsNotMixed) {
  const std::string from = with_words("bert_tiny");
  write("bert_tiny/tokenizer_config.json", R"({"do_lower_case": false})");
  import(from, "run");
  for (const char* name : {"tokenizer.json", "chat_template.jinja", "generation_config.json", "modules.json",
                           "1_Pooling/config.json", "README.md", "LICENSE"}) {
    write(std::string("run_hf/") + name, "{}");
  }
  exported("run");
  for (const char* name : {"tokenizer.json", "chat_template.jinja", "generation_config.json", "modules.json",
                           "1_Pooling/config.json"}) {
    EXPECT_FALSE(fs::exists(path(std::string("run_hf/") + name))) << name;
  }
  for (const char* name : {"README.md", "LICENSE", "vocab.txt", "tokenizer_config.json", "config.json"}) {
    EXPECT_TRUE(fs::exists(path(std::string("run_hf/") + name))) << name;
  }
  expect_failure(run_lpmm({"export", path("run"), "--hf", "--overwrite", "--out", path("run/model_files")}),
                 2, {"run/model_files"});
}

}  // namespace
}  // namespace lpmm
