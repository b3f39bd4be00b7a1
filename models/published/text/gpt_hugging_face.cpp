#include "models/published/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizer.h"
#include "models/families.h"
#include "models/published/published.h"

namespace lpmm {
namespace {

constexpr int kHeadWidth = 64;
constexpr int kMostLayers = 1000;

constexpr PublishedLayout kLayout{
    .model = "GPT-2",
    .prefix = "transformer.",  // of files saved with a head
    .is_transposed =
        [](std::string_view name) {
          return name.ends_with(".weight") && (name.find(".attn.c_") != std::string_view::npos ||
                                               name.find(".mlp.c_") != std::string_view::npos);
        },
    .is_left_out =
        [](std::string_view name) {
          return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
                 name == "lm_head.weight";
        },
    .type = "gpt2"};

// The activations by transformers' names and by our setting; for writing, the first row of a setting counts.
struct ActivationName {
  std::string_view theirs, ours;  // no setting: what there is without one
};
constexpr ActivationName kActivations[] = {
    {"gelu_new", ""},  {"gelu_pytorch_tanh", ""}, {"gelu_fast", ""},     {"relu", "relu"},
    {"silu", "swish"}, {"swish", "swish"},        {"gelu", "exact_gelu"}};
constexpr std::string_view kActivation = "activation_function", kInner = "n_inner",
                           kEpsilon = "layer_norm_epsilon";

std::int64_t size_of(std::int64_t value, const std::string& where) {
  if (value < 1 || value > 1 << 24) throw RunError(fmt::format("{}: {} is no size of a GPT-2", where, value));
  return value;
}

// Heads from config.json, and a refusal of what this GPT-2 does otherwise.
void read_config(const PublishedConfig& config, ModelConfig& model) {
  const int embedding = model.integer("embedding");
  for (const auto& [key, size] : {std::pair{"n_layer", model.integer("layers")},
                                  {"n_embd", embedding},
                                  {"n_positions", model.integer(kContext)},
                                  {"vocab_size", model.integer(kVocabulary)}}) {
    if (!config.has(key) || config.size(key) == size) continue;
    throw RunError(
        fmt::format("{}: {} is {}, the weights have {}", config.path(), key, config.size(key), size));
  }
  const std::int64_t heads = config.size("n_head");
  if (embedding % heads != 0) {
    throw RunError(
        fmt::format("{}: n_head = {} does not divide the {} channels", config.path(), heads, embedding));
  }
  model.set("heads", heads);
  std::vector<Json> known;
  for (const ActivationName& name : kActivations) {
    known.emplace_back(name.theirs);
    if (config.text(kActivation) == name.theirs && !name.ours.empty()) model.set(name.ours, true);
  }
  config.expect(kActivation, known);
  model.set("epsilon", config.positive(kEpsilon, 1e-5));
  if (config.has(kInner)) model.set("mlp_width", config.size(kInner));
  config.expect("scale_attn_weights", {true});
  config.expect("add_cross_attention", {false});
  config.expect("scale_attn_by_inverse_layer_idx", {false});
}

bool is_gpt2(const std::string& path) {
  return has_published_tensors(path, {"wte.weight"}, kLayout.prefix);
}

ModelConfig read_gpt2(const std::string& path) {
  const PublishedTensors tensors(path);
  ModelConfig model = families().config("gpt");
  const SafetensorsEntry& tokens = expect_published(tensors, kLayout, "wte.weight", 2);
  const SafetensorsEntry& positions = expect_published(tensors, kLayout, "wpe.weight", 2);
  const std::int64_t embedding = size_of(tokens.shape[1], tensors.path() + ": embedding");
  model.set(kVocabulary, size_of(tokens.shape[0], tensors.path() + ": vocabulary"));
  model.set("embedding", embedding);
  model.set(kContext, size_of(positions.shape[0], tensors.path() + ": positions"));
  expect_published(tensors, kLayout, "h.0.ln_1.weight", 1);
  model.set("layers", count_published(tensors, kLayout, kMostLayers,
                                      [](std::int64_t i) { return fmt::format("h.{}.ln_1.weight", i); }));
  model.set("heads", std::max<std::int64_t>(1, embedding / kHeadWidth));
  if (PublishedConfig::is_beside(path)) read_config(PublishedConfig(PublishedConfig::beside(path)), model);
  return model;
}

void load_gpt2(const std::string& path, ModelMemory& memory) {
  const PublishedTensors tensors(path);
  check_tied(tensors, "lm_head.weight", "wte.weight", kLayout);
  load_published(tensors, kLayout, memory);
}

void save_gpt2(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
               Device& device) {
  const ModelConfig model = complete(config);
  if (model.flag("stable_embedding")) {
    throw UsageError(
        fmt::format("{}: has a norm behind its embedding (model.stable_embedding), for which Hugging Face's "
                    "GPT-2 has no place; export without --hf",
                    weights.path()));
  }
  const auto set = std::ranges::find_if(
      kActivations, [&](const ActivationName& name) { return !name.ours.empty() && model.flag(name.ours); });
  const ActivationName& activation = set == std::end(kActivations) ? kActivations[0] : *set;
  Json config_json = {{"architectures", {"GPT2LMHeadModel"}},
                      {"model_type", "gpt2"},
                      {kActivation, activation.theirs},
                      {"vocab_size", model.integer(kVocabulary)},
                      {"n_positions", model.integer(kContext)},
                      {"n_ctx", model.integer(kContext)},
                      {"n_embd", model.integer("embedding")},
                      {"n_layer", model.integer("layers")},
                      {"n_head", model.integer("heads")},
                      {kEpsilon, model.number("epsilon")},
                      {"tie_word_embeddings", true},
                      {"torch_dtype", "float32"}};
  const int hidden = model.integer("mlp_width"), usual = 4 * model.integer("embedding");
  config_json[kInner] = hidden == 0 || hidden == usual ? Json() : Json(hidden);
  if (model.integer(kVocabulary) < kGpt2Vocabulary) {  // else transformers takes the last token of GPT-2's
    config_json[kBeginToken] = config_json[kEndToken] = nullptr;
  }
  save_published(weights, kLayout, config_json, folder, device);
}

}  // namespace

const Published& gpt_hugging_face() {
  static constexpr Published kPublished{
      .by = "transformers",
      .kinds = "gpt2",
      .tokenizer = {kGpt2Tokenizer, {{{kGpt2Tokens, kHuggingFaceTokens}, {kGpt2Merges, kHuggingFaceMerges}}}},
      .is_at = is_gpt2,
      .read = read_gpt2,
      .load = load_gpt2,
      .save = save_gpt2};
  return kPublished;
}

}  // namespace lpmm
