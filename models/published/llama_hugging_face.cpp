#include "models/published/layouts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "models/families.h"
#include "models/published/folder.h"
#include "models/published/published.h"

namespace lpmm {
namespace {

constexpr PublishedLayout kLayout{.model = "Llama", .is_left_out = [](std::string_view name) {
                                    return name == "lm_head.weight" || name.ends_with(".rotary_emb.inv_freq");
                                  }};
// What is written. Qwen2 has biases of queries, keys and values, Qwen3 norms of their heads, SmolLM3 layers
// without rotary positions, Mistral a window.
struct Kind {
  std::string_view type, architecture;
};
constexpr Kind kLlama{"llama", "LlamaForCausalLM"}, kQwen2{"qwen2", "Qwen2ForCausalLM"},
    kQwen3{"qwen3", "Qwen3ForCausalLM"}, kSmol{"smollm3", "SmolLM3ForCausalLM"},
    kMistral{"mistral", "MistralForCausalLM"};
constexpr std::string_view kRopeLayers = "no_rope_layers", kEvery = "no_rope_layer_interval";
constexpr std::string_view kWindow = "sliding_window", kActivation = "hidden_act",
                           kGeglu = "gelu_pytorch_tanh";

bool is_llama(const std::string& path) {
  if (!PublishedConfig::is_beside(path)) return false;
  const std::string type = PublishedConfig(PublishedConfig::beside(path)).text("model_type");
  return type == kLlama.type || type == kQwen2.type || type == kQwen3.type || type == kSmol.type ||
         type == kMistral.type;
}

// How many of the last positions a Mistral attends to; 0: all. null says all, nothing 4,096.
std::int64_t window_of(const PublishedConfig& config) {
  constexpr std::int64_t kUsual = 4096;
  const bool says_all = config.json().contains(kWindow) && !config.has(kWindow);
  if (config.text("model_type") != kMistral.type || says_all) return 0;
  const std::int64_t window = config.has(kWindow) ? config.size(kWindow) : kUsual;
  return window < config.size("max_position_embeddings") ? window : 0;
}

// Scaling of the frequencies, as transformers wrote it before and since version 5, which takes the older one
// where there are both.
void read_rotary(const PublishedConfig& config, ModelConfig& model) {
  const bool is_new = !config.has("rope_scaling") || config.json()["rope_scaling"].empty();
  const char* key = is_new ? "rope_parameters" : "rope_scaling";
  model.set("theta", config.positive("rope_theta", 1e4));
  if (!config.has(key)) return;
  const PublishedConfig rope(fmt::format("{}: {}", config.path(), key), config.json()[key]);
  rope.expect("partial_rotary_factor", {1.0, nullptr});
  model.set("theta", rope.positive("rope_theta", model.number("theta")));
  const char* said = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text(said);
  if (!rope.has(said) || type == "default") return;
  if (type != "linear" && type != "llama3") {
    throw RunError(
        fmt::format("{}: type \"{}\" is not known; there are default, linear and llama3", rope.path(), type));
  }
  if (!rope.has("factor")) throw RunError(fmt::format("{}: has no factor", rope.path()));
  model.set("rope_factor", rope.positive("factor", 1));
  if (type == "linear") return;
  model.set("rope_context", rope.size("original_max_position_embeddings"));
  model.set("rope_low", rope.positive("low_freq_factor", 1));
  model.set("rope_high", rope.positive("high_freq_factor", 4));
}

// For each layer, 1 if it has rotary positions and 0 if not, in spite of what the list is called.
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

ModelConfig read_llama(const std::string& path) {
  const PublishedConfig config(PublishedConfig::beside(path));
  ModelConfig model = families().config("llama");
  const std::int64_t heads = config.size("num_attention_heads");
  model.set("layers", config.size("num_hidden_layers"));
  model.set("heads", heads);
  model.set("kv_heads", config.has("num_key_value_heads") ? config.size("num_key_value_heads") : heads);
  model.set("embedding", config.size("hidden_size"));
  model.set("mlp_width", config.size("intermediate_size"));
  if (config.has("head_dim")) model.set("head_width", config.size("head_dim"));
  model.set(kContext, config.size("max_position_embeddings"));
  model.set("window", window_of(config));
  model.set(kVocabulary, config.size("vocab_size"));
  model.set("epsilon", config.positive("rms_norm_eps", 1e-6));
  model.set("tied", config.flag("tie_word_embeddings", false));
  model.set("qkv_bias", config.text("model_type") == kQwen2.type);
  model.set("qk_norm", config.text("model_type") == kQwen3.type);
  if (config.text("model_type") == kSmol.type) read_nope(config, model);
  model.set("geglu", config.text(kActivation) == kGeglu);
  config.expect(kActivation, {"silu", "swish", kGeglu});
  config.expect("attention_bias", {false, nullptr});
  config.expect("mlp_bias", {false, nullptr});
  config.expect("partial_rotary_factor", {1.0});
  config.expect("use_sliding_window", {false});
  if (config.text("model_type") != kMistral.type) {
    const Json all_see_all(static_cast<std::size_t>(model.integer("layers")), "full_attention");
    config.expect("layer_types", {nullptr, all_see_all});
  }
  config.expect("quantization_config", {nullptr});
  read_rotary(config, model);
  return model;
}

void load_llama(const std::string& path, ModelMemory& memory) {
  const PublishedTensors tensors(path);
  const bool is_tied = memory.find("lm_head.weight") < 0;
  if (is_tied) check_tied(tensors, "lm_head.weight", "model.embed_tokens.weight", kLayout);
  load_published(tensors, kLayout, memory);
}

Json rotary_of(const ModelConfig& model) {
  if (model.number("rope_factor") == 1) return nullptr;
  Json scaling = {{"rope_type", "linear"}, {"factor", model.number("rope_factor")}};
  if (model.integer("rope_context") == 0) return scaling;
  scaling["rope_type"] = "llama3";
  scaling["low_freq_factor"] = model.number("rope_low");
  scaling["high_freq_factor"] = model.number("rope_high");
  scaling["original_max_position_embeddings"] = model.integer("rope_context");
  return scaling;
}

void save_llama(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
                Device& device) {
  const ModelConfig m = complete(config);
  const int nope_every = m.integer("nope_every"), window = m.integer("window");
  const bool is_mistral = window > 0 || kept_type(weights.facts()) == kMistral.type;
  const Kind& kind = m.flag("qkv_bias")  ? kQwen2
                     : m.flag("qk_norm") ? kQwen3
                     : nope_every > 0    ? kSmol
                     : is_mistral        ? kMistral
                                         : kLlama;
  const int heads = m.integer("heads"), kv_heads = m.integer("kv_heads"),
            head_width = m.integer("head_width");
  Json written = {{"architectures", {kind.architecture}},
                  {"model_type", kind.type},
                  {"num_hidden_layers", m.integer("layers")},
                  {"num_attention_heads", heads},
                  {"num_key_value_heads", kv_heads > 0 ? kv_heads : heads},
                  {"hidden_size", m.integer("embedding")},
                  {"head_dim", head_width > 0 ? head_width : m.integer("embedding") / heads},
                  {"intermediate_size", m.integer("mlp_width")},
                  {"max_position_embeddings", m.integer(kContext)},
                  {"vocab_size", m.integer(kVocabulary)},
                  {"rope_theta", m.number("theta")},
                  {"rope_scaling", rotary_of(m)},
                  {"rms_norm_eps", m.number("epsilon")},
                  {"tie_word_embeddings", m.flag("tied")},
                  {kActivation, m.flag("geglu") ? kGeglu : "silu"},
                  {kBeginToken, nullptr},  // else transformers takes 1 and 2
                  {kEndToken, nullptr},
                  {"torch_dtype", "float32"}};
  if (nope_every > 0) {
    written[kEvery] = nope_every;
    written[kRopeLayers] = rope_layers(m.integer("layers"), nope_every);
    written["pad_token_id"] = nullptr;  // else one beyond small vocabularies
  }
  if (&kind == &kMistral) written[kWindow] = window > 0 ? Json(window) : Json();
  save_published(weights, kLayout, written, folder, device);
}

}  // namespace

const Published& llama_hugging_face() {
  static constexpr Published kPublished{.by = "transformers",
                                        .kinds = "llama, mistral, qwen2, qwen3, smollm3",
                                        .tokenizer = {},
                                        .is_at = is_llama,
                                        .read = read_llama,
                                        .load = load_llama,
                                        .save = save_llama};
  return kPublished;
}

}  // namespace lpmm
