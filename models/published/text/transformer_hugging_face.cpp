#include "models/published/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "models/families.h"
#include "models/published/folder.h"
#include "models/published/published.h"

namespace lpmm {
namespace {

constexpr std::string_view kMarian = "marian";
constexpr const char* kShared = "model.shared.weight";
// Names under which older files repeat the one embedding.
constexpr const char* kAgain[] = {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight",
                                  "lm_head.weight"};

// The positions are computed, and the embedding is one.
bool is_left_out(std::string_view name) {
  return name.ends_with("embed_positions.weight") ||
         std::ranges::any_of(kAgain, [&](const char* again) { return name == again; });
}

bool is_row(std::string_view name) {
  return name == "final_logits_bias";
}

constexpr PublishedLayout kLayout{.model = "Marian", .is_left_out = is_left_out, .is_row = is_row};

bool is_marian(const std::string& path) {
  return PublishedConfig::is_beside(path) &&
         PublishedConfig(PublishedConfig::beside(path)).text("model_type") == kMarian;
}

// A size that encoder and decoder may have apart, but have not in our models.
std::int64_t both(const PublishedConfig& config, std::string_view of) {
  const std::string encoder = fmt::format("encoder_{}", of), decoder = fmt::format("decoder_{}", of);
  const std::int64_t size = config.size(encoder);
  if (config.size(decoder) != size) {
    throw RunError(fmt::format("{}: {} is {}, {} is {}: here both sides are alike", config.path(), encoder,
                               size, decoder, config.size(decoder)));
  }
  return size;
}

// A token of the vocabulary.
std::int64_t token(const PublishedConfig& config, std::string_view key, std::int64_t vocabulary) {
  const double id = config.number(key, -1);
  if (id < 0 || id >= static_cast<double>(vocabulary) || id != static_cast<double>(static_cast<int>(id))) {
    throw RunError(fmt::format("{}: {} is to be a token, 0 to {}", config.path(), key, vocabulary - 1));
  }
  return static_cast<std::int64_t>(id);
}

ModelConfig read_marian(const std::string& path) {
  const PublishedConfig config(PublishedConfig::beside(path));
  ModelConfig model = families().config("transformer");
  const std::int64_t vocabulary = config.size("vocab_size");
  model.set("layers", config.size("encoder_layers"));
  model.set("decoder_layers", config.size("decoder_layers"));
  model.set("heads", both(config, "attention_heads"));
  model.set("embedding", config.size("d_model"));
  model.set("mlp_width", both(config, "ffn_dim"));
  model.set(kContext, config.size("max_position_embeddings"));
  model.set(kVocabulary, vocabulary);
  model.set(kEnd, token(config, "eos_token_id", vocabulary));
  model.set(kStart, token(config, "decoder_start_token_id", vocabulary));
  config.expect("activation_function", {"relu", "swish", "silu"});
  model.set("swish", config.text("activation_function") != "relu");
  config.expect("decoder_vocab_size", {nullptr, vocabulary});
  config.expect("scale_embedding", {true});
  for (const std::string_view key : {"share_encoder_decoder_embeddings", "tie_word_embeddings",
                                     "static_position_embeddings", "is_encoder_decoder"}) {
    config.expect(key, {true});
  }
  for (const std::string_view key : {"normalize_before", "normalize_embedding", "add_final_layer_norm",
                                     "add_bias_logits", "extra_pos_embeddings"}) {
    config.expect(key, {false, nullptr, 0});
  }
  config.expect("quantization_config", {nullptr});
  return model;
}

void load_marian(const std::string& path, ModelMemory& memory) {
  const PublishedTensors tensors(path);
  for (const char* again : kAgain) check_tied(tensors, again, kShared, kLayout);
  load_published(tensors, kLayout, memory);
}

void save_marian(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
                 Device& device) {
  const ModelConfig m = complete(config);
  const int end = m.integer(kEnd), start = m.integer(kStart), heads = m.integer("heads");
  if (end < 0 || start < 0) {
    throw UsageError(fmt::format("{}: its configuration lacks model.{} or model.{}, which Marian needs",
                                 weights.path(), kEnd, kStart));
  }
  std::int32_t pad = start;
  for (const auto& [name, ids] : weights.facts().tokens) {
    if (name == kPadToken && ids.size() == 1) pad = ids[0];
  }
  Json written = {{"architectures", {"MarianMTModel"}},
                  {"model_type", kMarian},
                  {"encoder_layers", m.integer("layers")},
                  {"decoder_layers", m.integer("decoder_layers")},
                  {"encoder_attention_heads", heads},
                  {"decoder_attention_heads", heads},
                  {"encoder_ffn_dim", m.integer("mlp_width")},
                  {"decoder_ffn_dim", m.integer("mlp_width")},
                  {"d_model", m.integer("embedding")},
                  {"max_position_embeddings", m.integer(kContext)},
                  {"vocab_size", m.integer(kVocabulary)},
                  {"decoder_vocab_size", m.integer(kVocabulary)},
                  {"activation_function", m.flag("swish") ? "swish" : "relu"},
                  {"scale_embedding", true},
                  {"share_encoder_decoder_embeddings", true},
                  {"tie_word_embeddings", true},
                  {"is_encoder_decoder", true},
                  {"dropout", m.number("dropout")},
                  {"attention_dropout", m.number("attention_dropout")},
                  {"eos_token_id", end},
                  {"forced_eos_token_id", end},
                  {"decoder_start_token_id", start},
                  {"pad_token_id", pad},
                  {"torch_dtype", "float32"}};
  // So that padding is never told; a model that came from there says it, or does without.
  if (kept_type(weights.facts()).empty()) written["bad_words_ids"] = {{start}};
  save_published(weights, kLayout, std::move(written), folder, device);
}

}  // namespace

const Published& transformer_hugging_face() {
  static constexpr Published kPublished{.by = "transformers",
                                        .kinds = "marian",
                                        .tokenizer = {},
                                        .is_at = is_marian,
                                        .read = read_marian,
                                        .load = load_marian,
                                        .save = save_marian};
  return kPublished;
}

}  // namespace lpmm
