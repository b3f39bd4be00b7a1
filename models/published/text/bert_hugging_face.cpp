#include "models/published/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/program/ops/sequence/relative_bias.h"
#include "models/families.h"
#include "models/published/facts.h"
#include "models/published/published.h"
#include "models/published/sentences.h"

namespace lpmm {
namespace {

// The kinds, which differ in their settings and in what they call things.
struct Kind {
  std::string_view type;                 // in config.json
  PublishedLayout layout;                // its prefix is that of files saved with a head
  std::string_view classes;              // the weight that tells classes
  std::string_view encoder, classifier;  // architectures
  // The names of keys in config.json.
  std::string_view layers = "num_hidden_layers", heads = "num_attention_heads", width = "hidden_size",
                   mlp_width = "intermediate_size", activation = "hidden_act";
};

// Heads that tell masked words and the sentence that follows.
bool is_pretraining_head(std::string_view name) {
  return name.starts_with("cls.") || name.starts_with("lm_head.") || name.starts_with("vocab_");
}
// These, and counted positions.
bool is_left_out(std::string_view name) {
  return name.ends_with("embeddings.position_ids") || is_pretraining_head(name);
}
// RoBERTa's heads have no use for the pooler that some encoders were saved with.
bool is_left_out_with_pooler(std::string_view name) {
  return is_left_out(name) || name.find("pooler.dense.") != std::string_view::npos;
}
// The TensorFlow names of a norm's weight and bias, which the first published BERTs still have.
std::string older_name(const std::string& name) {
  constexpr std::string_view kNorm = "LayerNorm.";
  const std::size_t at = name.rfind(kNorm);
  if (at == std::string::npos) return "";
  return name.substr(0, at + kNorm.size()) + (name.ends_with("weight") ? "gamma" : "beta");
}
bool is_of_encoder(std::string_view name) {
  return !name.starts_with("classifier.") && !name.starts_with("pre_classifier.");
}

constexpr Kind kBert{
    "bert",
    {.model = "BERT", .prefix = "bert.", .is_left_out = is_left_out, .older_name = older_name},
    "classifier.weight",
    "BertModel",
    "BertForSequenceClassification"};
constexpr PublishedLayout kRobertaLayout{.model = "RoBERTa",
                                         .prefix = "roberta.",
                                         .is_left_out = is_left_out_with_pooler,
                                         .older_name = older_name};
constexpr std::string_view kRobertaClasses = "classifier.out_proj.weight";
constexpr Kind kRoberta{"roberta", kRobertaLayout, kRobertaClasses, "RobertaModel",
                        "RobertaForSequenceClassification"};
constexpr Kind kXlmRoberta{"xlm-roberta", kRobertaLayout, kRobertaClasses, "XLMRobertaModel",
                           "XLMRobertaForSequenceClassification"};
constexpr Kind kCamembert{"camembert", kRobertaLayout, kRobertaClasses, "CamembertModel",
                          "CamembertForSequenceClassification"};
constexpr Kind kDistilled{
    "distilbert",
    {.model = "DistilBERT", .prefix = "distilbert.", .is_left_out = is_left_out, .older_name = older_name},
    "classifier.weight",
    "DistilBertModel",
    "DistilBertForSequenceClassification",
    "n_layers",
    "n_heads",
    "dim",
    "hidden_dim",
    "activation"};
constexpr Kind kMpnet{
    "mpnet",
    {.model = "MPNet", .prefix = "mpnet.", .is_left_out = is_left_out, .older_name = older_name},
    kRobertaClasses,
    "MPNetModel",
    "MPNetForSequenceClassification"};
constexpr const Kind* kKinds[] = {&kBert, &kRoberta, &kXlmRoberta, &kCamembert, &kMpnet, &kDistilled};
constexpr const char* kWordClasses = "classifier.weight";  // of a head that tells something of every word
constexpr std::string_view kOfTokens = "ForTokenClassification";
constexpr double kEpsilon = 1e-12;  // of norms, where no configuration says another: DistilBERT's never does

// The kind of the published weights at `path`; null: none of these.
const Kind* kind_at(const std::string& path) {
  if (!PublishedConfig::is_beside(path)) return nullptr;
  const std::string type = PublishedConfig(PublishedConfig::beside(path)).text("model_type");
  const auto at = std::ranges::find(kKinds, type, [](const Kind* kind) { return kind->type; });
  return at == std::end(kKinds) ? nullptr : *at;
}

// The kind to export a model as: RoBERTas differ in their name alone.
const Kind& kind_of(const ModelConfig& model) {
  if (model.flag("distilled")) return kDistilled;
  if (model.flag("relative_bias")) return kMpnet;
  if (!model.flag("dense_head")) return kBert;
  for (const Kind* kind : {&kXlmRoberta, &kCamembert}) {
    if (model.name.starts_with(kind->type)) return *kind;
  }
  return kRoberta;
}

bool is_bert(const std::string& path) {
  return kind_at(path) != nullptr;
}

// RoBERTa counts positions from the one behind that of padding.
void read_roberta(const PublishedConfig& config, ModelConfig& model) {
  model.set("pooler", false);
  model.set("dense_head", true);
  const std::int64_t first =
      1 + (config.has("pad_token_id")
               ? to_count(config.json()["pad_token_id"], fmt::format("{}: pad_token_id", config.path()))
               : 1);
  const std::int64_t rows = config.size("max_position_embeddings");
  if (first >= rows) {
    throw RunError(fmt::format("{}: has {} rows of positions, the first of which would be {}", config.path(),
                               rows, first));
  }
  model.set("first_position", first);
  model.set(kContext, rows - first);
}

// MPNet counts them so too, with padding that is token 1 in every one. What makes vectors keeps its pooler.
void read_mpnet(const PublishedConfig& config, bool has_head, ModelConfig& model) {
  const bool has_pooler = model.flag("pooler") && !has_head;
  config.expect("pad_token_id", {1});
  config.expect("relative_attention_num_buckets", {kBiasRows});
  read_roberta(config, model);
  model.set("pooler", has_pooler);
  model.set("relative_bias", true);
}

// Returns true if the head classifies words, not sentences: by config.json, or else because the layer is
// absent that heads of sentences have in front.
bool tells_of_words(const PublishedTensors& tensors, const PublishedConfig& config, const Kind& kind) {
  if (tensors.find(kWordClasses).entry == nullptr) return false;
  const std::string said = config.architecture();
  if (said.ends_with(kOfTokens)) return true;
  const bool has_layer = tensors.find("pooler.dense.weight", kind.layout.prefix).entry != nullptr ||
                         tensors.find("pre_classifier.weight").entry != nullptr;
  if (!said.empty() && !has_layer) {
    throw RunError(
        fmt::format("{}: has a head without the layer in front that heads of sentences have; one of "
                    "words is a {}{}",
                    tensors.path(), kind.encoder.substr(0, kind.encoder.rfind("Model")), kOfTokens));
  }
  return !has_layer;
}

ModelConfig read_bert(const std::string& path) {
  const Kind& kind = *kind_at(path);
  const PublishedConfig config(PublishedConfig::beside(path));
  ModelConfig model = families().config("bert");
  const bool is_distilled = &kind == &kDistilled, is_first = &kind == &kBert,
             has_types = !is_distilled && &kind != &kMpnet;
  model.set("layers", config.size(kind.layers));
  model.set("heads", config.size(kind.heads));
  model.set("embedding", config.size(kind.width));
  model.set("mlp_width", config.size(kind.mlp_width));
  model.set(kContext, config.size("max_position_embeddings"));
  model.set(kVocabulary, config.size("vocab_size"));
  model.set(kTypes, has_types ? config.size("type_vocab_size") : 0);
  model.set("epsilon", is_distilled ? kEpsilon : config.positive("layer_norm_eps", kEpsilon));
  model.set("distilled", is_distilled);
  config.expect(kind.activation, {"gelu"});
  config.expect("position_embedding_type", {"absolute"});
  config.expect("is_decoder", {false});
  const PublishedTensors tensors(path);
  model.set("pooler", tensors.find("pooler.dense.weight", kind.layout.prefix).entry != nullptr);
  const bool has_classes = tensors.find(std::string(kind.classes)).entry != nullptr;
  if (&kind == &kMpnet)
    read_mpnet(config, has_classes, model);
  else if (!is_distilled && !is_first)
    read_roberta(config, model);
  model.name = kind.type;
  const bool has_words = tells_of_words(tensors, config, kind);
  const SafetensorsEntry* head = tensors.find(std::string(has_words ? kWordClasses : kind.classes)).entry;
  model.set(kOfWords, has_words);
  if (has_words) model.set("pooler", false);
  read_head(config, head == nullptr || head->shape.empty() ? 0 : static_cast<int>(head->shape[0]), model);
  if (has_words && (model.classes < 2 || model.flag(kMultiLabel))) {
    throw RunError(fmt::format("{}: tells {} of every word, not one of several classes", tensors.path(),
                               model.classes < 2 ? "a number" : "several classes"));
  }
  const PooledFrom from = pooled_from(published_folder(path), PooledFrom::kFirst, kind.type);
  model.set("first_embeds", from == PooledFrom::kFirst);
  model.set(kWeightedEmbeds, from == PooledFrom::kWeighted);
  return model;
}

std::string remark_on_bert(const std::string& path, const ModelConfig& model) {
  const PublishedTensors tensors(path);
  const bool has_head = std::ranges::any_of(tensors.all(), [](const PublishedTensors::Place& place) {
    return is_pretraining_head(place.entry->name);
  });
  const std::string_view prefix = kind_at(path)->layout.prefix;
  if (model.flag(kOfWords) && tensors.find("pooler.dense.weight", prefix).entry != nullptr)
    return "its pooler is left out, which a head of words does not use";
  return has_head ? "the heads that it was first trained with are left out" : "";
}

void load_bert(const std::string& path, ModelMemory& memory) {
  PublishedLayout layout = kind_at(path)->layout;
  // Heads that tell something of words have no use for a pooler that some were saved with.
  if (memory.find("pooler.dense.weight") < 0) layout.is_left_out = is_left_out_with_pooler;
  load_published(PublishedTensors(path), layout, memory);
}

// Throws for what Hugging Face's models have no place for; of that many classes.
void check_place(const std::string& path, const Kind& kind, const ModelConfig& m) {
  const int first = m.integer("first_position");
  if (m.flag("dense_head") != (first > 0)) {
    throw UsageError(fmt::format(
        "{}: model.first_position = {} with model.dense_head = {}: Hugging Face's BERT has neither, "
        "its RoBERTa both; export without --hf",
        path, first, m.flag("dense_head")));
  }
  if (&kind == &kMpnet && first != 2) {
    throw UsageError(fmt::format(
        "{}: model.first_position = {}: that of Hugging Face's MPNet is always 2; export without --hf", path,
        first));
  }
  if (&kind == &kDistilled && (m.integer(kTypes) > 0 || m.number("epsilon") != kEpsilon)) {
    throw UsageError(
        fmt::format("{}: model.types = {} with model.epsilon = {}: Hugging Face's DistilBERT has 0 and {}; "
                    "export without --hf",
                    path, m.integer(kTypes), m.number("epsilon"), kEpsilon));
  }
  if (&kind == &kBert && m.classes > 0 && !m.flag(kOfWords) && !m.flag("pooler")) {
    throw UsageError(
        fmt::format("{}: has a head without a pooler (model.pooler), for which Hugging Face's BERT has no "
                    "place; export without --hf",
                    path));
  }
}

void save_bert(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
               Device& device) {
  ModelConfig m = complete(config);
  const Kind& kind = kind_of(m);
  const int first = m.integer("first_position");
  // A configuration does not say how many classes there are: its data does.
  m.classes = 0;
  for (const TensorInfo& t : weights.infos()) {
    if (t.name == (m.flag(kOfWords) ? kWordClasses : kind.classes))
      m.classes = static_cast<int>(t.shape.at(0));
  }
  check_place(weights.path(), kind, m);
  const bool has_words = m.flag(kOfWords) && m.classes > 0;
  PublishedLayout layout = kind.layout;
  const std::string of_words =
      fmt::format("{}{}", kind.encoder.substr(0, kind.encoder.rfind("Model")), kOfTokens);
  Json written = {{"architectures",
                   {has_words       ? of_words
                    : m.classes > 0 ? kind.classifier
                                    : kind.encoder}},
                  {"model_type", kind.type},
                  {kind.layers, m.integer("layers")},
                  {kind.heads, m.integer("heads")},
                  {kind.width, m.integer("embedding")},
                  {kind.mlp_width, m.integer("mlp_width")},
                  {"max_position_embeddings", m.integer(kContext) + first},
                  {"vocab_size", m.integer(kVocabulary)},
                  {kind.activation, "gelu"},
                  {"torch_dtype", "float32"}};
  if (&kind != &kDistilled) written["layer_norm_eps"] = m.number("epsilon");
  if (&kind == &kMpnet)
    written["relative_attention_num_buckets"] = kBiasRows;
  else if (&kind != &kDistilled)
    written["type_vocab_size"] = m.integer(kTypes);
  if (first > 0) written["pad_token_id"] = first - 1;
  if (m.classes > 0) {
    add_head(weights.facts(), m, written);
    layout.is_behind_prefix = is_of_encoder;
  }
  save_published(weights, layout, written, folder, device);
}

}  // namespace

const Published& bert_hugging_face() {
  static constexpr Published kPublished{.by = "transformers",
                                        .kinds = "bert, camembert, distilbert, mpnet, roberta, xlm-roberta",
                                        .tokenizer = {},
                                        .is_at = is_bert,
                                        .read = read_bert,
                                        .remark = remark_on_bert,
                                        .load = load_bert,
                                        .save = save_bert};
  return kPublished;
}

}  // namespace lpmm
