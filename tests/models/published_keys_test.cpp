// Keys of config.json and names of files and tensors that decide what a published model computes, or that it
// is refused.
#include <fmt/format.h>

#include <algorithm>

#include "lpmm/files/files.h"
#include "models/gguf/file.h"
#include "models/gguf/layout.h"
#include "models/gguf/rotary.h"
#include "models/published/published.h"
#include "tests/lpmm/said.h"
#include "tests/models/imported.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

class PublishedKeys : public TemporaryFolderTest {
 protected:
  // A fixture whose tensors are renamed (an empty name: left out) and whose config.json says more.
  std::string changed(const std::string& fixture, const Json& more = Json::object(),
                      const std::function<std::string(const std::string&)>& renamed = {}) const {
    const std::string from = LPMM_SOURCE_DIR "/tests/golden/" + fixture, to = path("changed");
    fs::create_directories(to);
    const SafetensorsFile file(from + "/model.safetensors");
    std::vector<SafetensorsSource> tensors;
    for (const SafetensorsEntry& entry : file.entries()) {
      const std::string name = renamed ? renamed(entry.name) : entry.name;
      if (name.empty()) continue;
      tensors.push_back({name, entry.dtype, entry.shape, [&file, &entry](const auto& sink) {
                           std::vector<std::byte> bytes(entry.bytes);
                           file.read(entry, 0, bytes);
                           sink(bytes);
                         }});
    }
    write_safetensors(to + "/model.safetensors", {}, tensors);
    Json config = parse_json(read_text(from + "/config.json", 1 << 20));
    config.update(more);
    write_text(to + "/config.json", config.dump());
    return to;
  }
  static ModelConfig read(const std::string& folder) {
    return published_family(folder).published->read(folder);
  }
  static std::string refusal(const std::string& folder) {
    return said([&] {
      const Published& published = *published_family(folder).published;
      Imported(published, published.read(folder), folder);
    });
  }
};

// transformers 5 takes the outer one where there are both, for these kinds of scaling.
TEST_F(PublishedKeys, OriginalPositionsBesideTheScalingCount) {
  const Json outer = {{"original_max_position_embeddings", 24}};
  for (const char* type : {"llama3", "yarn"}) {
    for (const bool has_both : {true, false}) {
      Json more = outer;
      more["rope_parameters"] = {{"rope_type", type}, {"factor", 4.0}};
      if (has_both) more["rope_parameters"]["original_max_position_embeddings"] = 48;
      EXPECT_EQ(read(changed("llama_tiny", more)).integer("rope_context"), 24) << type;
    }
  }
  EXPECT_EQ(read(changed("llama_tiny")).integer("rope_context"), 16);
}

// Files from before rope.scaling.type have a factor alone.
TEST_F(PublishedKeys, AGgufsFactorAloneIsLinear) {
  const auto scaling = [&](const Json& more) {
    Json keys = {{"general.architecture", "llama"}};
    keys.update(more);
    write_gguf(path("m.gguf"), keys, {});
    const GgufFile file(path("m.gguf"));
    return gguf_scaling(file, gguf_model(file), Json::object());
  };
  EXPECT_TRUE(scaling(Json::object()).is_null());
  EXPECT_TRUE(scaling({{"llama.rope.scale_linear", 1.0}}).is_null());
  const Json linear = {{"rope_type", "linear"}, {"factor", 2.0}};
  EXPECT_EQ(scaling({{"llama.rope.scale_linear", 2.0}}), linear);
  EXPECT_EQ(scaling({{"llama.rope.scaling.factor", 2.0}}), linear);
  EXPECT_TRUE(scaling({{"llama.rope.scaling.factor", 2.0}, {"llama.rope.scaling.type", "none"}}).is_null());
}

TEST_F(PublishedKeys, HeadsThatAreNotHereAreRefusedByName) {
  const auto expect_said = [](const std::string& what, const char* part) {
    EXPECT_NE(what.find(part), std::string::npos) << what;
  };
  expect_said(refusal(changed("bert_tiny", {{"architectures", {"BertForMultipleChoice"}}})),
              "config.json: its head chooses among texts; it is a BertForMultipleChoice, whose head is not "
              "here: import the model without it (BertForMultipleChoice.from_pretrained(FOLDER)");
  const auto questions = [](const std::string& name) {
    return name.starts_with("classifier.") ? "qa_outputs." + name.substr(11) : name;
  };
  expect_said(refusal(changed("bert_tiny", {{"architectures", {"BertForQuestionAnswering"}}}, questions)),
              "which a BERT has not; it is a BertForQuestionAnswering, whose head is not here");
  expect_said(refusal(changed("gpt2_wide_tiny", {{"add_cross_attention", true}})),
              "add_cross_attention is true");
  expect_said(refusal(changed("llama_tiny", {{"tie_word_embeddings", true}})),
              "set tie_word_embeddings to false");
  const auto headless = [](const std::string& name) { return name == "lm_head.weight" ? "" : name; };
  expect_said(refusal(changed("llama_tiny", Json::object(), headless)), "set tie_word_embeddings to true");
}

TEST_F(PublishedKeys, ALlamaWithoutHeadMakesVectors) {
  const std::string folder = changed("llama_tiny", {{"architectures", {"LlamaModel"}}}, [](auto& name) {
    return name.starts_with("model.") ? name.substr(6) : std::string();
  });
  const Family& family = published_family(folder);
  EXPECT_EQ(family.name, "llama-sentences");
  const ModelConfig config = family.published->read(folder);
  EXPECT_NE(family.published->remark(folder, config).find("has no head"), std::string::npos);
  Imported(*family.published, config, folder);
}

// transformers has no place for a head on a Granite, which is said before anything is trained.
TEST_F(PublishedKeys, AGranitesHeadIsSaidToStayHere) {
  const std::string folder = changed("granite_tiny");
  const Published& published = *published_family(folder).published;
  EXPECT_NE(published.remark(folder, ModelConfig()).find("no classifier on a Granite"), std::string::npos);
}

TEST_F(PublishedKeys, WeightsUnderOtherNamesAreNamed) {
  const std::string folder = changed("llama_tiny");
  const auto renamed = [&](const std::string& from, const std::string& to) {
    fs::rename(folder + "/" + from, folder + "/" + to);
    return refusal(folder);
  };
  std::string what = renamed("model.safetensors", "model.fp16.safetensors");
  EXPECT_NE(what.find("give this file: " + folder + "/model.fp16.safetensors"), std::string::npos) << what;
  what = renamed("model.fp16.safetensors", "model-00001-of-00002.safetensors");
  EXPECT_NE(what.find("no model.safetensors.index.json"), std::string::npos) << what;
  // The older layout of sentence-transformers.
  fs::create_directory(path("older"));
  fs::rename(folder, path("older/0_Transformer"));
  what = refusal(path("older"));
  EXPECT_NE(what.find("has its model in 0_Transformer"), std::string::npos) << what;
}

}  // namespace
}  // namespace lpmm
