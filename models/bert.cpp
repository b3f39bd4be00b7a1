// BERT: Devlin et al. 2019, RoBERTa: Liu et al. 2019, DistilBERT: Sanh et al. 2019, and MPNet: Song et al.
// 2020, whose attention has a bias of distances. Attention to all positions, norms behind each part. What
// stands on top depends on the data: classes, a number, or the mean of the positions as an embedding of the
// sentence. Tensors have the names of the published checkpoints.
#include <fmt/format.h>

#include <array>

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
#include "lpmm/program/ops/sequence/positions.h"
#include "lpmm/program/ops/sequence/relative_bias.h"
#include "lpmm/program/ops/sequence/token_loss.h"
#include "lpmm/program/ops/sequence/types.h"
#include "models/families.h"
#include "models/published/layouts.h"

namespace lpmm {
namespace {

constexpr double kDeviation = 0.02;

// What a layer's tensors are called, behind the layer's own name.
struct LayerNames {
  std::string_view layer;
  std::string_view query, key, value, attention, attention_norm;
  std::string_view up, down, norm;
};
constexpr LayerNames kBertNames{
    "encoder.layer.",       "attention.self.query",   "attention.self.key",
    "attention.self.value", "attention.output.dense", "attention.output.LayerNorm",
    "intermediate.dense",   "output.dense",           "output.LayerNorm"};
constexpr LayerNames kDistilledNames{"transformer.layer.", "attention.q_lin",   "attention.k_lin",
                                     "attention.v_lin",    "attention.out_lin", "sa_layer_norm",
                                     "ffn.lin1",           "ffn.lin2",          "output_layer_norm"};
constexpr LayerNames kMpnetNames{"encoder.layer.",     "attention.attn.q", "attention.attn.k",
                                 "attention.attn.v",   "attention.attn.o", "attention.LayerNorm",
                                 "intermediate.dense", "output.dense",     "output.LayerNorm"};

const LayerNames& names_of(const ModelConfig& c) {
  if (c.flag("relative_bias")) return kMpnetNames;
  return c.flag("distilled") ? kDistilledNames : kBertNames;
}

Value embedded(ProgramBuilder& b, const ModelConfig& c) {
  const std::string name = "embeddings.";
  Value x =
      embedding(b, name + "word_embeddings",
                {.vocabulary = c.integer(kVocabulary), .length = c.length, .width = c.integer("embedding")});
  const int first = c.integer("first_position");
  x = add_positions(b, name + "position_embeddings.weight", x,
                    {c.integer(kContext) + first, c.integer("embedding")}, first);
  if (c.integer(kTypes) > 0) x = add_types(b, name + "token_type_embeddings", x, c.integer(kTypes));
  return dropout(b, layer_norm(b, name + "LayerNorm", x, c.number("epsilon")), c.number("dropout"));
}

// Tells something of every word, at its first token.
void word_head(ProgramBuilder& b, const ModelConfig& c, Value x) {
  position_loss(b, "classifier", dropout(b, x, c.number("dropout")), c.classes, kDeviation,
                c.number("label_smoothing"));
}

void embed(ProgramBuilder& b, const ModelConfig& c, Value x) {
  output(b, c.flag("first_embeds") ? select(b, x, 0) : mean(b, x, c.flag(kWeightedEmbeds)));
}

// What the model says of each sentence. An embedding does not need the pooler, but a run that goes on from it
// does, or who reads the model: MPNet's own head has no use for it.
void head(ProgramBuilder& b, const ModelConfig& c, Value x) {
  Value first = select(b, x, 0);
  if (c.flag("pooler") && (c.classes == 0 || !c.flag("dense_head"))) {
    first = activation(b, Activation::kTanh,
                       projection(b, "pooler.dense", first, c.integer("embedding"), kDeviation));
  }
  if (c.classes == 0) return embed(b, c, x);
  if (c.flag("distilled")) {
    first = relu(b, projection(b, "pre_classifier", first, c.integer("embedding"), kDeviation));
  }
  first = dropout(b, first, c.number("dropout"));
  std::string name = "classifier";
  if (c.flag("dense_head")) {
    first = activation(b, Activation::kTanh,
                       projection(b, name + ".dense", first, c.integer("embedding"), kDeviation));
    first = dropout(b, first, c.number("dropout"));
    name += ".out_proj";
  }
  sentence_loss(b, classifier(b, name, first, c.classes), c);
}

void forward(ProgramBuilder& b, const ModelConfig& c) {
  const int heads = c.integer("heads"), width = c.integer("embedding");
  const double drop = c.number("dropout"), epsilon = c.number("epsilon");
  const LayerNames& names = names_of(c);
  Value x = embedded(b, c);
  Value bias;
  if (c.flag("relative_bias")) bias = relative_bias(b, "encoder.relative_attention_bias", heads, x.width);
  for (int i = 0; i < c.integer("layers"); ++i) {
    const auto layer = [&](Value in) {
      const auto name = [&](std::string_view part) { return fmt::format("{}{}.{}", names.layer, i, part); };
      Value y = projections(b,
                            {{.name = name(names.query), .outputs = width, .heads = heads},
                             {.name = name(names.key), .outputs = width, .heads = heads},
                             {.name = name(names.value), .outputs = width, .heads = heads}},
                            in, kDeviation);
      y = attention(b, y, {.heads = heads, .dropout = drop, .is_causal = false, .bias = bias});
      y = dropout(b, projection(b, name(names.attention), y, width, kDeviation), drop);
      const Value middle = layer_norm(b, name(names.attention_norm), add(b, in, y), epsilon);
      y = activation(b, Activation::kGelu,
                     projection(b, name(names.up), middle, c.integer("mlp_width"), kDeviation));
      y = dropout(b, projection(b, name(names.down), y, width, kDeviation), drop);
      return layer_norm(b, name(names.norm), add(b, middle, y), epsilon);
    };
    x = c.flag("recompute") ? b.recompute(x, layer) : layer(x);
  }
  c.flag(kOfWords) && c.classes > 0 ? word_head(b, c, x) : head(b, c, x);
}

void check(const ModelConfig& c) {
  if (c.integer("embedding") % c.integer("heads") != 0) {
    throw UsageError(fmt::format("model.embedding = {} must be a multiple of model.heads = {}",
                                 c.integer("embedding"), c.integer("heads")));
  }
  if (c.flag(kOfWords) && c.flag(kMultiLabel)) {
    throw UsageError("model.of_words and model.multi_label are of two heads: only one may be true");
  }
  const bool is_mpnet = c.flag("relative_bias");
  if ((c.flag("pooler") && !is_mpnet) + c.flag("dense_head") + c.flag("distilled") > 1) {
    throw UsageError(
        "model.pooler, model.dense_head and model.distilled are layers for one purpose: only one may be "
        "true");
  }
  if (is_mpnet && (!c.flag("dense_head") || c.integer(kTypes) > 0)) {
    throw UsageError("model.relative_bias, MPNet's, goes with dense_head = true and types = 0");
  }
  check_one_embedding(c, "first_embeds");
}

constexpr std::int64_t kPieces = 30522;  // of the published uncased vocabulary

NamedModel size(std::string_view name, std::int64_t layers, std::int64_t heads, std::int64_t width,
                std::int64_t pieces = kPieces) {
  return {name,
          {{"layers", layers},
           {"heads", heads},
           {"embedding", width},
           {"mlp_width", 4 * width},
           {kContext, std::int64_t{512}},
           {kVocabulary, pieces}}};
}

// What RoBERTa, MPNet and DistilBERT do otherwise.
NamedModel roberta(NamedModel model) {
  model.sizes.insert(model.sizes.end(), {{kTypes, std::int64_t{1}},
                                         {"epsilon", 1e-5},
                                         {"first_position", std::int64_t{2}},
                                         {"pooler", false},
                                         {"dense_head", true}});
  return model;
}
NamedModel mpnet(NamedModel model) {
  model.sizes.insert(model.sizes.end(), {{kTypes, std::int64_t{0}},
                                         {"epsilon", 1e-5},
                                         {"first_position", std::int64_t{2}},
                                         {"dense_head", true},
                                         {"relative_bias", true}});
  return model;
}
NamedModel distilled(NamedModel model) {
  model.sizes.insert(model.sizes.end(), {{kTypes, std::int64_t{0}}, {"pooler", false}, {"distilled", true}});
  return model;
}

}  // namespace

Family bert() {
  return {
      .name = "bert",
      .help =
          "BERT (Devlin et al. 2019), MiniLM, RoBERTa (Liu et al. 2019), XLM-RoBERTa (Conneau et al. "
          "2020), CamemBERT (Martin et al. 2020), DistilBERT (Sanh et al. 2019), MPNet (Song et al. 2020)",
      .reads = &kSentenceTask,
      .models = {{"bert"},
                 size("bert-base", 12, 12, 768),
                 size("minilm-l6", 6, 12, 384),
                 roberta({"roberta"}),
                 roberta(size("roberta-base", 12, 12, 768, 50265)),
                 roberta({"xlm-roberta"}),
                 roberta(size("xlm-roberta-base", 12, 12, 768, 250002)),
                 roberta({"camembert"}),
                 roberta(size("camembert-base", 12, 12, 768, 32005)),
                 mpnet({"mpnet"}),
                 mpnet(size("mpnet-base", 12, 12, 768, 30527)),
                 distilled({"distilbert"}),
                 distilled(size("distilbert-base", 6, 12, 768))},
      .settings = {{"layers", 0, 1, 1000, "layers of attention and MLP; 0: the name's own"},
                   {"heads", 0, 1, 1000, "heads of attention; 0: the name's own"},
                   {"embedding", 0, 1, 1 << 16, "channels of a position; 0: the name's own"},
                   mlp_width(),
                   {kContext, 0, 1, 1 << 20, "positions; 0: the name's own"},
                   {kVocabulary, 0, 2, 1 << 24, "tokens; 0: the name's or the tokenizer's own"},
                   {kTypes, 2, 0, 1 << 16, "kinds of sentences that a token may be of; 0: none is told"},
                   {"epsilon", 1e-12, 1e-12, 1, "of the norms"},
                   {"first_position", 0, 0, 1 << 20, "row of a sentence's first position; RoBERTa: 2"},
                   {"pooler", true, 0, 0, "a layer between the first position and what is told of it"},
                   {"dense_head", false, 0, 0, "RoBERTa's: that layer is a part of the head"},
                   {"distilled", false, 0, 0, "DistilBERT's head, and its names of tensors"},
                   {"relative_bias", false, 0, 0,
                    "MPNet's: attention has a bias of distances, which is learnt"},
                   {"first_embeds", false, 0, 0, "an embedding is that of the first position, not the mean"},
                   weighted_embeds(),
                   {"dropout", 0.0, 0, 0.999, "of embeddings, attention, what layers add, and the head"},
                   label_smoothing(),
                   multi_label(),
                   {kOfWords, false, 0, 0, "a class of every word; set where the data has labels of words"},
                   {"recompute", false, 0, 0, "keep the input of layers only, compute them again"}},
      .check = check,
      .forward = forward,
      .head = "classifier.",
      .other_head = "pooler.",  // of words, and an MPNet's head, which have no use for one
      .published = &bert_hugging_face()};
}

}  // namespace lpmm
