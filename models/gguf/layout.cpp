#include "models/gguf/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"

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
    return model.name == "phi3" ? !is_single : !is_joined;
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
constexpr KeyPair kGpt2Keys[] = {
    {"block_count", "n_layer"},         {"context_length", "n_positions"},
    {"embedding_length", "n_embd"},     {"feed_forward_length", "n_inner"},
    {"attention.head_count", "n_head"}, {"attention.layer_norm_epsilon", "layer_norm_epsilon", true}};
constexpr const char *kRopeWidth = "rope.dimension_count", *kValueWidth = "attention.value_length",
                     *kRopeType = "rope.scaling.type", *kRopeFactor = "rope.scaling.factor",
                     *kRopeContext = "rope.scaling.original_context_length",
                     *kRopeMagnitude = "rope.scaling.attn_factor", *kRopeFast = "rope.scaling.yarn_beta_fast",
                     *kRopeSlow = "rope.scaling.yarn_beta_slow";
constexpr const char* kOriginalContext = "original_max_position_embeddings";
constexpr double kUsualContext = 8192;  // of Llama 3 before its frequencies are scaled

std::vector<KeyPair> key_pairs(const GgufModel& model) {
  if (model.name == kGpt2) return {std::begin(kGpt2Keys), std::end(kGpt2Keys)};
  std::vector<KeyPair> pairs(std::begin(kRotaryKeys), std::end(kRotaryKeys));
  const std::span<const KeyPair> own =
      model.name == kGemma3 ? std::span<const KeyPair>(kGemma3Keys) : std::span<const KeyPair>(kLlamaKeys);
  pairs.insert(pairs.end(), own.begin(), own.end());
  return pairs;
}

// Reads the GGUF keys of a model's kind; a value that is no number is an error that quotes it.
class Keys {
 public:
  Keys(const GgufFile& file, const GgufModel& model) : file_(file), model_(model) {}
  std::string name(std::string_view key) const { return fmt::format("{}.{}", model_.name, key); }
  const Json* find(std::string_view key) const {
    const auto at = file_.keys().find(name(key));
    return at == file_.keys().end() ? nullptr : &*at;
  }
  double number(std::string_view key, double otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (value->is_number()) return value->get<double>();
    throw RunError(fmt::format("{}: {} is {}, expected a number", file_.path(), name(key), value->dump()));
  }

 private:
  const GgufFile& file_;
  const GgufModel& model_;
};

double head_width(const Json& config) {
  if (config.contains("head_dim") && config["head_dim"].is_number()) return config["head_dim"].get<double>();
  return config.value("hidden_size", 0.0) / std::max(1.0, config.value("num_attention_heads", 1.0));
}

// Returns the number of positions after which a frequency has turned once.
double rotary_length(const Json& config, double i) {
  return 2 * std::numbers::pi * std::pow(config.value("rope_theta", 1e4), 2 * i / head_width(config));
}

// Returns the context length of a Llama 3 before its frequencies were scaled. The first factor that lies
// between the two bounds gives it.
double positions_before(const Json& config, std::span<const float> factors, double low, double high) {
  const double most = *std::ranges::max_element(factors);
  double least = 1, most_of = 1e9;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double length = rotary_length(config, static_cast<double>(i));
    const double share = (1 / double{factors[i]} - 1 / most) / (1 - 1 / most);
    if (share > 0.01 && share < 0.99) return std::round(length * (low + share * (high - low)));
    if (share >= 0.99) least = std::max(least, std::ceil(length * high));
    if (share <= 0.01) most_of = std::min(most_of, std::floor(length * low));
  }
  // None lies between: all numbers within these bounds give the same factors.
  return std::clamp(kUsualContext, least, std::max(least, most_of));
}

// The scaling that a Llama 3 has by its factors; the two bounds are those of all that are published.
Json llama3_scaling(const GgufFile& file, const GgufTensor& tensor, Json config) {
  std::vector<float> factors(static_cast<std::size_t>(tensor.columns()));
  if (tensor.type->stored != "F32" || tensor.shape.size() != 1 || factors.size() > 4096)
    throw RunError(fmt::format("{}: {} is no list of fp32", file.path(), kRotaryFactors));
  file.read(tensor, 0, std::as_writable_bytes(std::span(factors)));
  constexpr double kLow = 1, kHigh = 4;
  const Json scaling = {{"rope_type", "llama3"},
                        {"factor", *std::ranges::max_element(factors)},
                        {"low_freq_factor", kLow},
                        {"high_freq_factor", kHigh},
                        {kOriginalContext, static_cast<std::int64_t>(std::clamp(
                                               positions_before(config, factors, kLow, kHigh), 1.0, 1e9))}};
  config["rope_scaling"] = scaling;
  const std::vector<float> these = rotary_factors(config);
  bool is_known = these.size() == factors.size();
  for (std::size_t i = 0; is_known && i < these.size(); ++i)
    is_known = std::abs(these[i] - factors[i]) <= 1e-3F * these[i];
  if (is_known) return scaling;
  throw RunError(
      fmt::format("{}: {} holds other factors than those of Llama 3's scaling, which are not here: "
                  "import the model's safetensors",
                  file.path(), kRotaryFactors));
}

Json scaling_of(const GgufFile& file, const Keys& keys, const Json& config) {
  if (const GgufTensor* factors = file.find(kRotaryFactors); factors != nullptr)
    return llama3_scaling(file, *factors, config);
  const Json* said = keys.find(kRopeType);
  const std::string type = said != nullptr && said->is_string() ? said->get<std::string>() : "none";
  if (type == "none") return nullptr;
  Json scaling = {{"rope_type", type}, {"factor", keys.number(kRopeFactor, 1)}};
  if (type != "yarn") return scaling;  // whoever reads it refuses what it does not know
  scaling[kOriginalContext] = keys.number(kRopeContext, config.value("max_position_embeddings", 0.0));
  scaling[kOriginalContext] = scaling[kOriginalContext].get<std::int64_t>();
  scaling["beta_fast"] = keys.number(kRopeFast, 32);
  scaling["beta_slow"] = keys.number(kRopeSlow, 1);
  const double usual = 0.1 * std::log(keys.number(kRopeFactor, 1)) + 1;
  scaling["attention_factor"] = usual * keys.number(kRopeMagnitude, 1);
  return scaling;
}

void add_scaling(const Json& config, const GgufModel& model, Json& keys) {
  const Json scaling = config.value("rope_scaling", Json());
  if (!scaling.is_object() || scaling.empty()) return;
  const auto type = scaling.value("rope_type", scaling.value("type", std::string("default")));
  // Llama 3's is a tensor, and dynamic scaling begins behind the positions that the model has.
  if (type == "default" || type == "dynamic" || type == "llama3") return;
  const auto put = [&](const char* key, Json value) { keys[fmt::format("{}.{}", model.name, key)] = value; };
  const auto factor = scaling.value("factor", 1.0);
  put(kRopeType, type);
  put(kRopeFactor, factor);
  if (type != "yarn") return;
  put(kRopeContext, scaling.value(kOriginalContext, Json(0)));
  put(kRopeFast, scaling.value("beta_fast", 32.0));
  put(kRopeSlow, scaling.value("beta_slow", 1.0));
  const double usual = 0.1 * std::log(factor) + 1;
  put(kRopeMagnitude, scaling.value("attention_factor", usual) / usual);
}

// Returns the square of the divisor of products of queries and keys: llama.cpp's own rule, as a GGUF does not
// say it. The one with 62 layers is of 27 billion weights.
double gemma3_divisor(const Json& config) {
  constexpr int kLargest = 62;
  if (config.value("num_hidden_layers", 0) != kLargest) return head_width(config);
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
  const Keys keys(file, model);
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
  const double width = head_width(config), turned = keys.number(kRopeWidth, width);
  if (turned != width) config["partial_rotary_factor"] = turned / std::max(1.0, width);
  if (keys.number(kValueWidth, width) != width)
    throw RunError(fmt::format("{}: values are of another width than keys, which is not here", file.path()));
  if (const Json scaling = scaling_of(file, keys, config); !scaling.is_null())
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
  const auto width = static_cast<std::int64_t>(head_width(config));
  for (const char* key : {kRopeWidth, kValueWidth}) keys[fmt::format("{}.{}", model.name, key)] = width;
  keys[fmt::format("{}.vocab_size", model.name)] = config.value("vocab_size", Json(0));
  add_scaling(config, model, keys);
  return keys;
}

std::vector<float> rotary_factors(const Json& config) {
  const Json scaling = config.value("rope_scaling", Json());
  if (!scaling.is_object() || scaling.value("rope_type", scaling.value("type", "")) != "llama3") return {};
  const double factor = scaling.value("factor", 1.0), low = scaling.value("low_freq_factor", 1.0),
               high = scaling.value("high_freq_factor", 4.0),
               context = scaling.value(kOriginalContext, kUsualContext);
  std::vector<float> factors;
  for (double i = 0; 2 * i < head_width(config); ++i) {
    const double share = std::clamp((context / rotary_length(config, i) - low) / (high - low), 0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - share) / factor + share)));
  }
  return factors;
}

std::vector<std::string> unused_keys(const GgufFile& file, const GgufModel& model) {
  std::vector<std::string> unused;
  const std::vector<KeyPair> sizes = key_pairs(model);
  for (const auto& [name, value] : file.keys().items()) {
    const std::string start = fmt::format("{}.", model.name);
    const std::string key = name.starts_with(start) ? name.substr(start.size()) : "";
    const std::string_view others[] = {kRopeWidth,     kValueWidth, kRopeType, kRopeFactor, kRopeContext,
                                       kRopeMagnitude, kRopeFast,   kRopeSlow, "vocab_size"};
    const bool is_size = std::ranges::find(sizes, key, &KeyPair::gguf) != sizes.end() ||
                         std::ranges::find(others, key) != std::end(others);
    const bool is_form = name == kArchitecture || name == "general.alignment" ||
                         name == "general.file_type" || name == "general.quantization_version";
    if ((key.empty() || !is_size) && !is_form && !name.starts_with("tokenizer.")) unused.push_back(name);
  }
  return unused;
}

}  // namespace lpmm
