// Llama: Touvron et al. 2023, and the models that share its layers: RMS norms before each part, rotary
// positions, heads of keys and values that several heads of queries share, SwiGLU. Qwen2 has biases of
// queries, keys and values, Qwen3 norms of their heads; SmolLM3 has layers without rotary positions, Mistral
// a window; Phi-3 joins matrices, OLMo 2 norms what layers add, Granite multiplies it; Gemma 3 norms what
// layers read and what they add, by 1 + weight, and only some of its layers have windows; Qwen3-MoE has
// experts in place of MLPs. Tensors have the names of the published checkpoints, and mean what they mean
// there.
#include <fmt/format.h>

#include <cmath>

#include "lpmm/base/error.h"
#include "lpmm/program/ops/activations.h"
#include "lpmm/program/ops/add.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/loss.h"
#include "lpmm/program/ops/row_norm.h"
#include "lpmm/program/ops/sequence/attention.h"
#include "lpmm/program/ops/sequence/documents.h"
#include "lpmm/program/ops/sequence/embedding.h"
#include "lpmm/program/ops/sequence/last.h"
#include "lpmm/program/ops/sequence/mean.h"
#include "lpmm/program/ops/sequence/rotary.h"
#include "lpmm/program/ops/sequence/token_loss.h"
#include "models/families.h"
#include "models/llama_experts.h"
#include "models/published/layouts.h"
#include "models/rotary_settings.h"

namespace lpmm {
namespace {

constexpr double kDeviation = 0.02;

int key_heads(const ModelConfig& c) {
  return c.integer("kv_heads") > 0 ? c.integer("kv_heads") : c.integer("heads");
}

// Returns true if the layers with windows have a rotary base of their own.
bool has_local_rotary(const ModelConfig& c) {
  return c.number("local_theta") > 0;
}

NormWeight norm_weights(const ModelConfig& c) {
  return c.flag("norms_around") ? NormWeight::kAboveOne : NormWeight::kFactor;
}

// Positions as layers rotate them, everywhere and within windows.
struct Positions {
  RotaryConfig rope;
  Value angles, local_angles, documents;
};

Positions positions_of(ProgramBuilder& b, const ModelConfig& c, int length) {
  Positions p;
  p.rope = rotary_config(c);
  p.angles = p.local_angles = rotary_angles(b, p.rope, length);
  if (has_local_rotary(c)) {
    const RotaryConfig local{
        .head_width = p.rope.head_width, .theta = c.number("local_theta"), .magnitude = p.rope.magnitude};
    p.local_angles = rotary_angles(b, local, length);
  }
  if (c.documents) p.documents = document_table(b, c.length);
  return p;
}

// The parts of a layer.
struct Layer {
  ProgramBuilder& b;
  const ModelConfig& c;
  const Positions& at;
  int index;
  std::vector<Choice>& choices;
  const RotaryConfig& rope = at.rope;
  std::string name = fmt::format("model.layers.{}.", index);
  int heads = c.integer("heads"), kv_heads = key_heads(c), width = c.integer("embedding");
  int queries = heads * rope.head_width, keys = kv_heads * rope.head_width;
  double epsilon = c.number("epsilon"), residual = kDeviation / std::sqrt(2.0 * c.integer("layers"));
  NormWeight weights = norm_weights(c);
  // Every so many layers one sees all positions.
  bool is_local = c.integer("window") > 0 &&
                  (c.integer("global_every") == 0 || (index + 1) % c.integer("global_every") != 0);

  Value queries_keys_values(Value x) const {
    const std::string a = name + "self_attn.";
    if (c.flag("joined")) {  // parts of as many outputs each
      return projection(b, a + "qkv_proj", x, queries + 2 * keys, kDeviation, false, heads / kv_heads + 2,
                        kv_heads);
    }
    const Value y = projections(b,
                                {{.name = a + "q_proj", .outputs = queries, .heads = heads},
                                 {.name = a + "k_proj", .outputs = keys, .heads = kv_heads},
                                 {.name = a + "v_proj", .outputs = keys, .heads = kv_heads}},
                                x, kDeviation, c.flag("qkv_bias"));
    const std::string q = a + "q_norm", k = a + "k_norm";
    if (c.flag("norms_after")) return head_norms(b, {{q, 1, queries}, {k, 1, keys}}, y, epsilon);
    if (!c.flag("qk_norm")) return y;
    return head_norms(b, {{q, heads, rope.head_width}, {k, kv_heads, rope.head_width}}, y, epsilon, weights);
  }
  Value attend(Value x) const {
    const int nope_every = c.integer("nope_every");
    const bool has_rope = nope_every == 0 || (index + 1) % nope_every != 0;
    Value y = queries_keys_values(x);
    if (has_rope) {
      y = rotary(b, y, is_local ? at.local_angles : at.angles, heads + 2 * kv_heads, heads + kv_heads,
                 rope.part, at.documents);
    }
    y = attention(b, y,
                  {.heads = heads,
                   .kv_heads = kv_heads,
                   .context = c.integer(kContext),
                   .window = is_local ? c.integer("window") : 0},
                  at.documents);
    return projection(b, name + "self_attn.o_proj", y, width, residual, c.flag("o_bias"));
  }
  Value feed(Value x) const {
    const std::string m = name + "mlp.";
    const int hidden = c.integer("mlp_width");
    const bool bias = c.flag("mlp_bias");
    const Activation function = c.flag("geglu") ? Activation::kGeluTanh : Activation::kSilu;
    if (has_experts(c, index)) {
      const ExpertsConfig config{c.integer(kExpertWidth), function, kDeviation, residual};
      return expert_mlp(b, c, m, x, config, choices);
    }
    Value y = c.flag("joined")
                  ? projection(b, m + "gate_up_proj", x, 2 * hidden, kDeviation, false, 2)
                  : projections(b, {{m + "gate_proj", hidden}, {m + "up_proj", hidden}}, x, kDeviation, bias);
    y = activation(b, function, y, true);
    return projection(b, m + "down_proj", y, width, residual, bias);
  }
  Value norm(const char* which, Value x) const { return rms_norm(b, name + which, x, epsilon, weights); }
  Value all(Value in) const {
    if (c.flag("norms_after")) {
      const Value middle = add(b, in, norm("post_attention_layernorm", attend(in)));
      return add(b, middle, norm("post_feedforward_layernorm", feed(middle)));
    }
    if (c.flag("norms_around")) {
      const Value added = attend(norm("input_layernorm", in));
      const Value middle = add(b, in, norm("post_attention_layernorm", added));
      return add(b, middle,
                 norm("post_feedforward_layernorm", feed(norm("pre_feedforward_layernorm", middle))));
    }
    const double times = c.number("residual_scale");
    const Value middle = add(b, in, scale(b, attend(norm("input_layernorm", in)), times));
    return add(b, middle, scale(b, feed(norm("post_attention_layernorm", middle)), times));
  }
};

// The last layer's positions, normed; the choices of its layers are added to `choices`.
Value body(ProgramBuilder& b, const ModelConfig& c, std::vector<Choice>& choices) {
  const int vocabulary = c.integer(kVocabulary), width = c.integer("embedding");
  Value x =
      embedding(b, "model.embed_tokens", {.vocabulary = vocabulary, .length = c.length, .width = width});
  x = scale(b, x, c.number("embedding_scale"));
  const Positions positions = positions_of(b, c, x.width);
  for (int i = 0; i < c.integer("layers"); ++i) {
    const Layer layer{b, c, positions, i, choices};
    const auto all = [&](Value in) { return layer.all(in); };
    x = c.flag("recompute") ? b.recompute(x, all) : all(x);
  }
  return rms_norm(b, "model.norm", x, c.number("epsilon"), norm_weights(c));
}

void forward(ProgramBuilder& b, const ModelConfig& c) {
  std::vector<Choice> choices;
  const Value x = scale(b, body(b, c, choices), c.number("logit_scale"));
  const TokenLossConfig loss{.may_lack = c.documents, .preferences = c.preferences};
  if (c.flag("tied")) {
    tied_token_loss(b, "model.embed_tokens", x, loss);
  } else {
    token_loss(b, "lm_head", x, c.integer(kVocabulary), kDeviation, loss);
  }
  balance_loss(b, choices, c.number(kBalance));
}

// A sentence is judged by its last position, where causal attention has seen all of it.
void sentence_forward(ProgramBuilder& b, const ModelConfig& c) {
  std::vector<Choice> choices;
  const Value x = body(b, c, choices);
  const bool is_weighted = c.flag(kWeightedEmbeds);
  if (c.classes == 0)
    return output(b, is_weighted || c.flag("mean_embeds") ? mean(b, x, is_weighted) : last(b, x));
  sentence_loss(b, classifier(b, "score", last(b, x, c.integer("pad_token")), c.classes, false), c);
}

// The same of models whose norms are around each part.
void check_gemma(const ModelConfig& c) {
  const auto refuse = [](const std::string& why) { throw UsageError("model." + why); };
  const double root = std::sqrt(c.integer("embedding")), scale = c.number("embedding_scale");
  const bool has_others = c.flag("joined") || c.flag("norms_after") || c.flag("mlp_bias") ||
                          c.flag("qkv_bias") != c.flag("o_bias") || c.integer("nope_every") > 0 ||
                          c.number("residual_scale") != 1 ||
                          (c.has("logit_scale") && c.number("logit_scale") != 1) || c.flag("rope_yarn") ||
                          c.integer("rope_context") > 0;
  if (has_others || !c.flag("qk_norm") || !c.flag("geglu")) {
    refuse(
        "norms_around, Gemma 3's, goes with qk_norm and geglu, and without biases (but qkv_bias with "
        "o_bias), joined, norms_after, nope_every, residual_scale, logit_scale, rope_context and rope_yarn");
  }
  if (std::abs(scale - root) > 1e-6 * root) {
    refuse(fmt::format("embedding_scale = {}: with norms_around it is the root of model.embedding, {}", scale,
                       root));
  }
  if (c.integer("window") == 0 && (c.integer("global_every") > 0 || has_local_rotary(c)))
    refuse("global_every and model.local_theta are for layers with a model.window, which is 0");
}

// Refuses settings that no publisher's library could load.
void check_kind(const ModelConfig& c) {
  if (c.flag("norms_around")) return check_gemma(c);
  const auto refuse = [](const char* why) { throw UsageError(fmt::format("model.{}", why)); };
  if (c.integer("global_every") > 0 || has_local_rotary(c))
    refuse("global_every and model.local_theta need norms_around = true: no other model here has them");
  bool is_scaled = c.number("attention_scale") != 0;
  for (const char* key : {"embedding_scale", "residual_scale", "logit_scale"})
    is_scaled = is_scaled || (c.has(key) && c.number(key) != 1);
  const bool joined = c.flag("joined"), has_window = c.integer("window") > 0, o_bias = c.flag("o_bias"),
             qk_norm = c.flag("qk_norm"), after = c.flag("norms_after");
  if ((c.flag("qkv_bias") && !o_bias) + qk_norm + (c.integer("nope_every") > 0) + (has_window && !joined) +
          joined + after + is_scaled >
      1) {
    refuse(
        "qkv_bias without o_bias, which Qwen2 has, model.qk_norm, Qwen3's, nope_every, SmolLM3's, window, "
        "Mistral's, joined, Phi-3's, norms_after, OLMo 2's, and embedding_scale, residual_scale, "
        "attention_scale and logit_scale, Granite's, go alone");
  }
  if (o_bias && (!c.flag("qkv_bias") || joined || has_window)) {
    refuse("o_bias = true needs qkv_bias = true, and goes neither with joined nor with window");
  }
  if (c.flag("mlp_bias") && (joined || has_window || qk_norm || after || (c.flag("qkv_bias") && !o_bias))) {
    refuse("mlp_bias = true is for Llama, SmolLM3 and Granite: the others have no place for it");
  }
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
  check_rotary(rotary_config(c));
  if (!c.flag("joined") && (c.integer("rope_width") > 0 || !c.numbers("rope_short").empty()))
    refuse("rope_width and model.rope_short, Phi-3's, need joined = true: no other model here has them");
  if (c.number("attention_scale") != 0 && c.integer("nope_every") > 0)
    refuse("attention_scale is for models whose layers all have rotary positions; take nope_every = 0");
  check_kind(c);
  check_experts(c);
}

void check_sentences(const ModelConfig& c) {
  check(c);
  check_one_embedding(c, "mean_embeds");
}

// The sizes that the publisher's config.json has.
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

std::vector<ModelSetting> settings() {
  std::vector<ModelSetting> all = {
      {"layers", 0, 1, 1000, "layers of attention and MLP; 0: the name's own"},
      {"heads", 0, 1, 1000, "heads of queries; 0: the name's own"},
      {"kv_heads", 0, 0, 1000, "heads of keys and values; 0: as many as of queries"},
      {"embedding", 0, 1, 1 << 16, "channels of a position; 0: the name's own"},
      {"head_width", 0, 0, 1 << 16, "channels of a head; 0: embedding / heads"},
      mlp_width(),
      {kContext, 0, 1, 1 << 20, "positions; 0: the name's own"},
      {kVocabulary, 0, 2, 1 << 24, "tokens; 0: the name's or the tokenizer's own"}};
  const ModelSetting more[] = {
      {"epsilon", 1e-5, 1e-12, 1, "of the norms"},
      {"tied", false, 0, 0, "whether the output is the embedding"},
      {"qkv_bias", false, 0, 0, "biases of queries, keys and values, as Qwen2 has"},
      {"o_bias", false, 0, 0, "a bias of what attention adds, beside qkv_bias"},
      {"mlp_bias", false, 0, 0, "biases of the MLP"},
      {"qk_norm", false, 0, 0, "norms of heads of queries and keys, as Qwen3 has"},
      {"nope_every", 0, 0, 1000, "every so many layers one has no rotary positions, as SmolLM3 has; 0: none",
       "unturned_every"},
      {"window", 0, 0, 1 << 20, "positions that one attends to, the last ones, as Mistral has; 0: all"},
      {"global_every", 0, 0, 1000, "every so many layers one has no window, as Gemma 3 has; 0: none"},
      {"local_theta", 0.0, 0, 1e12,
       "base of the rotary frequencies of layers with windows, which are not scaled; 0: as of the others"},
      {"geglu", false, 0, 0, "GELU (tanh form) in place of SiLU in the gated MLP, as Gemma has"},
      {"joined", false, 0, 0, "one matrix of queries, keys and values, one of gate and up: Phi-3"},
      {"norms_after", false, 0, 0, "norms of what layers add, and of whole queries and keys: OLMo 2"},
      {"norms_around", false, 0, 0,
       "norms of what layers read and of what they add, which multiply by 1 + weight: Gemma 3"},
      {"embedding_scale", 1.0, 1e-6, 1e6, "factor on embeddings, as Granite and Gemma have"},
      {"residual_scale", 1.0, 1e-6, 1e6, "factor on what layers add, as Granite has"},
      {"attention_scale", 0.0, 0, 1e6,
       "factor on products of queries and keys, as Granite has; 0: 1 / sqrt(channels of a head)"},
      {"logit_scale", 1.0, 1e-6, 1e6, "factor on logits, as Granite has"},
      {"recompute", false, 0, 0, "keep the input of layers only, compute them again"}};
  const std::vector<ModelSetting> rotary = rotary_settings();
  const std::vector<ModelSetting> of_experts = expert_settings();
  all.insert(all.end(), rotary.begin(), rotary.end());
  all.insert(all.end(), of_experts.begin(), of_experts.end());
  all.insert(all.end(), std::begin(more), std::end(more));
  return all;
}

NamedModel gemma3(std::string_view name, std::int64_t layers, std::int64_t width, std::int64_t hidden) {
  return size(name, layers, 4, 1, width, hidden, 32768, 262144, 1e6,
              {{"head_width", std::int64_t{256}},
               {"tied", true},
               {"qk_norm", true},
               {"geglu", true},
               {"norms_around", true},
               {"embedding_scale", std::sqrt(static_cast<double>(width))},
               {"window", std::int64_t{512}},
               {"global_every", std::int64_t{6}},
               {"local_theta", 1e4},
               {"epsilon", 1e-6}});
}

std::vector<NamedModel> sizes() {
  constexpr std::int64_t kOriginal = 8192;  // context of Llama 3
  return {
      {"llama"},
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
      size("qwen3-30b-a3b", 48, 32, 4, 2048, 6144, 40960, 151936, 1e6,
           {{"head_width", std::int64_t{128}},
            {"qk_norm", true},
            {"epsilon", 1e-6},
            {kExperts, std::int64_t{128}},
            {kChosen, std::int64_t{8}},
            {kExpertWidth, std::int64_t{768}},
            {kExpertsNormed, true},
            {kBalance, 0.001}}),
      size("smollm3-3b", 36, 16, 4, 2048, 11008, 65536, 128256, 5e6,
           {{"tied", true}, {"nope_every", std::int64_t{4}}, {"epsilon", 1e-6}}),
      size("tinyllama-1.1b", 22, 32, 4, 2048, 5632, 2048, 32000, 1e4),
      size("llama-3.2-1b", 16, 32, 8, 2048, 8192, 131072, 128256, 5e5,
           {{"tied", true}, {"rope_factor", 32.0}, {"rope_context", kOriginal}}),
      size("llama-2-7b", 32, 32, 32, 4096, 11008, 4096, 32000, 1e4),
      size("phi3-mini", 32, 32, 32, 3072, 8192, 4096, 32064, 1e4,
           {{"joined", true}, {"window", std::int64_t{2047}}}),
      size("olmo2-1b", 16, 16, 16, 2048, 8192, 4096, 100352, 5e5, {{"norms_after", true}, {"epsilon", 1e-6}}),
      size("granite3.1-2b", 40, 32, 8, 2048, 8192, 131072, 49155, 5e6,
           {{"tied", true},
            {"embedding_scale", 12.0},
            {"residual_scale", 0.22},
            {"attention_scale", 0.015625},
            {"logit_scale", 0.125}}),
      gemma3("gemma3-270m", 18, 640, 2048),
      gemma3("gemma3-1b", 26, 1152, 6912)};
}

}  // namespace

Family llama() {
  return {.name = "llama",
          .help =
              "Llama (Touvron et al. 2023), SmolLM2, SmolLM3, Mistral, Qwen2, Qwen3, Qwen3-MoE, Phi-3, "
              "OLMo 2, Granite, Gemma 3",
          .reads = &kTextTask,
          .models = sizes(),
          .settings = settings(),
          .check = check,
          .forward = forward,
          .published = &llama_hugging_face()};
}

Family llama_sentences() {
  std::vector<ModelSetting> all = settings();
  std::erase_if(all, [](const ModelSetting& s) {
    return s.key == "tied" || s.key == "logit_scale" || s.key == kBalance;
  });
  const ModelSetting more[] = {
      {"pad_token", -1, -1, 1 << 24,
       "token that fills texts up: what is told is told of the one before; -1: none"},
      {"mean_embeds", false, 0, 0, "an embedding is the mean of the positions, not the last one"},
      weighted_embeds(),
      multi_label(),
      label_smoothing()};
  all.insert(all.end(), std::begin(more), std::end(more));
  return {.name = "llama-sentences",
          .help = "The same with a head on the end of a text, for classes of texts and for embeddings",
          .reads = &kSentenceTask,
          .models = {{"llama-sentences"}},
          .settings = std::move(all),
          .check = check_sentences,
          .forward = sentence_forward,
          .head = "score.",
          .starts_from = "llama",
          .other_head = "lm_head.",
          .published = &llama_sentences_hugging_face()};
}

}  // namespace lpmm
