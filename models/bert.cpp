// BERT: Devlin et al. 2019, and RoBERTa: Liu et al. 2019. Attention to all positions, norms behind each part.
// What stands on top depends on the data: classes, a number, or the mean of the positions as an embedding of
// the sentence. Tensors have the names of the published checkpoints.
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
#include "lpmm/program/ops/sequence/types.h"
#include "models/bert_hugging_face.h"
#include "models/families.h"

namespace lpmm {
namespace {

constexpr double kDeviation = 0.02;

Value embedded(ProgramBuilder& b, const ModelConfig& c) {
  const std::string name = "embeddings.";
  Value x =
      embedding(b, name + "word_embeddings",
                {.vocabulary = c.integer(kVocabulary), .length = c.length, .width = c.integer("embedding")});
  const int first = c.integer("first_position");
  x = add_positions(b, name + "position_embeddings.weight", x,
                    {c.integer(kContext) + first, c.integer("embedding")}, first);
  x = add_types(b, name + "token_type_embeddings", x, c.integer(kTypes));
  return dropout(b, layer_norm(b, name + "LayerNorm", x, c.number("epsilon")), c.number("dropout"));
}

// What the model says of each sentence. An embedding does not need the pooler, but a run that goes on from it
// does.
void head(ProgramBuilder& b, const ModelConfig& c, Value x) {
  Value first = select(b, x, 0);
  if (c.flag("pooler")) {
    first = tanh(b, projection(b, "pooler.dense", first, c.integer("embedding"), kDeviation));
  }
  if (c.classes == 0) return output(b, mean(b, x));
  first = dropout(b, first, c.number("dropout"));
  std::string name = "classifier";
  if (c.flag("dense_head")) {
    first = tanh(b, projection(b, name + ".dense", first, c.integer("embedding"), kDeviation));
    first = dropout(b, first, c.number("dropout"));
    name += ".out_proj";
  }
  const Value told = classifier(b, name, first, c.classes);
  c.classes == 1 ? square_loss(b, told) : loss(b, told, c.number("label_smoothing"));
}

void forward(ProgramBuilder& b, const ModelConfig& c) {
  const int heads = c.integer("heads"), width = c.integer("embedding");
  const double drop = c.number("dropout"), epsilon = c.number("epsilon");
  Value x = embedded(b, c);
  for (int i = 0; i < c.integer("layers"); ++i) {
    const auto layer = [&](Value in) {
      const std::string name = fmt::format("encoder.layer.{}.", i), a = name + "attention.self.";
      Value y = projections(b,
                            {{.name = a + "query", .outputs = width, .heads = heads},
                             {.name = a + "key", .outputs = width, .heads = heads},
                             {.name = a + "value", .outputs = width, .heads = heads}},
                            in, kDeviation);
      y = attention(b, y, {.heads = heads, .dropout = drop, .is_causal = false});
      y = dropout(b, projection(b, name + "attention.output.dense", y, width, kDeviation), drop);
      const Value middle = layer_norm(b, name + "attention.output.LayerNorm", add(b, in, y), epsilon);
      y = gelu(b, projection(b, name + "intermediate.dense", middle, c.integer("mlp_width"), kDeviation),
               kernels::GeluForm::kExact);
      y = dropout(b, projection(b, name + "output.dense", y, width, kDeviation), drop);
      return layer_norm(b, name + "output.LayerNorm", add(b, middle, y), epsilon);
    };
    x = c.flag("recompute") ? b.recompute(x, layer) : layer(x);
  }
  head(b, c, x);
}

void check(const ModelConfig& c) {
  if (c.integer("embedding") % c.integer("heads") != 0) {
    throw UsageError(fmt::format("model.embedding = {} must be a multiple of model.heads = {}",
                                 c.integer("embedding"), c.integer("heads")));
  }
  if (c.flag("pooler") && c.flag("dense_head")) {
    throw UsageError(
        "model.pooler and model.dense_head are two layers for one purpose: one of them must be false");
  }
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

// The same with what RoBERTa does otherwise; no sizes where it has no layers.
NamedModel roberta(std::string_view name, std::int64_t layers = 0, std::int64_t heads = 0,
                   std::int64_t width = 0) {
  NamedModel model = layers > 0 ? size(name, layers, heads, width, 50265) : NamedModel{name};
  for (const auto& setting :
       std::initializer_list<std::pair<std::string_view, SettingValue>>{{kTypes, std::int64_t{1}},
                                                                        {"epsilon", 1e-5},
                                                                        {"first_position", std::int64_t{2}},
                                                                        {"pooler", false},
                                                                        {"dense_head", true}}) {
    model.sizes.push_back(setting);
  }
  return model;
}

}  // namespace

Family bert() {
  return {.name = "bert",
          .help = "BERT (Devlin et al. 2019), MiniLM, RoBERTa (Liu et al. 2019)",
          .reads = Reads::kSentences,
          .models = {{"bert"},
                     size("bert-base", 12, 12, 768),
                     size("minilm-l6", 6, 12, 384),
                     roberta("roberta"),
                     roberta("roberta-base", 12, 12, 768)},
          .settings = {{"layers", 0, 1, 1000, "layers of attention and MLP; 0: the name's own"},
                       {"heads", 0, 1, 1000, "heads of attention; 0: the name's own"},
                       {"embedding", 0, 1, 1 << 16, "channels of a position; 0: the name's own"},
                       {"mlp_width", 0, 1, 1 << 20, "channels inside an MLP; 0: the name's own"},
                       {kContext, 0, 1, 1 << 20, "positions; 0: the name's own"},
                       {kVocabulary, 0, 2, 1 << 24, "tokens; 0: the name's or the tokenizer's own"},
                       {kTypes, 2, 1, 1 << 16, "kinds of sentences that a token may be of"},
                       {"epsilon", 1e-12, 1e-12, 1, "of the norms"},
                       {"first_position", 0, 0, 1 << 20, "row of a sentence's first position; RoBERTa: 2"},
                       {"pooler", true, 0, 0, "a layer between the first position and what is told of it"},
                       {"dense_head", false, 0, 0, "RoBERTa's: that layer is a part of the head"},
                       {"dropout", 0.0, 0, 0.999, "of embeddings, attention, what layers add, and the head"},
                       label_smoothing(),
                       {"recompute", false, 0, 0, "keep the input of layers only, compute them again"}},
          .check = check,
          .forward = forward,
          .head = "classifier.",
          .published = &bert_hugging_face()};
}

}  // namespace lpmm
