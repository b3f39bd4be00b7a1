// ModernBERT: Warner et al. 2024. Norms before each part, rotary positions, a gated MLP and, in most layers,
// windows to both sides with a rotary base of their own; no biases. What stands on top depends on the data,
// as on a BERT. Tensors have the names of the published checkpoints, but for those of the head.
#include <fmt/format.h>

#include "lpmm/base/error.h"
#include "lpmm/program/ops/activations.h"
#include "lpmm/program/ops/add.h"
#include "lpmm/program/ops/dropout.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/loss.h"
#include "lpmm/program/ops/patches.h"
#include "lpmm/program/ops/row_norm.h"
#include "lpmm/program/ops/sequence/attention.h"
#include "lpmm/program/ops/sequence/embedding.h"
#include "lpmm/program/ops/sequence/mean.h"
#include "lpmm/program/ops/sequence/rotary.h"
#include "lpmm/program/ops/sequence/token_loss.h"
#include "models/families.h"
#include "models/published/layouts.h"

namespace lpmm {
namespace {

constexpr double kDeviation = 0.02;

Value norm(ProgramBuilder& b, const ModelConfig& c, const std::string& name, Value x) {
  return layer_norm(b, name, x, c.number("epsilon"), false);
}

// The parts of a layer.
struct Layer {
  ProgramBuilder& b;
  const ModelConfig& c;
  int index;
  Value angles, local_angles;
  std::string name = fmt::format("layers.{}.", index);
  int heads = c.integer("heads"), width = c.integer("embedding");
  double drop = c.number("dropout");
  bool is_local = index % c.integer("global_every") != 0;

  Value attend(Value x) const {
    Value y = projection(b, name + "attn.Wqkv", x, 3 * width, kDeviation, false, 3, heads);
    y = rotary(b, y, is_local ? local_angles : angles, 3 * heads, 2 * heads);
    y = attention(
        b, y,
        {.heads = heads, .dropout = drop, .is_causal = false, .window = is_local ? c.integer("window") : 0});
    return dropout(b, projection(b, name + "attn.Wo", y, width, kDeviation, false), drop);
  }
  Value feed(Value x) const {
    const int hidden = c.integer("mlp_width");
    Value y = projection(b, name + "mlp.Wi", x, 2 * hidden, kDeviation, false, 2);
    y = dropout(b, activation(b, Activation::kGelu, y, true), drop);
    return projection(b, name + "mlp.Wo", y, width, kDeviation, false);
  }
  // The embeddings are normed before the first.
  Value all(Value in) const {
    const Value middle = add(b, in, attend(index == 0 ? in : norm(b, c, name + "attn_norm", in)));
    return add(b, middle, feed(norm(b, c, name + "mlp_norm", middle)));
  }
};

// The last layer's positions, normed.
Value body(ProgramBuilder& b, const ModelConfig& c) {
  const int width = c.integer("embedding"), head_width = width / c.integer("heads");
  Value x = embedding(b, "embeddings.tok_embeddings",
                      {.vocabulary = c.integer(kVocabulary), .length = c.length, .width = width});
  x = dropout(b, norm(b, c, "embeddings.norm", x), c.number("dropout"));
  const auto angles = [&](const char* theta) {
    return rotary_angles(b, {.head_width = head_width, .theta = c.number(theta)}, x.width);
  };
  const Value everywhere = angles("theta"), within_windows = angles("local_theta");
  for (int i = 0; i < c.integer("layers"); ++i) {
    const Layer layer{b, c, i, everywhere, within_windows};
    const auto all = [&](Value in) { return layer.all(in); };
    x = c.flag("recompute") ? b.recompute(x, all) : all(x);
  }
  return norm(b, c, "final_norm", x);
}

// The layer before the classifier, of a vector or of every position.
Value head(ProgramBuilder& b, const ModelConfig& c, Value x) {
  x = activation(b, Activation::kGelu,
                 projection(b, "classifier.dense", x, c.integer("embedding"), kDeviation, false));
  return dropout(b, norm(b, c, "classifier.norm", x), c.number("dropout"));
}

void forward(ProgramBuilder& b, const ModelConfig& c) {
  constexpr const char* kClassifier = "classifier.out_proj";
  const Value x = body(b, c);
  if (c.classes == 0) {
    return output(b, c.flag("first_embeds") ? select(b, x, 0) : mean(b, x, c.flag(kWeightedEmbeds)));
  }
  if (c.flag(kOfWords)) {
    return position_loss(b, kClassifier, head(b, c, x), c.classes, kDeviation, c.number("label_smoothing"));
  }
  const Value pooled = c.flag("mean_head") ? mean(b, x) : select(b, x, 0);
  sentence_loss(b, classifier(b, kClassifier, head(b, c, pooled), c.classes), c);
}

void check(const ModelConfig& c) {
  const int heads = c.integer("heads"), width = c.integer("embedding");
  if (width % heads != 0 || width / heads % 2 != 0) {
    throw UsageError(
        fmt::format("model.embedding = {} must be a multiple of twice model.heads = {}: RoPE rotates pairs",
                    width, heads));
  }
  if (c.flag(kOfWords) && c.flag(kMultiLabel))
    throw UsageError("model.of_words and model.multi_label are of two heads: only one may be true");
  check_one_embedding(c, "first_embeds");
}

NamedModel size(std::string_view name, std::int64_t layers, std::int64_t heads, std::int64_t width,
                std::int64_t hidden) {
  return {name,
          {{"layers", layers},
           {"heads", heads},
           {"embedding", width},
           {"mlp_width", hidden},
           {kContext, std::int64_t{8192}},
           {kVocabulary, std::int64_t{50368}}}};
}

}  // namespace

Family modernbert() {
  return {
      .name = "modernbert",
      .help = "ModernBERT (Warner et al. 2024): rotary positions, windows, no biases",
      .reads = &kSentenceTask,
      .models = {{"modernbert"},
                 size("modernbert-base", 22, 12, 768, 1152),
                 size("modernbert-large", 28, 16, 1024, 2624)},
      .settings = {{"layers", 0, 1, 1000, "layers of attention and MLP; 0: the name's own"},
                   {"heads", 0, 1, 1000, "heads of attention; 0: the name's own"},
                   {"embedding", 0, 1, 1 << 16, "channels of a position; 0: the name's own"},
                   mlp_width(),
                   {kContext, 0, 1, 1 << 20, "positions; 0: the name's own"},
                   {kVocabulary, 0, 2, 1 << 24, "tokens; 0: the name's or the tokenizer's own"},
                   {"theta", 160000.0, 1, 1e12, "base of the rotary frequencies"},
                   {"local_theta", 1e4, 1, 1e12, "the same of layers with windows"},
                   {"window", 65, 1, 1 << 20,
                    "positions to each side that layers with windows see, itself among them"},
                   {"global_every", 3, 1, 1000,
                    "every so many layers one has no window, the first to begin with"},
                   {"epsilon", 1e-5, 1e-12, 1, "of the norms"},
                   {"mean_head", false, 0, 0,
                    "classes are told of the mean of the positions, not of the first one"},
                   {"first_embeds", false, 0, 0, "an embedding is that of the first position, not the mean"},
                   weighted_embeds(),
                   {"dropout", 0.0, 0, 0.999, "of embeddings, attention, inside the MLP, and the head"},
                   label_smoothing(),
                   multi_label(),
                   {kOfWords, false, 0, 0, "a class of every word; set where the data has labels of words"},
                   {"recompute", false, 0, 0, "keep the input of layers only, compute them again"}},
      .check = check,
      .forward = forward,
      .head = "classifier.",
      .published = &modernbert_hugging_face()};
}

}  // namespace lpmm
