#include "models/published/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "models/families.h"
#include "models/llama_experts.h"
#include "models/published/facts.h"
#include "models/published/folder.h"
#include "models/published/published.h"
#include "models/published/sentences.h"
#include "models/published/table.h"
#include "models/published/text/gemma3.h"
#include "models/published/text/llama_rotary.h"
#include "models/published/text/qwen3_moe.h"

namespace lpmm {
namespace {

constexpr const char* kOutput = "lm_head.weight";
constexpr PublishedLayout kLayout{.model = "Llama", .is_left_out = [](std::string_view name) {
                                    return name == kOutput || name.ends_with(".rotary_emb.inv_freq");
                                  }};
// Models of sentences call their tensors without "model." where there is no head.
constexpr std::string_view kModel = "model.", kHead = "score.";
constexpr const char* kBare = "embed_tokens.weight";
bool is_of_model(std::string_view name) {
  return !name.starts_with(kHead);
}
constexpr PublishedLayout kSentenceLayout{
    .model = "Llama",
    .prefix = kModel,
    .is_left_out = kLayout.is_left_out,
    .parts = [](const std::string& name) {
      return std::vector{name.starts_with(kModel) ? name.substr(kModel.size()) : name};
    }};
// A kind of config.json, what its architectures begin with, which keys of biases it has, and the token that
// its library fills texts up with where the file does not say one; -1: none.
struct Kind {
  std::string_view type, architecture;
  bool attention_bias = false, mlp_bias = false;
  int pad = -1;
};
constexpr Kind kLlama{"llama", "Llama", true, true}, kQwen2{"qwen2", "Qwen2"}, kQwen3{"qwen3", "Qwen3", true},
    kSmol{"smollm3", "SmolLM3", true, true, 128004}, kMistral{"mistral", "Mistral"},
    kPhi3{"phi3", "Phi3", false, false, 32000}, kOlmo2{"olmo2", "Olmo2", true, false, 1},
    kGranite{"granite", "Granite", true, true}, kGemma3{"gemma3_text", "Gemma3", true, false, 0},
    kQwen3Moe{"qwen3_moe", "Qwen3Moe", true};
constexpr const Kind* kKinds[] = {&kLlama, &kQwen2, &kQwen3,   &kSmol,   &kMistral,
                                  &kPhi3,  &kOlmo2, &kGranite, &kGemma3, &kQwen3Moe};
constexpr std::string_view kRopeLayers = "no_rope_layers", kEvery = "no_rope_layer_interval";
constexpr std::string_view kWindow = "sliding_window", kGeglu = "gelu_pytorch_tanh";
std::string_view activation_of(const Kind& kind) {
  return &kind == &kGemma3 ? "hidden_activation" : "hidden_act";
}
constexpr std::string_view kAttentionBias = "attention_bias", kMlpBias = "mlp_bias";
// Granite's factors, what a model without them has, and our settings; its logits are divided.
struct Factor {
  std::string_view theirs, ours;
};
constexpr Factor kFactors[] = {{"embedding_multiplier", "embedding_scale"},
                               {"residual_multiplier", "residual_scale"},
                               {"attention_multiplier", "attention_scale"}};
constexpr std::string_view kLogits = "logits_scaling", kOurLogits = "logit_scale";

// The kind of the published weights at `path`; null: none of these.
const Kind* llama_at(const std::string& path) {
  if (!PublishedConfig::is_beside(path)) return nullptr;
  const std::string type = PublishedConfig(PublishedConfig::beside(path)).text("model_type");
  const auto at = std::ranges::find(kKinds, type, [](const Kind* kind) { return kind->type; });
  return at == std::end(kKinds) ? nullptr : *at;
}

// Returns true if its files say how the vector of a text is made.
bool says_vectors(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::path(published_folder(path)) / "modules.json", error);
}

// Returns true if it makes vectors of texts, has a head for classes, or none at all.
bool is_of_sentences(const std::string& path) {
  return llama_at(path) != nullptr && (says_vectors(path) || has_published_tensors(path, {"score.weight"}) ||
                                       has_published_tensors(path, {kBare}));
}
bool is_llama(const std::string& path) {
  return llama_at(path) != nullptr && !is_of_sentences(path);
}

// Returns the attention window of a Mistral or a Phi-3; 0: none. A null says there is none; a Mistral without
// the key has 4,096.
std::int64_t window_of(const PublishedConfig& config, const Kind& kind) {
  constexpr std::int64_t kUsual = 4096;
  const bool says = config.has(kWindow), says_all = config.json().contains(kWindow) && !says;
  if ((&kind != &kMistral && &kind != &kPhi3) || says_all || (!says && &kind == &kPhi3)) return 0;
  const std::int64_t window = says ? config.size(kWindow) : kUsual;
  return window < config.size("max_position_embeddings") ? window : 0;
}

// Lists for each layer 1 if it has rotary positions and 0 if not, in spite of the list's name.
Json rope_layers(std::int64_t layers, std::int64_t nope_every) {
  Json has_rope = Json::array();
  for (std::int64_t i = 1; i <= layers; ++i) has_rope.push_back(i % nope_every == 0 ? 0 : 1);
  return has_rope;
}
void read_nope(const PublishedConfig& config, ModelConfig& model) {
  const std::int64_t every = config.has(kEvery) ? config.size(kEvery) : 4;
  model.set("nope_every", every);
  config.expect(kRopeLayers, {nullptr, rope_layers(model.integer("layers"), every)});
}

// Reads the settings in which the kinds differ.
void read_kind(const PublishedConfig& config, const Kind& kind, ModelConfig& model) {
  const bool has_biases = kind.attention_bias && config.flag(kAttentionBias, false);
  model.set("qkv_bias", &kind == &kQwen2 || has_biases);
  model.set("o_bias", has_biases);
  model.set("mlp_bias", kind.mlp_bias && config.flag(kMlpBias, false));
  if (!kind.attention_bias) config.expect(kAttentionBias, {false, nullptr});
  if (!kind.mlp_bias) config.expect(kMlpBias, {false, nullptr});
  model.set("qk_norm", &kind == &kQwen3 || &kind == &kQwen3Moe);
  model.set("joined", &kind == &kPhi3);
  model.set("norms_after", &kind == &kOlmo2);
  model.set("window", window_of(config, kind));
  if (&kind == &kSmol) read_nope(config, model);
  if (&kind == &kGemma3) read_gemma(config, model);
  if (&kind == &kQwen3Moe) read_experts(config, model);
  if (&kind != &kGranite) return;
  for (const Factor& factor : kFactors) model.set(factor.ours, config.positive(factor.theirs, 1));
  if (model.has(kOurLogits)) model.set(kOurLogits, 1 / config.positive(kLogits, 1));
}

// A model of that family.
ModelConfig read_sizes(const std::string& path, const char* family) {
  const Kind& kind = *llama_at(path);
  const PublishedConfig config = with_flat_rotary(PublishedConfig(PublishedConfig::beside(path)));
  const std::string activation(activation_of(kind));
  ModelConfig model = families().config(family);
  const std::int64_t heads = config.size("num_attention_heads");
  model.set("layers", config.size("num_hidden_layers"));
  model.set("heads", heads);
  model.set("kv_heads", config.has("num_key_value_heads") ? config.size("num_key_value_heads") : heads);
  model.set("embedding", config.size("hidden_size"));
  model.set("mlp_width", config.size("intermediate_size"));
  if (config.has("head_dim")) model.set("head_width", config.size("head_dim"));
  model.set(kContext, config.size("max_position_embeddings"));
  model.set(kVocabulary, config.size("vocab_size"));
  model.set("epsilon", config.positive("rms_norm_eps", 1e-6));
  if (model.has("tied")) model.set("tied", config.flag("tie_word_embeddings", false));
  read_kind(config, kind, model);
  model.set("geglu", config.text(activation) == kGeglu);
  config.expect(activation,
                &kind == &kGemma3 ? std::vector<Json>{kGeglu} : std::vector<Json>{"silu", "swish", kGeglu});
  config.expect("use_sliding_window", {false});
  if (&kind != &kMistral && &kind != &kGemma3)
    config.expect("layer_types", {nullptr, layer_types(model.integer("layers"), 1)});
  config.expect("quantization_config", {nullptr});
  read_rotary(config, model);
  return model;
}

ModelConfig read_llama(const std::string& path) {
  return read_sizes(path, "llama");
}

// The token that texts are filled up with; -1: none is said, or none of a model's.
int pad_token(const PublishedConfig& config, const Kind& kind) {
  if (!config.json().contains(kPadToken)) return kind.pad;
  if (!config.has(kPadToken) || config.json()[kPadToken] == -1) return -1;
  constexpr std::int64_t kMost = 1 << 24;
  const std::int64_t id = to_count(config.json()[kPadToken], fmt::format("{}: {}", config.path(), kPadToken));
  if (id < kMost) return static_cast<int>(id);
  throw RunError(fmt::format("{}: {} is {}, which is no token", config.path(), kPadToken, id));
}

ModelConfig read_llama_sentences(const std::string& path) {
  const Kind& kind = *llama_at(path);
  const PublishedConfig config(PublishedConfig::beside(path));
  ModelConfig model = read_sizes(path, "llama-sentences");
  const PublishedTensors tensors(path);
  const SafetensorsEntry* head = tensors.find("score.weight").entry;
  read_head(config, head == nullptr || head->shape.empty() ? 0 : static_cast<int>(head->shape[0]), model);
  model.set("pad_token", pad_token(config, kind));
  const PooledFrom from = pooled_from(published_folder(path), PooledFrom::kLast, kind.type);
  model.set("mean_embeds", from == PooledFrom::kMean && model.classes == 0);
  model.set(kWeightedEmbeds, from == PooledFrom::kWeighted && model.classes == 0);
  return model;
}

void load_llama_sentences(const std::string& path, ModelMemory& memory) {
  const PublishedTensors tensors(path);
  refuse_joined_experts(tensors);
  load_published(tensors, kSentenceLayout, memory);
}

void load_llama(const std::string& path, ModelMemory& memory) {
  const PublishedTensors tensors(path);
  refuse_joined_experts(tensors);
  const bool is_tied = memory.find(kOutput) < 0;
  if (is_tied) {
    check_tied(tensors, kOutput, "model.embed_tokens.weight", kLayout,
               "where these weights are right, set tie_word_embeddings to false in config.json");
  } else if (tensors.find(kOutput).entry == nullptr) {
    throw RunError(
        fmt::format("{}: has no tensor {}; where the output is the embedding, set "
                    "tie_word_embeddings to true in config.json",
                    tensors.path(), kOutput));
  }
  load_published(tensors, kLayout, memory);
}

std::string remark_on_llama(const std::string& path, const ModelConfig&) {
  std::string remark = llama_at(path) == &kGranite
                           ? "transformers has no classifier on a Granite: export --hf writes none"
                           : "";
  if (says_vectors(path) || !has_published_tensors(path, {kBare})) return remark;
  return remark + (remark.empty() ? "" : "; ") +
         "has no head, so that it makes vectors of texts and writes none (for that, save it with its head)";
}

// The kind to export a model as, from what its layers have; `came_as`: the model_type that it came with.
const Kind& kind_for(const ModelConfig& m, std::string_view came_as) {
  if (m.flag("norms_around")) return kGemma3;
  if (m.integer(kExperts) > 0) return kQwen3Moe;
  const bool is_scaled = m.number("embedding_scale") != 1 || m.number("residual_scale") != 1 ||
                         m.number("attention_scale") != 0 || (m.has(kOurLogits) && m.number(kOurLogits) != 1);
  if (is_scaled) return kGranite;
  if (m.flag("joined")) return kPhi3;
  if (m.flag("norms_after")) return kOlmo2;
  if (m.flag("qkv_bias") && !m.flag("o_bias")) return kQwen2;
  if (m.flag("qk_norm")) return kQwen3;
  if (m.integer("nope_every") > 0) return kSmol;
  return m.integer("window") > 0 || came_as == kMistral.type ? kMistral : kLlama;
}

void add_kind(const ModelConfig& m, const Kind& kind, Json& written) {
  const int nope_every = m.integer("nope_every");
  if (kind.attention_bias) written[kAttentionBias] = m.flag("o_bias");
  if (kind.mlp_bias) written[kMlpBias] = m.flag("mlp_bias");
  if (nope_every > 0) {
    written[kEvery] = nope_every;
    written[kRopeLayers] = rope_layers(m.integer("layers"), nope_every);
  }
  if (&kind == &kSmol || &kind == &kPhi3 || &kind == &kOlmo2 || &kind == &kGemma3)
    written["pad_token_id"] = nullptr;  // else one beyond small vocabularies
  const int window = m.integer("window");
  if (window > 0 || &kind == &kMistral) written[kWindow] = window > 0 ? Json(window) : Json();
  if (&kind == &kGemma3) add_gemma(m, written);
  if (&kind == &kQwen3Moe) add_experts(m, written);
  if (&kind != &kGranite) return;
  for (const Factor& factor : kFactors) written[factor.theirs] = m.number(factor.ours);
  if (m.has(kOurLogits)) written[kLogits] = 1 / m.number(kOurLogits);
  const int given = m.integer("head_width"),
            width = given > 0 ? given : m.integer("embedding") / m.integer("heads");
  if (m.number("attention_scale") == 0) written["attention_multiplier"] = 1 / std::sqrt(width);
}

// Makes the keys of config.json that sentence models and language models share.
Json sizes_of(const WeightSource& weights, const ModelConfig& m, const Kind& kind) {
  check_saved_rotary(weights.path(), m);
  const int heads = m.integer("heads"), kv_heads = m.integer("kv_heads"),
            head_width = m.integer("head_width");
  Json written = {{"model_type", kind.type},
                  {"num_hidden_layers", m.integer("layers")},
                  {"num_attention_heads", heads},
                  {"num_key_value_heads", kv_heads > 0 ? kv_heads : heads},
                  {"hidden_size", m.integer("embedding")},
                  {"head_dim", head_width > 0 ? head_width : m.integer("embedding") / heads},
                  {"intermediate_size", m.integer("mlp_width")},
                  {"max_position_embeddings", m.integer(kContext)},
                  {"vocab_size", m.integer(kVocabulary)},
                  {"rope_theta", m.number("theta")},
                  {"rope_scaling", rotary_of(m, weights.facts(), kind.type)},
                  {"rms_norm_eps", m.number("epsilon")},
                  {std::string(activation_of(kind)), m.flag("geglu") ? kGeglu : "silu"},
                  {kBeginToken, nullptr},  // else transformers takes 1 and 2
                  {kEndToken, nullptr},
                  {"torch_dtype", "float32"}};
  if (&kind == &kPhi3) add_phi3_rotary(m, written);
  add_kind(m, kind, written);
  return written;
}

void save_llama(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
                Device& device) {
  const ModelConfig m = complete(config);
  const Kind& kind = kind_for(m, kept_type(weights.facts()));
  Json written = sizes_of(weights, m, kind);
  written["architectures"] = {fmt::format("{}ForCausalLM", kind.architecture)};
  written["tie_word_embeddings"] = m.flag("tied");
  save_published(weights, kLayout, written, folder, device);
}

void save_llama_sentences(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
                          Device& device) {
  ModelConfig m = complete(config);
  const Kind& kind = kind_for(m, kept_type(weights.facts()));
  // A configuration does not say how many classes there are: its data does.
  m.classes = 0;
  for (const TensorInfo& t : weights.infos()) {
    if (t.name == "score.weight") m.classes = static_cast<int>(t.shape.at(0));
  }
  if (m.classes > 0 && &kind == &kGranite) {
    throw UsageError(
        fmt::format("{}: transformers has no classifier on a Granite; export without --hf", weights.path()));
  }
  Json written = sizes_of(weights, m, kind);
  const int pad = m.integer("pad_token");
  written[kPadToken] = pad >= 0 ? Json(pad) : Json();
  written["architectures"] = {fmt::format("{}{}{}", kind.architecture, &kind == &kGemma3 ? "Text" : "",
                                          m.classes > 0 ? "ForSequenceClassification" : "Model")};
  PublishedLayout layout = kSentenceLayout;
  if (m.classes > 0) {
    add_head(weights.facts(), m, written);
    layout.is_behind_prefix = is_of_model;
  }
  save_published(weights, layout, written, folder, device);
}

}  // namespace

const Published& llama_hugging_face() {
  static constexpr Published kPublished{
      .by = "transformers",
      .kinds = "gemma3_text, granite, llama, mistral, olmo2, phi3, qwen2, qwen3, qwen3_moe, smollm3",
      .tokenizer = {},
      .is_at = is_llama,
      .read = read_llama,
      .remark = remark_on_llama,
      .load = load_llama,
      .save = save_llama};
  return kPublished;
}

const Published& llama_sentences_hugging_face() {
  static constexpr Published kPublished{.by = "transformers",
                                        .kinds = {},  // llama_hugging_face names them
                                        .tokenizer = {},
                                        .is_at = is_of_sentences,
                                        .read = read_llama_sentences,
                                        .remark = remark_on_llama,
                                        .load = load_llama_sentences,
                                        .save = save_llama_sentences};
  return kPublished;
}

}  // namespace lpmm
