#include "models/models.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "kernels/noise.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/program/builder.h"

namespace lpmm {
namespace {

// Forward code: adds a model's ops to a builder.
using Forward = std::function<void(ProgramBuilder&)>;

// He et al. 2016, section 4.2: depth = 6 n + 2. Wider ones after Zagoruyko & Komodakis 2016.
void resnet(ProgramBuilder& b, const ModelConfig& config, int depth) {
  Value x = b.input(config.height, config.width, config.channels);
  x = b.batch_norm("stem.bn", b.convolution("stem.conv", x, 16 * config.widen, 3, 1), true);
  for (int stage = 1; stage <= 3; ++stage) {
    const int channels = (8 << stage) * config.widen;
    for (int block = 0; block < (depth - 2) / 6; ++block) {
      const std::string name = fmt::format("stage{}.{}", stage, block);
      const int stride = stage > 1 && block == 0 ? 2 : 1;
      Value y = b.convolution(name + ".conv1", x, channels, 3, stride);
      y = b.batch_norm(name + ".bn1", y, true);
      y = b.convolution(name + ".conv2", y, channels, 3, 1);
      if (stride > 1) x = b.shortcut(x, channels, stride);
      x = b.batch_norm(name + ".bn2", y, true, x);
    }
  }
  x = b.average_pool(x, x.height, 1);
  b.loss(b.linear("head", x, config.classes, false), config.label_smoothing);
}

void mlp(ProgramBuilder& b, const ModelConfig& config) {
  Value x = b.input(config.height, config.width, config.channels);
  for (std::size_t i = 0; i < config.hidden.size(); ++i) {
    x = b.linear(fmt::format("hidden{}", i + 1), x, static_cast<int>(config.hidden[i]), true);
  }
  b.loss(b.linear("head", x, config.classes, false), config.label_smoothing);
}

void check_range(const char* what, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    throw UsageError(fmt::format("model.{} = {}: must be between {} and {}", what, value, low, high));
  }
}

// The shape of a GPT: the family's, and what the configuration says otherwise.
ModelConfig gpt_shape(const ModelConfig& config) {
  ModelConfig c = complete(config);
  check_range("layers", c.layers, 1, 1000);
  check_range("heads", c.heads, 1, 1000);
  check_range("embedding", c.embedding, 1, 1 << 16);
  check_range("context", c.context, 1, 1 << 20);
  check_range("vocabulary", c.vocabulary, 2, 1 << 24);
  if (!(c.dropout >= 0 && c.dropout < 1)) {
    throw UsageError(fmt::format("model.dropout = {}: must be at least 0 and below 1", c.dropout));
  }
  if (c.embedding % c.heads != 0) {
    throw UsageError(
        fmt::format("model.embedding = {} must be a multiple of model.heads = {}", c.embedding, c.heads));
  }
  if (c.length > c.context) {
    throw UsageError(fmt::format("data.length = {} is longer than model.context = {}", c.length, c.context));
  }
  return c;
}

// Radford et al. 2019: norms before each part, a last norm, the embedding tied to the output. Tensors have
// the names of the published checkpoints.
void gpt(ProgramBuilder& b, const ModelConfig& c) {
  const double deviation = 0.02, residual = deviation / std::sqrt(2.0 * c.layers);
  Value x = b.dropout(b.embedding("wte", "wpe", c.vocabulary, c.context, c.length, c.embedding), c.dropout);
  for (int i = 0; i < c.layers; ++i) {
    const auto layer = [&](Value in) {
      const std::string name = fmt::format("h.{}.", i);
      Value y = b.layer_norm(name + "ln_1", in);
      y = b.attention(b.projection(name + "attn.c_attn", y, 3 * c.embedding, deviation), c.heads, c.context,
                      c.dropout);
      y = b.projection(name + "attn.c_proj", y, c.embedding, residual);
      const Value middle = b.add(in, b.dropout(y, c.dropout));
      y = b.layer_norm(name + "ln_2", middle);
      y = b.gelu(b.projection(name + "mlp.c_fc", y, 4 * c.embedding, deviation));
      y = b.projection(name + "mlp.c_proj", y, c.embedding, residual);
      return b.add(middle, b.dropout(y, c.dropout));
    };
    x = c.recompute ? b.recompute(x, layer) : layer(x);
  }
  b.token_loss(b.layer_norm("ln_f", x), "wte");
}

// Initial values of four elements: a pure function of (seed, tensor, element). Normals by Box and Muller.
std::array<float, 4> initial_values(const Initial& initial, const Noise& noise, std::int64_t element) {
  std::array<float, 4> values;
  if (initial.kind == InitialKind::kConstant) {
    values.fill(static_cast<float>(initial.scale));
    return values;
  }
  const PhiloxWords words = noise_words(noise, static_cast<std::uint32_t>(element / 4));
  const auto uniform = [&](std::size_t i) { return (words.x[i] + 0.5) * 0x1p-32; };
  for (std::size_t i = 0; i < 4; i += 2) {
    if (initial.kind == InitialKind::kUniform) {
      values[i] = static_cast<float>(initial.scale * (2 * uniform(i) - 1));
      values[i + 1] = static_cast<float>(initial.scale * (2 * uniform(i + 1) - 1));
      continue;
    }
    const double radius = std::sqrt(-2 * std::log(uniform(i)));
    const double angle = 2 * std::numbers::pi * uniform(i + 1);
    values[i] = static_cast<float>(initial.scale * radius * std::cos(angle));
    values[i + 1] = static_cast<float>(initial.scale * radius * std::sin(angle));
  }
  return values;
}

class ForwardModel : public Model {
 public:
  ForwardModel(Forward forward, bool reads_tokens)
      : forward_(std::move(forward)), reads_tokens_(reads_tokens) {
    ProgramBuilder declaring(1, Compute::kFp32, 1);
    forward_(declaring);
    tensors_ = declaring.tensors();
    initials_ = declaring.initials();
    buffers_ = declaring.buffers();
  }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const std::vector<BufferInfo>& buffers() const override { return buffers_; }

  void initialize(ModelMemory& memory, std::uint64_t seed, const ProgressCall& progress) const override {
    constexpr std::int64_t kRange = 64 * kernels::kTile;
    const std::int64_t all = memory.ledger().parameters;
    std::int64_t done = 0;
    std::vector<float> values;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const std::int64_t elements = tensors_[t].elements();
      const Noise noise{seed, static_cast<std::uint32_t>(t), 0,
                        static_cast<std::uint32_t>(Stream::kInitialize)};
      for (std::int64_t first = 0; first < elements; first += kRange) {
        const std::int64_t count = std::min(kRange, elements - first);
        values.resize(static_cast<std::size_t>(count));
        memory.pool().for_each((count + kernels::kTile - 1) / kernels::kTile, [&](std::int64_t tile, int) {
          const std::int64_t end = std::min(count, (tile + 1) * kernels::kTile);
          for (std::int64_t i = tile * kernels::kTile; i < end; i += 4) {
            const auto four = initial_values(initials_[t], noise, first + i);
            std::copy_n(four.begin(), std::min<std::int64_t>(4, end - i), values.begin() + i);
          }
        });
        memory.initialize(static_cast<int>(t), first, values);
        done += count;
        if (progress) progress(done, all);
      }
    }
  }

  std::unique_ptr<Program> build(int batch, Compute compute, int threads) const override {
    ProgramBuilder builder(batch, compute, threads);
    forward_(builder);
    return builder.finish();
  }

  std::unique_ptr<Program> build_inference(int length, Compute compute, int threads) const override {
    if (!reads_tokens_) return Model::build_inference(length, compute, threads);
    ProgramBuilder builder(1, compute, threads, length);
    forward_(builder);
    return builder.finish();
  }

 private:
  Forward forward_;
  bool reads_tokens_;
  std::vector<TensorInfo> tensors_;
  std::vector<Initial> initials_;
  std::vector<BufferInfo> buffers_;
};

struct Family {
  std::string_view name;
  int depth;  // 0: an MLP
};
constexpr std::array<Family, 7> kFamilies = {{{"resnet8", 8},
                                              {"resnet20", 20},
                                              {"resnet32", 32},
                                              {"resnet44", 44},
                                              {"resnet56", 56},
                                              {"resnet110", 110},
                                              {"mlp", 0}}};

}  // namespace

std::unique_ptr<Model> make_model(const ModelConfig& config) {
  check_range("height", config.height, 1, 4096);
  check_range("width", config.width, 1, 4096);
  check_range("channels", config.channels, 1, 4096);
  check_range("classes", config.classes, 2, 1 << 16);
  if (!(config.label_smoothing >= 0 && config.label_smoothing < 1)) {
    throw UsageError(
        fmt::format("model.label_smoothing = {}: must be at least 0 and below 1", config.label_smoothing));
  }
  for (const Family& family : kFamilies) {
    if (config.name != family.name) continue;
    if (config.layers != 0 || config.heads != 0 || config.embedding != 0 || config.context != 0 ||
        config.vocabulary != 0 || config.dropout != 0 || config.recompute) {
      throw UsageError(
          fmt::format("model.layers, heads, embedding, context, vocabulary, dropout and recompute are "
                      "for a gpt, not for {}",
                      config.name));
    }
    if (family.depth == 0) {
      if (config.widen != 1) throw UsageError("model.widen is for ResNets; an mlp has model.hidden");
      for (const std::int64_t width : config.hidden) check_range("hidden", width, 1, 1 << 20);
      return std::make_unique<ForwardModel>([config](ProgramBuilder& b) { mlp(b, config); }, false);
    }
    if (!config.hidden.empty())
      throw UsageError(fmt::format("model.hidden is for mlp; {} has none", config.name));
    check_range("widen", config.widen, 1, 1024);
    if (config.height != config.width) throw UsageError("a ResNet needs square images");
    return std::make_unique<ForwardModel>(
        [config, family](ProgramBuilder& b) { resnet(b, config, family.depth); }, false);
  }
  if (reads_tokens(config)) {
    if (!config.hidden.empty() || config.label_smoothing != 0 || config.widen != 1) {
      throw UsageError(fmt::format("model.hidden, label_smoothing and widen are not for {}", config.name));
    }
    const ModelConfig shape = gpt_shape(config);
    return std::make_unique<ForwardModel>([shape](ProgramBuilder& b) { gpt(b, shape); }, true);
  }
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.name);
  for (const std::string_view gpt : gpt_names()) names.push_back(gpt);
  throw UsageError(fmt::format("unknown model \"{}\"; did you mean \"{}\"? There are {}", config.name,
                               nearest_name(config.name, names), join(names)));
}

}  // namespace lpmm
