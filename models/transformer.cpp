// The transformer of translation: Vaswani et al. 2017, as Marian has it. An encoder reads the source, a
// decoder tells the target token by token: norms behind each part, positions of sines and cosines, one matrix
// for both embeddings and the output. Tensors have the names of Hugging Face's Marian.
#include <fmt/format.h>

#include <cmath>

#include "lpmm/base/error.h"
#include "lpmm/program/ops/activations.h"
#include "lpmm/program/ops/add.h"
#include "lpmm/program/ops/dropout.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/row_norm.h"
#include "lpmm/program/ops/sequence/attention.h"
#include "lpmm/program/ops/sequence/embedding.h"
#include "lpmm/program/ops/sequence/sinusoids.h"
#include "lpmm/program/ops/sequence/token_loss.h"
#include "models/families.h"
#include "models/published/layouts.h"

namespace lpmm {
namespace {

constexpr const char* kEmbedding = "model.shared";

// The parts that both sides have. Deviations are those of Glorot and Bengio 2010.
struct Layer {
  ProgramBuilder& b;
  const ModelConfig& c;
  std::string name;  // the prefix of its tensors
  int width = c.integer("embedding"), heads = c.integer("heads");

  Value project(const std::vector<std::string>& names, Value x, int outputs) const {
    std::vector<Projection> list;
    for (const std::string& n : names) list.push_back({.name = name + n, .outputs = outputs, .heads = heads});
    return projections(b, list, x, deviation(x.channels, outputs));
  }
  Value plain(const std::string& n, Value x, int outputs) const {
    return projection(b, name + n, x, outputs, deviation(x.channels, outputs));
  }
  // Adds the output of a sublayer to x and applies its norm, which comes after (post-norm).
  Value join(const std::string& norm, Value x, Value more) const {
    return layer_norm(b, name + norm, add(b, x, dropout(b, more, c.number("dropout"))));
  }
  AttentionConfig attends(bool is_causal) const {
    return {.heads = heads,
            .context = c.integer(kContext),
            .dropout = c.number("attention_dropout"),
            .is_causal = is_causal};
  }
  Value self(Value x, bool is_causal) const {
    const std::string a = "self_attn.";
    Value y = project({a + "q_proj", a + "k_proj", a + "v_proj"}, x, width);
    y = plain(a + "out_proj", attention(b, y, attends(is_causal)), width);
    return join("self_attn_layer_norm", x, y);
  }
  Value cross(Value x, Value source) const {
    const std::string a = "encoder_attn.";
    const Value q = project({a + "q_proj"}, x, width);
    const Value kv = b.once([&] { return project({a + "k_proj", a + "v_proj"}, source, width); });
    return join("encoder_attn_layer_norm", x,
                plain(a + "out_proj", cross_attention(b, q, kv, attends(false)), width));
  }
  Value feed(Value x) const {
    const Value y = plain("fc1", x, c.integer("mlp_width"));
    const Value active = activation(b, c.flag("swish") ? Activation::kSilu : Activation::kRelu, y);
    return join("final_layer_norm", x, plain("fc2", active, width));
  }
  static double deviation(int inputs, int outputs) { return std::sqrt(2.0 / (inputs + outputs)); }
};

Value embedded(ProgramBuilder& b, const ModelConfig& c, bool is_source) {
  const int width = c.integer("embedding");
  const Value x = embedding(b, kEmbedding,
                            {.vocabulary = c.integer(kVocabulary),
                             .length = c.length,
                             .width = width,
                             .initial = {InitialKind::kNormal, 1 / std::sqrt(width)},
                             .is_source = is_source,
                             .is_shared = !is_source});
  return dropout(b, add_sinusoids(b, x, std::sqrt(width), is_source), c.number("dropout"));
}

void forward(ProgramBuilder& b, const ModelConfig& c) {
  const auto stack = [&](const char* side, const char* count, Value x, const auto& body) {
    for (int i = 0; i < c.integer(count); ++i) {
      const Layer layer{b, c, fmt::format("model.{}.layers.{}.", side, i)};
      const auto all = [&](Value in) { return layer.feed(body(layer, in)); };
      x = c.flag("recompute") ? b.recompute(x, all) : all(x);
    }
    return x;
  };
  const Value source = b.once([&] {
    return stack("encoder", "layers", embedded(b, c, true),
                 [](const Layer& layer, Value x) { return layer.self(x, false); });
  });
  const Value x =
      stack("decoder", "decoder_layers", embedded(b, c, false),
            [&](const Layer& layer, Value in) { return layer.cross(layer.self(in, true), source); });
  tied_token_loss(b, kEmbedding, x,
                  {.smoothing = c.number("label_smoothing"), .bias = "final_logits_bias", .may_lack = true});
}

void check(const ModelConfig& c) {
  if (c.integer("embedding") % c.integer("heads") != 0) {
    throw UsageError(fmt::format("model.embedding = {} must be a multiple of model.heads = {}",
                                 c.integer("embedding"), c.integer("heads")));
  }
}

NamedModel size(std::string_view name, std::int64_t layers, std::int64_t heads, std::int64_t width,
                std::int64_t hidden) {
  return {name,
          {{"layers", layers},
           {"decoder_layers", layers},
           {"heads", heads},
           {"embedding", width},
           {"mlp_width", hidden},
           {kContext, std::int64_t{512}}}};
}

}  // namespace

Family transformer() {
  return {.name = "transformer",
          .help = "the transformer of translation (Vaswani et al. 2017), Marian",
          .reads = &kPairTask,
          .models = {{"transformer"},
                     size("transformer-tiny", 4, 4, 128, 256),
                     size("transformer-small", 6, 4, 512, 1024),
                     size("transformer-base", 6, 8, 512, 2048)},
          .settings = {{"layers", 0, 1, 1000, "layers of attention and MLP; 0: the name's own"},
                       {"decoder_layers", 0, 1, 1000, "layers that tell the target; 0: the name's own"},
                       {"heads", 0, 1, 1000, "heads of attention; 0: the name's own"},
                       {"embedding", 0, 1, 1 << 16, "channels of a position; 0: the name's own"},
                       mlp_width(),
                       {kContext, 0, 1, 1 << 20, "positions; 0: the name's own"},
                       {kVocabulary, 0, 2, 1 << 24, "tokens; 0: the name's or the tokenizer's own"},
                       {kEnd, -1, 0, 1 << 24, "token that sentences end with; -1: the tokenizer's"},
                       {kStart, -1, 0, 1 << 24, "token before a translation; -1: the tokenizer's"},
                       {"swish", false, 0, 0, "in MLPs swish in place of ReLU"},
                       {"dropout", 0.0, 0, 0.999, "of embeddings, and of what layers add"},
                       {"attention_dropout", 0.0, 0, 0.999, "of the probabilities of attention"},
                       label_smoothing(),
                       {"recompute", false, 0, 0, "keep the input of layers only, compute them again"}},
          .check = check,
          .forward = forward,
          .published = &transformer_hugging_face()};
}

}  // namespace lpmm
