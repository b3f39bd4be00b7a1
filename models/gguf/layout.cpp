#include "models/gguf/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "models/gguf/rotary.h"

namespace lpmm {
namespace {

constexpr GgufModel kModels[] = {{"llama", "llama", "LlamaForCausalLM", true},
                                 {"llama", "mistral", "MistralForCausalLM", true},
                                 {"granite", "granite", "GraniteForCausalLM", true},
                                 {"smollm3", "smollm3", "SmolLM3ForCausalLM", true},
                                 {"qwen2", "qwen2", "Qwen2ForCausalLM"},
                                 {"qwen3", "qwen3", "Qwen3ForCausalLM"},
                                 {"phi3", "phi3", "Phi3ForCausalLM"},
                                 {"olmo2", "olmo2", "Olmo2ForCausalLM"},
                                 {"gemma3", "gemma3_text", "Gemma3ForCausalLM", false, true},
                                 {"gpt2", "gpt2", "GPT2LMHeadModel"}};
constexpr std::string_view kGpt2 = "gpt2", kOlmo2 = "olmo2", kGemma3 = "gemma3";
constexpr std::string_view kArchitecture = "general.architecture";

// ---- tensors -------------------------------------------------------------------------------------------------
struct NamePair {
  std::string_view gguf, theirs;
};
constexpr NamePair kWholeLlama[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr NamePair kLayerLlama[] = {{"attn_norm", "input_layernorm"},
                                    {"attn_q", "self_attn.q_proj"},
                                    {"attn_k", "self_attn.k_proj"},
                                    {"attn_v", "self_attn.v_proj"},
                                    {"attn_qkv", "self_attn.qkv_proj"},
                                    {"attn_output", "self_attn.o_proj"},
                                    {"attn_q_norm", "self_attn.q_norm"},
                                    {"attn_k_norm", "self_attn.k_norm"},
                                    {"ffn_norm", "post_attention_layernorm"},
                                    {"ffn_gate", "mlp.gate_proj"},
                                    {"ffn_up", "mlp.up_proj"},
                                    {"ffn_up", "mlp.gate_up_proj"},
                                    {"ffn_down", "mlp.down_proj"}};
constexpr NamePair kLayerOlmo2[] = {{"post_attention_norm", "post_attention_layernorm"},
                                    {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr NamePair kLayerGemma3[] = {{"ffn_norm", "pre_feedforward_layernorm"}};
constexpr NamePair kWholeGpt2[] = {
    {"token_embd", "wte"}, {"position_embd", "wpe"}, {"output_norm", "ln_f"}, {"output", "lm_head"}};
constexpr NamePair kLayerGpt2[] = {{"attn_norm", "ln_1"},          {"attn_qkv", "attn.c_attn"},
                                   {"attn_output", "attn.c_proj"}, {"ffn_norm", "ln_2"},
                                   {"ffn_up", "mlp.c_fc"},         {"ffn_down", "mlp.c_proj"}};
constexpr std::string_view kBlock = "blk.", kLlamaLayer = "model.layers.", kGpt2Layer = "h.",
                           kGpt2Prefix = "transformer.";

// The names of a kind; those of one list before those of another that has the same.
std::vector<NamePair> layer_names(const GgufModel& model) {
  if (model.name == kGpt2) return {std::begin(kLayerGpt2), std::end(kLayerGpt2)};
  std::vector<NamePair> names;
  const auto is_here = [&](const NamePair& pair) {
    const bool is_joined = pair.theirs == "mlp.gate_up_proj", is_single = pair.theirs == "mlp.up_proj";
    return model.name == kGgufPhi3 ? !is_single : !is_joined;
  };
  if (model.name == kOlmo2 || model.name == kGemma3)
    names.assign(std::begin(kLayerOlmo2), std::end(kLayerOlmo2));
  if (model.name == kGemma3) names.insert(names.end(), std::begin(kLayerGemma3), std::end(kLayerGemma3));
  std::ranges::copy_if(kLayerLlama, std::back_inserter(names), is_here);
  return names;
}
std::span<const NamePair> whole_names(const GgufModel& model) {
  if (model.name == kGpt2) return kWholeGpt2;
  return kWholeLlama;
}

// `name` without its layer, which has `before` in front, as the other side calls it; empty: unknown.
std::string renamed(const GgufModel& model, std::string_view name, std::string_view before,
                    std::string_view new_before, std::string_view NamePair::*from,
                    std::string_view NamePair::*to) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return "";
  const std::string_view kind = name.substr(dot);
  std::string_view stem = name.substr(0, dot);
  if (kind != ".weight" && kind != ".bias") return "";
  const auto find = [&](const auto& names) -> std::string_view {
    const auto at = std::ranges::find(names, stem, from);
    return at == std::end(names) ? std::string_view() : (*at).*to;
  };
  if (!stem.starts_with(before)) {
    const std::string_view found = find(whole_names(model));
    return found.empty() ? "" : fmt::format("{}{}", found, kind);
  }
  stem.remove_prefix(before.size());
  const std::size_t end = stem.find('.');
  const std::string_view layer = stem.substr(0, end);
  if (end == std::string_view::npos || layer.find_first_not_of("0123456789") != std::string_view::npos)
    return "";
  stem.remove_prefix(end + 1);
  const std::string_view found = find(layer_names(model));
  return found.empty() ? "" : fmt::format("{}{}.{}{}", new_before, layer, found, kind);
}

std::string_view their_layer(const GgufModel& model) {
  return model.name == kGpt2 ? kGpt2Layer : kLlamaLayer;
}

// ---- sizes ---------------------------------------------------------------------------------------------------
struct KeyPair {
  std::string_view gguf, theirs;  // behind the kind and a dot; in config.json
  bool is_real = false;
};
constexpr KeyPair kRotaryKeys[] = {{"block_count", "num_hidden_layers"},
                                   {"context_length", "max_position_embeddings"},
                                   {"embedding_length", "hidden_size"},
                                   {"feed_forward_length", "intermediate_size"},
                                   {"attention.head_count", "num_attention_heads"},
                                   {"attention.head_count_kv", "num_key_value_heads"},
                                   {"attention.key_length", "head_dim"},
                                   {"attention.sliding_window", "sliding_window"},
                                   {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
                                   {"rope.freq_base", "rope_theta", true}};
// Beside these.
constexpr KeyPair kLlamaKeys[] = {{"embedding_scale", "embedding_multiplier", true},
                                  {"residual_scale", "residual_multiplier", true},
                                  {"attention.scale", "attention_multiplier", true},
                                  {"logit_scale", "logits_scaling", true}};
constexpr KeyPair kGemma3Keys[] = {{"attention.sliding_window_pattern", "sliding_window_pattern"},
                                   {"rope.freq_base_swa", "rope_local_base_freq", true},
                                   {"final_logit_softcapping", "final_logit_softcapping", true}};
constexpr KeyPair kPhi3Keys[] = {
    {"rope.scaling.original_context_length", "original_max_position_embeddings"}};
constexpr KeyPair kGpt2Keys[] = {
    {"block_count", "n_layer"},         {"context_length", "n_positions"},
    {"embedding_length", "n_embd"},     {"feed_forward_length", "n_inner"},
    {"attention.head_count", "n_head"}, {"attention.layer_norm_epsilon", "layer_norm_epsilon", true}};
constexpr const char *kRopeWidth = "rope.dimension_count", *kValueWidth = "attention.value_length";

std::vector<KeyPair> key_pairs(const GgufModel& model) {
  if (model.name == kGpt2) return {std::begin(kGpt2Keys), std::end(kGpt2Keys)};
  std::vector<KeyPair> pairs(std::begin(kRotaryKeys), std::end(kRotaryKeys));
  const std::span<const KeyPair> own = model.name == kGemma3     ? std::span<const KeyPair>(kGemma3Keys)
                                       : model.name == kGgufPhi3 ? std::span<const KeyPair>(kPhi3Keys)
                                                                 : std::span<const KeyPair>(kLlamaKeys);
  pairs.insert(pairs.end(), own.begin(), own.end());
  return pairs;
}

// Returns the square of the divisor of products of queries and keys: llama.cpp's own rule, as a GGUF does not
// say it. The one with 62 layers is of 27 billion weights.
double gemma3_divisor(const Json& config) {
  constexpr int kLargest = 62;
  if (config.value("num_hidden_layers", 0) != kLargest) return gguf_head_width(config);
  return config.value("hidden_size", 0.0) / std::max(1.0, config.value("num_attention_heads", 1.0));
}

// Throws for what a GGUF cannot say and llama.cpp does otherwise.
void expect_as_llama_cpp(const Json& config, const GgufModel& model) {
  const auto expect = [&](const char* key, const Json& usual, const Json& also) {
    const Json value = config.value(key, usual);
    if (value == usual || value == also) return;
    throw UsageError(fmt::format("a {} whose {} is {} has no GGUF: in llama.cpp's it is {}", model.type, key,
                                 value.dump(), usual.dump()));
  };
  if (model.name == kGpt2) return expect("activation_function", "gelu_new", "gelu_pytorch_tanh");
  if (model.name == kGemma3) {
    expect("attention_bias", false, nullptr);
    return expect("query_pre_attn_scalar", std::llround(gemma3_divisor(config)), nullptr);
  }
  expect("hidden_act", "silu", "swish");
  if (model.name == "smollm3") expect("no_rope_layer_interval", 4, nullptr);
}

}  // namespace

const GgufModel* find_gguf_model(std::string_view type) {
  const auto* at = std::ranges::find(kModels, type, &GgufModel::type);
  return at == std::end(kModels) ? nullptr : at;
}

std::string gguf_model_types() {
  std::vector<std::string_view> types;
  for (const GgufModel& model : kModels) types.push_back(model.type);
  return fmt::format("{}", fmt::join(types, ", "));
}

const GgufModel& gguf_model(const GgufFile& file) {
  const std::string name = file.keys().value(kArchitecture, Json("")).is_string()
                               ? file.keys().value(kArchitecture, std::string())
                               : std::string();
  const auto* at = std::ranges::find(kModels, name, &GgufModel::name);
  if (at != std::end(kModels)) return *at;
  throw RunError(fmt::format("{}: is a \"{}\", which cannot be imported from a GGUF; there are {}",
                             file.path(), printable(name), gguf_model_types()));
}

std::string gguf_name(const GgufModel& model, std::string_view theirs) {
  if (model.name == kGpt2 && theirs.starts_with(kGpt2Prefix)) theirs.remove_prefix(kGpt2Prefix.size());
  return renamed(model, theirs, their_layer(model), kBlock, &NamePair::theirs, &NamePair::gguf);
}

std::string transformers_name(const GgufModel& model, std::string_view name) {
  return renamed(model, name, kBlock, their_layer(model), &NamePair::gguf, &NamePair::theirs);
}

bool is_turned(const GgufModel& model, std::string_view name) {
  return model.name == kGpt2 && name.starts_with(kBlock) && name.ends_with(".weight") &&
         name.find("_norm.") == std::string_view::npos;
}

float shift_of(const GgufModel& model, std::string_view name) {
  return model.adds_one && name.ends_with("_norm.weight") ? 1.0F : 0.0F;
}

std::int64_t RowOrder::in_gguf(std::int64_t row) const {
  if (head_rows == 0) return row;
  const std::int64_t head = row / head_rows, in = row % head_rows, half = head_rows / 2;
  return head * head_rows + 2 * (in % half) + in / half;
}

RowOrder row_order(const GgufModel& model, const Json& config, std::string_view name, std::int64_t rows) {
  const bool is_query = name.find(".attn_q.") != std::string_view::npos,
             is_key = name.find(".attn_k.") != std::string_view::npos;
  if (!model.is_interleaved || (!is_query && !is_key)) return {};
  std::int64_t heads = config.value("num_attention_heads", std::int64_t{1});
  if (is_key) heads = config.value("num_key_value_heads", heads);
  if (heads < 1 || rows % heads != 0 || rows / heads % 2 != 0) {
    throw RunError(
        fmt::format("{} has {} rows, which are not those of {} heads", printable(name), rows, heads));
  }
  return {rows / heads};
}

Json config_of(const GgufFile& file, const GgufModel& model) {
  const GgufKeys keys(file, model);
  Json config = {{"architectures", {model.architecture}}, {"model_type", model.type}};
  for (const KeyPair& pair : key_pairs(model)) {
    if (const Json* value = keys.find(pair.gguf); value != nullptr) config[std::string(pair.theirs)] = *value;
  }
  const GgufTensor* embedding = file.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2)
    throw RunError(fmt::format("{}: has no matrix token_embd.weight", file.path()));
  config["vocab_size"] = embedding->shape[0];
  config["tie_word_embeddings"] = file.find("output.weight") == nullptr;
  if (model.name == kGpt2) return config;
  for (const char* key : {"num_attention_heads", "num_key_value_heads", "intermediate_size"}) {
    if (config.contains(key) && !config[key].is_number())
      throw RunError(fmt::format("{}: {} differs from layer to layer, which is not here", file.path(), key));
  }
  if (model.name == kGemma3) {
    config["query_pre_attn_scalar"] = std::llround(gemma3_divisor(config));
  } else {
    config["hidden_act"] = "silu";
  }
  config["attention_bias"] = model.name != "qwen2" && file.find("blk.0.attn_q.bias") != nullptr;
  config["mlp_bias"] = file.find("blk.0.ffn_gate.bias") != nullptr;
  const double width = gguf_head_width(config), turned = keys.number(kRopeWidth, width);
  if (turned != width) config["partial_rotary_factor"] = turned / std::max(1.0, width);
  if (keys.number(kValueWidth, width) != width)
    throw RunError(fmt::format("{}: values are of another width than keys, which is not here", file.path()));
  if (const Json scaling = gguf_scaling(file, model, config); !scaling.is_null())
    config["rope_scaling"] = scaling;
  return config;
}

Json keys_of(const Json& config, const GgufModel& model) {
  expect_as_llama_cpp(config, model);
  Json keys = {{std::string(kArchitecture), model.name}};
  for (const KeyPair& pair : key_pairs(model)) {
    const auto at = config.find(std::string(pair.theirs));
    if (at == config.end() || !at->is_number()) continue;
    keys[fmt::format("{}.{}", model.name, pair.gguf)] = pair.is_real ? Json(at->get<double>()) : *at;
  }
  if (model.name == kGpt2) {
    keys["gpt2.feed_forward_length"] = config.value("n_inner", Json()).is_number()
                                           ? config["n_inner"]
                                           : Json(4 * config.value("n_embd", std::int64_t{0}));
    return keys;
  }
  const auto width = static_cast<std::int64_t>(gguf_head_width(config));
  const Json part = config.value("partial_rotary_factor", Json());
  const double share = part.is_number() ? part.get<double>() : 1;
  keys[fmt::format("{}.{}", model.name, kValueWidth)] = width;
  keys[fmt::format("{}.{}", model.name, kRopeWidth)] =
      static_cast<std::int64_t>(share * static_cast<double>(width));
  keys[fmt::format("{}.vocab_size", model.name)] = config.value("vocab_size", Json(0));
  add_gguf_scaling(config, model, keys);
  return keys;
}

std::vector<std::string> unused_keys(const GgufFile& file, const GgufModel& model) {
  std::vector<std::string> unused;
  const std::vector<KeyPair> sizes = key_pairs(model);
  for (const auto& [name, value] : file.keys().items()) {
    const std::string start = fmt::format("{}.", model.name);
    const std::string key = name.starts_with(start) ? name.substr(start.size()) : "";
    const bool is_other =
        key == kRopeWidth || key == kValueWidth || key == "vocab_size" || is_scaling_key(key);
    const bool is_size = std::ranges::find(sizes, key, &KeyPair::gguf) != sizes.end() || is_other;
    const bool is_form = name == kArchitecture || name == "general.alignment" ||
                         name == "general.file_type" || name == "general.quantization_version";
    if ((key.empty() || !is_size) && !is_form && !name.starts_with("tokenizer.")) unused.push_back(name);
  }
  return unused;
}

}  // namespace lpmm
