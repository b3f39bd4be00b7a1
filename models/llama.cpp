// Llama: Touvron et al. 2023, and the models that share its layers: RMS norms before each part, rotary
// positions, heads of keys and values that several heads of queries share, SwiGLU, no biases but those of
// Qwen2's queries, keys and values; Qwen3 norms heads of queries and keys instead, SmolLM3 has layers without
// rotary positions. Tensors have the names of the published checkpoints.
#include <fmt/format.h>

#include <cmath>

#include "lpmm/base/error.h"
#include "lpmm/program/ops/activations.h"
#include "lpmm/program/ops/add.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/row_norm.h"
#include "lpmm/program/ops/sequence/attention.h"
#include "lpmm/program/ops/sequence/embedding.h"
#include "lpmm/program/ops/sequence/rotary.h"
#include "lpmm/program/ops/sequence/token_loss.h"
#include "models/families.h"
#include "models/published/layouts.h"

namespace lpmm {
namespace {

RotaryConfig rotary_config(const ModelConfig& c) {
  const int head_width = c.integer("head_width");
  return {.head_width = head_width > 0 ? head_width : c.integer("embedding") / c.integer("heads"),
          .theta = c.number("theta"),
          .factor = c.number("rope_factor"),
          .original_context = c.integer("rope_context"),
          .low = c.number("rope_low"),
          .high = c.number("rope_high")};
}

void forward(ProgramBuilder& b, const ModelConfig& c) {
  const int layers = c.integer("layers"), heads = c.integer("heads"), width = c.integer("embedding");
  const int kv_heads = c.integer("kv_heads") > 0 ? c.integer("kv_heads") : heads;
  const int vocabulary = c.integer(kVocabulary), hidden = c.integer("mlp_width"),
            nope_every = c.integer("nope_every");
  const double epsilon = c.number("epsilon"), deviation = 0.02,
               residual = deviation / std::sqrt(2.0 * layers);
  const RotaryConfig rope = rotary_config(c);
  const int queries = heads * rope.head_width, keys = kv_heads * rope.head_width;
  Value x =
      embedding(b, "model.embed_tokens", {.vocabulary = vocabulary, .length = c.length, .width = width});
  const Value angles = rotary_angles(b, rope, x.width);
  for (int i = 0; i < layers; ++i) {
    const auto layer = [&](Value in) {
      const std::string name = fmt::format("model.layers.{}.", i), a = name + "self_attn.", m = name + "mlp.";
      Value y = rms_norm(b, name + "input_layernorm", in, epsilon);
      y = projections(b,
                      {{.name = a + "q_proj", .outputs = queries, .heads = heads},
                       {.name = a + "k_proj", .outputs = keys, .heads = kv_heads},
                       {.name = a + "v_proj", .outputs = keys, .heads = kv_heads}},
                      y, deviation, c.flag("qkv_bias"));
      if (c.flag("qk_norm")) {
        y = head_norms(b, {{a + "q_norm", heads}, {a + "k_norm", kv_heads}}, y, rope.head_width, epsilon);
      }
      const bool has_rope = nope_every == 0 || (i + 1) % nope_every != 0;
      if (has_rope) y = rotary(b, y, angles, heads + 2 * kv_heads, heads + kv_heads);
      y = attention(b, y,
                    {.heads = heads,
                     .kv_heads = kv_heads,
                     .context = c.integer(kContext),
                     .window = c.integer("window")});
      const Value middle = add(b, in, projection(b, a + "o_proj", y, width, residual, false));
      y = rms_norm(b, name + "post_attention_layernorm", middle, epsilon);
      y = projections(b, {{m + "gate_proj", hidden}, {m + "up_proj", hidden}}, y, deviation, false);
      y = activation(b, c.flag("geglu") ? Activation::kGeluTanh : Activation::kSilu, y, true);
      return add(b, middle, projection(b, m + "down_proj", y, width, residual, false));
    };
    x = c.flag("recompute") ? b.recompute(x, layer) : layer(x);
  }
  x = rms_norm(b, "model.norm", x, epsilon);
  if (c.flag("tied")) return tied_token_loss(b, "model.embed_tokens", x);
  token_loss(b, "lm_head", x, vocabulary, deviation);
}

void check(const ModelConfig& c) {
  const auto refuse = [](const std::string& why) { throw UsageError("model." + why); };
  const int heads = c.integer("heads"), width = c.integer("embedding"), kv_heads = c.integer("kv_heads");
  if (c.integer("head_width") == 0 && width % heads != 0) {
    refuse(fmt::format("embedding = {} must be a multiple of model.heads = {}, or head_width be given", width,
                       heads));
  }
  if (kv_heads > 0 && heads % kv_heads != 0) {
    refuse(fmt::format("heads = {} must be a multiple of model.kv_heads = {}", heads, kv_heads));
  }
  const RotaryConfig rope = rotary_config(c);
  if (rope.head_width % 2 != 0) {
    refuse(fmt::format("head_width = {}: RoPE rotates pairs, so it must be even", rope.head_width));
  }
  if (c.flag("qk_norm") + c.flag("qkv_bias") + (c.integer("nope_every") > 0) + (c.integer("window") > 0) >
      1) {
    refuse(
        "qkv_bias, which Qwen2 has, model.qk_norm, Qwen3's, nope_every, SmolLM3's, and window, "
        "Mistral's, go alone");
  }
  if (rope.low >= rope.high) {
    refuse(fmt::format("rope_low = {} must be below model.rope_high = {}", rope.low, rope.high));
  }
}

// As published: their config.json.
NamedModel size(std::string_view name, std::int64_t layers, std::int64_t heads, std::int64_t kv_heads,
                std::int64_t width, std::int64_t hidden, std::int64_t context, std::int64_t vocabulary,
                double theta, std::vector<std::pair<std::string_view, SettingValue>> more = {}) {
  NamedModel model{name,
                   {{"layers", layers},
                    {"heads", heads},
                    {"kv_heads", kv_heads},
                    {"embedding", width},
                    {"mlp_width", hidden},
                    {kContext, context},
                    {kVocabulary, vocabulary},
                    {"theta", theta}}};
  model.sizes.insert(model.sizes.end(), more.begin(), more.end());
  return model;
}

}  // namespace

Family llama() {
  constexpr std::int64_t kOriginal = 8192;  // context of Llama 3
  return {
      .name = "llama",
      .help = "Llama (Touvron et al. 2023), SmolLM2, SmolLM3, Mistral, Qwen2, Qwen3",
      .reads = &kTextTask,
      .models =
          {{"llama"},
           size("smollm2-135m", 30, 9, 3, 576, 1536, 8192, 49152, 1e5, {{"tied", true}}),
           size("qwen2-0.5b", 24, 14, 2, 896, 4864, 32768, 151936, 1e6,
                {{"tied", true}, {"qkv_bias", true}, {"epsilon", 1e-6}}),
           size("qwen2.5-1.5b", 28, 12, 2, 1536, 8960, 131072, 151936, 1e6,
                {{"tied", true}, {"qkv_bias", true}, {"epsilon", 1e-6}}),
           size("qwen2.5-3b", 36, 16, 2, 2048, 11008, 32768, 151936, 1e6,
                {{"tied", true}, {"qkv_bias", true}, {"epsilon", 1e-6}}),
           size("qwen2.5-7b", 28, 28, 4, 3584, 18944, 131072, 152064, 1e6,
                {{"qkv_bias", true}, {"epsilon", 1e-6}}),
           size("qwen3-0.6b", 28, 16, 8, 1024, 3072, 40960, 151936, 1e6,
                {{"head_width", std::int64_t{128}}, {"tied", true}, {"qk_norm", true}, {"epsilon", 1e-6}}),
           size("smollm3-3b", 36, 16, 4, 2048, 11008, 65536, 128256, 5e6,
                {{"tied", true}, {"nope_every", std::int64_t{4}}, {"epsilon", 1e-6}}),
           size("tinyllama-1.1b", 22, 32, 4, 2048, 5632, 2048, 32000, 1e4),
           size("llama-3.2-1b", 16, 32, 8, 2048, 8192, 131072, 128256, 5e5,
                {{"tied", true}, {"rope_factor", 32.0}, {"rope_context", kOriginal}}),
           size("llama-2-7b", 32, 32, 32, 4096, 11008, 4096, 32000, 1e4)},
      .settings = {{"layers", 0, 1, 1000, "layers of attention and MLP; 0: the name's own"},
                   {"heads", 0, 1, 1000, "heads of queries; 0: the name's own"},
                   {"kv_heads", 0, 0, 1000, "heads of keys and values; 0: as many as of queries"},
                   {"embedding", 0, 1, 1 << 16, "channels of a position; 0: the name's own"},
                   {"head_width", 0, 0, 1 << 16, "channels of a head; 0: embedding / heads"},
                   {"mlp_width", 0, 1, 1 << 20, "channels inside an MLP; 0: the name's own"},
                   {kContext, 0, 1, 1 << 20, "positions; 0: the name's own"},
                   {kVocabulary, 0, 2, 1 << 24, "tokens; 0: the name's or the tokenizer's own"},
                   {"theta", 1e4, 1, 1e12, "base of the rotary frequencies"},
                   {"rope_factor", 1.0, 1, 1e6, "divides rotary frequencies, for longer contexts"},
                   {"rope_context", 0, 0, 1 << 24,
                    "Llama 3's scaling: context the model was trained with first; 0: divide them all"},
                   {"rope_low", 1.0, 0, 1e6, "Llama 3's scaling: turns below which frequencies are divided"},
                   {"rope_high", 4.0, 0, 1e6, "Llama 3's scaling: turns above which they are not"},
                   {"epsilon", 1e-5, 1e-12, 1, "of the norms"},
                   {"tied", false, 0, 0, "whether the output is the embedding"},
                   {"qkv_bias", false, 0, 0, "biases of queries, keys and values, as Qwen2 has"},
                   {"qk_norm", false, 0, 0, "norms of heads of queries and keys, as Qwen3 has"},
                   {"nope_every", 0, 0, 1000,
                    "every so many layers one has no rotary positions, as SmolLM3 has; 0: none",
                    "unturned_every"},
                   {"window", 0, 0,
                    1 << 20, "positions that one attends to, the last ones, as Mistral has; 0: all"},
                   {"geglu", false, 0, 0, "GELU (tanh form) in place of SiLU in the gated MLP, as Gemma has"},
                   {"recompute", false, 0, 0, "keep the input of layers only, compute them again"}},
      .check = check,
      .forward = forward,
      .published = &llama_hugging_face()};
}

}  // namespace lpmm
