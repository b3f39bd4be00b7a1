// GPT-2: Radford et al. 2019. Norms before each part, a last norm, the embedding tied to the output. Tensors
// have the names of the published checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/program/ops/activations.h"
#include "lpmm/program/ops/add.h"
#include "lpmm/program/ops/dropout.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/row_norm.h"
#include "lpmm/program/ops/sequence/attention.h"
#include "lpmm/program/ops/sequence/documents.h"
#include "lpmm/program/ops/sequence/embedding.h"
#include "lpmm/program/ops/sequence/positions.h"
#include "lpmm/program/ops/sequence/token_loss.h"
#include "models/families.h"
#include "models/published/layouts.h"

namespace lpmm {
namespace {

constexpr const char* kEmbeddingNorm = "ln_wte";

// The stable embedding of the 8-bit optimizers (Dettmers et al. 2022): rows drawn evenly (Xavier), normed
// before positions are added, states in fp32. The output stays tied to the rows as they are. So a model of d
// channels and V tokens begins by repeating its token, whose logit is d sqrt(2 / (V + d)): 4.8 for GPT-2, 13
// for 65 characters and 128 channels, which the first steps unlearn.
Value embedded(ProgramBuilder& b, const ModelConfig& c, Value documents) {
  const int vocabulary = c.integer(kVocabulary), width = c.integer("embedding"),
            context = c.integer(kContext);
  if (!c.flag("stable_embedding")) {
    return embedding(b, "wte",
                     {.vocabulary = vocabulary,
                      .length = c.length,
                      .width = width,
                      .positions = "wpe",
                      .context = context,
                      .documents = documents});
  }
  const Initial xavier{InitialKind::kUniform, std::sqrt(6.0 / (vocabulary + width))};
  const Value x = embedding(
      b, "wte",
      {.vocabulary = vocabulary, .length = c.length, .width = width, .initial = xavier, .fp32_states = true});
  return add_positions(b, "wpe.weight", layer_norm(b, kEmbeddingNorm, x), {context, width}, 0, documents);
}

Activation activation_of(const ModelConfig& c) {
  return c.flag("relu")         ? Activation::kRelu
         : c.flag("swish")      ? Activation::kSilu
         : c.flag("exact_gelu") ? Activation::kGelu
                                : Activation::kGeluTanh;
}

void forward(ProgramBuilder& b, const ModelConfig& c) {
  const int layers = c.integer("layers"), heads = c.integer("heads"), width = c.integer("embedding");
  const int context = c.integer(kContext), given = c.integer("mlp_width"),
            hidden = given > 0 ? given : 4 * width;
  const double drop = c.number("dropout"), deviation = 0.02, residual = deviation / std::sqrt(2.0 * layers),
               epsilon = c.number("epsilon");
  const Value documents = c.documents ? document_table(b, c.length) : Value{};
  Value x = dropout(b, embedded(b, c, documents), drop);
  for (int i = 0; i < layers; ++i) {
    const auto layer = [&](Value in) {
      const std::string name = fmt::format("h.{}.", i);
      Value y = layer_norm(b, name + "ln_1", in, epsilon);
      y = attention(b, projection(b, name + "attn.c_attn", y, 3 * width, deviation, true, 3, heads),
                    {.heads = heads, .context = context, .dropout = drop}, documents);
      y = projection(b, name + "attn.c_proj", y, width, residual);
      const Value middle = add(b, in, dropout(b, y, drop));
      y = layer_norm(b, name + "ln_2", middle, epsilon);
      y = activation(b, activation_of(c), projection(b, name + "mlp.c_fc", y, hidden, deviation));
      y = projection(b, name + "mlp.c_proj", y, width, residual);
      return add(b, middle, dropout(b, y, drop));
    };
    x = c.flag("recompute") ? b.recompute(x, layer) : layer(x);
  }
  tied_token_loss(b, "wte", layer_norm(b, "ln_f", x, epsilon),
                  {.may_lack = c.documents, .preferences = c.preferences});
}

void check(const ModelConfig& c) {
  if (c.integer("embedding") % c.integer("heads") != 0) {
    throw UsageError(fmt::format("model.embedding = {} must be a multiple of model.heads = {}",
                                 c.integer("embedding"), c.integer("heads")));
  }
  if (c.flag("relu") + c.flag("swish") + c.flag("exact_gelu") > 1) {
    throw UsageError("model.relu, model.swish and model.exact_gelu are activations: only one may be true");
  }
}

// Dettmers' finding (huggingface/transformers issue 14819): what was trained without the norm does not bear
// one.
void check_start(const ModelConfig& c, const WeightSource& weights) {
  const std::string norm = fmt::format("{}.weight", kEmbeddingNorm);
  const std::vector<TensorInfo> there = weights.infos();
  const auto is_norm = [&](const TensorInfo& t) { return t.name == norm; };
  if (!c.flag("stable_embedding") || std::any_of(there.begin(), there.end(), is_norm)) return;
  throw UsageError(fmt::format(
      "model.stable_embedding = true adds the norm {}, which the weights of {} were trained without; "
      "it is for models that begin anew: turn it off",
      norm, weights.path()));
}

// Table 2 of the paper.
NamedModel size(std::string_view name, std::int64_t layers, std::int64_t heads, std::int64_t width) {
  return {name,
          {{"layers", layers},
           {"heads", heads},
           {"embedding", width},
           {kContext, 1024},
           {kVocabulary, kGpt2Vocabulary}}};
}

}  // namespace

Family gpt() {
  return {.name = "gpt",
          .help = "GPT-2 (Radford et al. 2019)",
          .reads = &kTextTask,
          .models = {{"gpt"},
                     size("gpt2", 12, 12, 768),
                     size("gpt2-medium", 24, 16, 1024),
                     size("gpt2-large", 36, 20, 1280),
                     size("gpt2-xl", 48, 25, 1600)},
          .settings = {{"layers", 0, 1, 1000, "layers of attention and MLP; 0: the name's own"},
                       {"heads", 0, 1, 1000, "heads of attention; 0: the name's own"},
                       {"embedding", 0, 1, 1 << 16, "channels of a position; 0: the name's own"},
                       {kContext, 0, 1, 1 << 20, "positions; 0: the name's own"},
                       {kVocabulary, 0, 2, 1 << 24, "tokens; 0: the name's or the tokenizer's own"},
                       mlp_width(0),
                       {"epsilon", 1e-5, 1e-12, 1, "of the norms"},
                       {"relu", false, 0, 0, "in MLPs ReLU in place of GELU (tanh form)"},
                       {"swish", false, 0, 0, "in MLPs swish in its place"},
                       {"exact_gelu", false, 0, 0, "in MLPs GELU itself in its place"},
                       {"dropout", 0.0, 0, 0.999, "of the embedding, of attention, of what layers add"},
                       {"stable_embedding", false, 0, 0,
                        "norm the embedding, its states in fp32; for models that begin anew"},
                       {"recompute", false, 0, 0, "keep the input of layers only, compute them again"}},
          .check = check,
          .forward = forward,
          .check_start = check_start,
          .published = &gpt_hugging_face()};
}

}  // namespace lpmm
