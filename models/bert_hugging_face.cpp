#include "models/bert_hugging_face.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "models/published.h"

namespace lpmm {
namespace {

constexpr std::string_view kPrefix = "bert.";  // of files saved with a head
constexpr const char* kClassifier = "classifier.weight";

// Heads that a model for another purpose was saved with, and counted positions.
bool is_left_out(std::string_view name) {
  return name.ends_with("embeddings.position_ids") || name.starts_with("cls.");
}

constexpr PublishedLayout kLayout{.model = "BERT", .prefix = kPrefix, .is_left_out = is_left_out};

bool is_bert(const std::string& path) {
  return PublishedConfig::is_beside(path) &&
         PublishedConfig(PublishedConfig::beside(path)).text("model_type") == "bert";
}

ModelConfig read_bert(const std::string& path) {
  const PublishedConfig config(PublishedConfig::beside(path));
  ModelConfig model = model_config("bert");
  model.set("layers", config.size("num_hidden_layers"));
  model.set("heads", config.size("num_attention_heads"));
  model.set("embedding", config.size("hidden_size"));
  model.set("mlp_width", config.size("intermediate_size"));
  model.set(kContext, config.size("max_position_embeddings"));
  model.set(kVocabulary, config.size("vocab_size"));
  model.set("types", config.size("type_vocab_size"));
  model.set("epsilon", config.number("layer_norm_eps", 1e-12));
  config.expect("hidden_act", {"gelu"});
  config.expect("position_embedding_type", {"absolute"});
  config.expect("is_decoder", {false});
  const PublishedTensors tensors(path);
  model.set("pooler", tensors.find("pooler.dense.weight", kPrefix).entry != nullptr);
  const SafetensorsEntry* head = tensors.find(kClassifier).entry;
  if (head != nullptr && !model.flag("pooler")) {
    throw RunError(fmt::format(
        "{}: has a head but no pooler: it tells something of every token, not of sentences", tensors.path()));
  }
  config.expect("problem_type", {nullptr, "single_label_classification", "regression"});
  model.classes = head == nullptr || head->shape.empty() ? 0 : static_cast<int>(head->shape[0]);
  return model;
}

void load_bert(const std::string& path, ModelMemory& memory) {
  load_published(PublishedTensors(path), kLayout, memory);
}

void save_bert(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
               Device& device) {
  ModelConfig m = complete(config);
  // A configuration does not say how many classes there are: its data does.
  m.classes = 0;
  for (const TensorInfo& t : weights.infos()) {
    if (t.name == kClassifier) m.classes = static_cast<int>(t.shape.at(0));
  }
  if (m.classes > 0 && !m.flag("pooler")) {
    throw UsageError(
        fmt::format("{}: has a head without a pooler (model.pooler), for which Hugging Face's BERT has no "
                    "place; export without --hf",
                    weights.path()));
  }
  PublishedLayout layout = kLayout;
  Json written = {{"architectures", {m.classes > 0 ? "BertForSequenceClassification" : "BertModel"}},
                  {"model_type", "bert"},
                  {"num_hidden_layers", m.integer("layers")},
                  {"num_attention_heads", m.integer("heads")},
                  {"hidden_size", m.integer("embedding")},
                  {"intermediate_size", m.integer("mlp_width")},
                  {"max_position_embeddings", m.integer(kContext)},
                  {"vocab_size", m.integer(kVocabulary)},
                  {"type_vocab_size", m.integer("types")},
                  {"layer_norm_eps", m.number("epsilon")},
                  {"hidden_act", "gelu"},
                  {"pad_token_id", 0},
                  {"torch_dtype", "float32"}};
  if (m.classes > 0) {
    written["num_labels"] = m.classes;
    layout.is_behind_prefix = [](std::string_view name) { return !name.starts_with("classifier."); };
  }
  save_published(weights, layout, written, folder, device);
}

}  // namespace

const Published& bert_hugging_face() {
  static constexpr Published kPublished{.by = "Hugging Face",
                                        .tokenizer = {},
                                        .is_at = is_bert,
                                        .read = read_bert,
                                        .load = load_bert,
                                        .save = save_bert};
  return kPublished;
}

}  // namespace lpmm
