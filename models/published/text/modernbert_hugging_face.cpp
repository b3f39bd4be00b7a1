#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "models/families.h"
#include "models/published/facts.h"
#include "models/published/layouts.h"
#include "models/published/published.h"
#include "models/published/sentences.h"

namespace lpmm {
namespace {

constexpr std::string_view kType = "modernbert", kPrefix = "model.", kOfTokens = "ForTokenClassification";
constexpr std::string_view kEvery = "global_attn_every_n_layers", kLayerTypes = "layer_types",
                           kParameters = "rope_parameters";
constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";
constexpr const char* kClasses = "classifier.weight";  // theirs

struct HeadName {
  std::string_view ours, theirs;
};
constexpr HeadName kHead[] = {{"classifier.dense.", "head.dense."},
                              {"classifier.norm.", "head.norm."},
                              {"classifier.out_proj.", "classifier."}};

std::vector<std::string> parts(const std::string& name) {
  for (const HeadName& row : kHead) {
    if (name.starts_with(row.ours)) return {std::string(row.theirs) + name.substr(row.ours.size())};
  }
  return {name};
}
bool is_of_encoder(std::string_view name) {
  return !name.starts_with("classifier.");
}
// The head that tells masked words.
bool is_left_out(std::string_view name) {
  return name.starts_with("head.") || name.starts_with("decoder.");
}
constexpr PublishedLayout kLayout{
    .model = "ModernBERT", .prefix = kPrefix, .is_left_out = is_left_out, .parts = parts, .type = kType};

bool is_modernbert(const std::string& path) {
  return PublishedConfig::is_beside(path) &&
         PublishedConfig(PublishedConfig::beside(path)).text("model_type") == kType;
}

Json layer_kinds(std::int64_t layers, std::int64_t every) {
  Json kinds = Json::array();
  for (std::int64_t i = 0; i < layers; ++i) kinds.push_back(i % every == 0 ? kFull : kSliding);
  return kinds;
}

std::int64_t global_every(const PublishedConfig& config, std::int64_t layers) {
  const std::int64_t said = config.size(kEvery);
  if (!config.has(kLayerTypes)) return said;
  const Json& kinds = config.json()[std::string(kLayerTypes)];
  if (!kinds.is_array() || std::ssize(kinds) != layers) {
    throw RunError(fmt::format("{}: {} is no list of {} layers, as num_hidden_layers says", config.path(),
                               kLayerTypes, layers));
  }
  if (kinds == layer_kinds(layers, said)) return said;
  for (std::int64_t every = 1; every <= layers; ++every) {
    if (kinds == layer_kinds(layers, every)) return every;
  }
  throw RunError(fmt::format(
      "{}: {} is {}: only models whose layers attend to all positions at equal distances, from the first on, "
      "are here",
      config.path(), kLayerTypes, kinds.dump()));
}

// The base of rotation of layers of a kind: since transformers 5 in rope_parameters, before under an own key.
double theta_of(const PublishedConfig& config, const char* kind, std::string_view older) {
  const double theta = config.positive(older, 1);
  if (!config.has(kParameters)) return theta;
  const PublishedConfig both(fmt::format("{}: {}", config.path(), kParameters),
                             config.json()[std::string(kParameters)]);
  if (!both.has(kind)) return theta;
  const PublishedConfig rope(fmt::format("{}.{}", both.path(), kind), both.json()[kind]);
  rope.expect("rope_type", {"default"});
  return rope.positive("rope_theta", theta);
}

// Returns true if the head tells something of every word: its tensors do not say it.
bool tells_of_words(const PublishedConfig& config) {
  const Json said = config.has("architectures") ? config.json()["architectures"] : Json();
  return said.is_array() && !said.empty() && said[0].is_string() &&
         said[0].get<std::string>().ends_with(kOfTokens);
}

ModelConfig read_modernbert(const std::string& path) {
  const PublishedConfig config(PublishedConfig::beside(path));
  ModelConfig model = families().config(std::string(kType));
  const std::int64_t layers = config.size("num_hidden_layers");
  model.set("layers", layers);
  model.set("heads", config.size("num_attention_heads"));
  model.set("embedding", config.size("hidden_size"));
  model.set("mlp_width", config.size("intermediate_size"));
  model.set(kContext, config.size("max_position_embeddings"));
  model.set(kVocabulary, config.size("vocab_size"));
  model.set("theta", theta_of(config, kFull, "global_rope_theta"));
  model.set("local_theta", theta_of(config, kSliding, "local_rope_theta"));
  model.set("window", config.size("local_attention") / 2 + 1);
  model.set("global_every", global_every(config, layers));
  model.set("epsilon", config.positive("norm_eps", 1e-5));
  config.expect("rope_scaling", {nullptr});
  for (const char* key : {"hidden_activation", "classifier_activation"}) config.expect(key, {"gelu"});
  for (const char* key : {"norm_bias", "attention_bias", "mlp_bias", "classifier_bias"})
    config.expect(key, {false});
  config.expect("classifier_pooling", {"cls", "mean"});
  model.set("mean_head", config.text("classifier_pooling") == "mean");
  const PublishedTensors tensors(path);
  const SafetensorsEntry* head = tensors.find(kClasses).entry;
  const bool has_words = head != nullptr && tells_of_words(config);
  model.set(kOfWords, has_words);
  read_head(config, head == nullptr || head->shape.empty() ? 0 : static_cast<int>(head->shape[0]), model);
  if (has_words && (model.classes < 2 || model.flag(kMultiLabel))) {
    throw RunError(fmt::format("{}: tells {} of every word, not one of several classes", tensors.path(),
                               model.classes < 2 ? "a number" : "several classes"));
  }
  const PooledFrom from = pooled_from(published_folder(path), PooledFrom::kFirst, kType);
  model.set("first_embeds", from == PooledFrom::kFirst);
  model.set(kWeightedEmbeds, from == PooledFrom::kWeighted);
  return model;
}

std::string remark_on_modernbert(const std::string& path, const ModelConfig& model) {
  const PublishedTensors tensors(path);
  const bool has_head = std::ranges::any_of(
      tensors.all(), [](const PublishedTensors::Place& place) { return is_left_out(place.entry->name); });
  return has_head && model.classes == 0 ? "the head that it was first trained with is left out" : "";
}

void load_modernbert(const std::string& path, ModelMemory& memory) {
  load_published(PublishedTensors(path), kLayout, memory);
}

void save_modernbert(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
                     Device& device) {
  ModelConfig m = complete(config);
  // A configuration does not say how many classes there are: its data does.
  m.classes = 0;
  for (const TensorInfo& t : weights.infos()) {
    if (t.name == "classifier.out_proj.weight") m.classes = static_cast<int>(t.shape.at(0));
  }
  const int layers = m.integer("layers"), every = m.integer("global_every");
  const auto rope = [&](const char* theta) {
    return Json{{"rope_type", "default"}, {"rope_theta", m.number(theta)}};
  };
  const std::string architecture =
      fmt::format("ModernBert{}", m.classes == 0     ? "Model"
                                  : m.flag(kOfWords) ? kOfTokens
                                                     : "ForSequenceClassification");
  Json written = {{"architectures", {architecture}},
                  {"model_type", kType},
                  {"num_hidden_layers", layers},
                  {"num_attention_heads", m.integer("heads")},
                  {"hidden_size", m.integer("embedding")},
                  {"intermediate_size", m.integer("mlp_width")},
                  {"max_position_embeddings", m.integer(kContext)},
                  {"vocab_size", m.integer(kVocabulary)},
                  {"norm_eps", m.number("epsilon")},
                  {"local_attention", 2 * (m.integer("window") - 1)},
                  {std::string(kEvery), every},
                  {std::string(kLayerTypes), layer_kinds(layers, every)},
                  {"global_rope_theta", m.number("theta")},
                  {"local_rope_theta", m.number("local_theta")},
                  {std::string(kParameters), {{kFull, rope("theta")}, {kSliding, rope("local_theta")}}},
                  {"hidden_activation", "gelu"},
                  {"classifier_pooling", m.flag("mean_head") ? "mean" : "cls"},
                  {"pad_token_id", nullptr},  // else transformers takes ids beyond small vocabularies
                  {"bos_token_id", nullptr},
                  {"eos_token_id", nullptr},
                  {"torch_dtype", "float32"}};
  PublishedLayout layout = kLayout;
  if (m.classes > 0) {
    add_head(weights.facts(), m, written);
    layout.is_behind_prefix = is_of_encoder;
  }
  save_published(weights, layout, written, folder, device);
}

}  // namespace

const Published& modernbert_hugging_face() {
  static constexpr Published kPublished{.by = "transformers",
                                        .kinds = kType,
                                        .tokenizer = {},
                                        .is_at = is_modernbert,
                                        .read = read_modernbert,
                                        .remark = remark_on_modernbert,
                                        .load = load_modernbert,
                                        .save = save_modernbert};
  return kPublished;
}

}  // namespace lpmm
