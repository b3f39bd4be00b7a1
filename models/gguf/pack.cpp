#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "models/gguf/gguf.h"
#include "models/gguf/layout.h"
#include "models/gguf/rotary.h"
#include "models/gguf/tokenizer.h"

namespace lpmm {
namespace {

constexpr std::uint64_t kLongest = 64 << 20;
constexpr std::string_view kOutput = "output.weight", kEmbedding = "token_embd.weight";

// Weights whose tensors, named and shaped for transformers, are kept for later instead of being written.
class HeldWeights final : public WeightSource {
 public:
  explicit HeldWeights(const WeightSource& weights) : weights_(weights) {}
  const std::string& path() const override { return weights_.path(); }
  std::vector<TensorInfo> infos() const override { return weights_.infos(); }
  void read(std::size_t tensor, PackedDevice& device, const PanelBody& body) const override {
    weights_.read(tensor, device, body);
  }
  PublishedFacts facts() const override {
    PublishedFacts facts = weights_.facts();
    facts.type = "fp32";  // whatever they came in: the GGUF's types are made of these
    return facts;
  }
  void write(const std::string&, const Metadata&, std::span<const SafetensorsSource> sources) const override {
    held_.insert(held_.end(), sources.begin(), sources.end());
  }
  const std::vector<SafetensorsSource>& held() const { return held_; }

 private:
  const WeightSource& weights_;
  mutable std::vector<SafetensorsSource> held_;
};

void as_floats(std::span<const std::byte> bytes, const GgufSource::Sink& sink, float shift = 0) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  for (float& v : values) v += shift;
  sink(values);
}

// A matrix with its rows in another order, or with rows for columns: it is held as a whole.
void emit_moved(const SafetensorsSource& source, const RowOrder& order, bool turns,
                const GgufSource::Sink& sink) {
  std::vector<float> values, moved;
  source.emit([&](std::span<const std::byte> bytes) {
    as_floats(bytes,
              [&](std::span<const float> some) { values.insert(values.end(), some.begin(), some.end()); });
  });
  moved.resize(values.size());
  const auto columns = source.shape.size() == 1 ? std::int64_t{1} : source.shape[1];
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    const std::int64_t row = i / columns, column = i % columns;
    const std::int64_t to = turns ? column * source.shape[0] + row : order.in_gguf(row) * columns + column;
    moved[static_cast<std::size_t>(to)] = values[static_cast<std::size_t>(i)];
  }
  sink(moved);
}

const GgufType& type_of(const std::string& name, const std::vector<std::int64_t>& shape,
                        const GgufType& asked) {
  const GgufType& full = *find_gguf_type("f32");
  if (shape.size() < 2) return full;
  const bool is_outer = name == kOutput || name == kEmbedding;
  const GgufType& type = is_outer && asked.name == "q4_0" ? *find_gguf_type("q8_0") : asked;
  return shape.back() % type.elements == 0 ? type : *find_gguf_type("f16");
}

std::vector<GgufSource> sources_of(const std::vector<SafetensorsSource>& held, const GgufModel& model,
                                   const Json& config, const GgufType& type) {
  std::vector<GgufSource> sources;
  for (const RotaryTensor& list : rotary_tensors(config)) {
    sources.push_back({list.name,
                       {std::ssize(list.factors)},
                       find_gguf_type("f32"),
                       [factors = list.factors](const GgufSource::Sink& sink) { sink(factors); }});
  }
  for (const SafetensorsSource& source : held) {
    GgufSource to;
    to.name = gguf_name(model, source.name);
    to.shape = source.shape;
    if (to.name.empty() || source.dtype != "F32")
      throw UsageError(fmt::format("{} has no name in a GGUF of a {}", source.name, model.type));
    const bool turns = is_turned(model, to.name) && source.shape.size() == 2;
    if (turns) std::swap(to.shape[0], to.shape[1]);
    const RowOrder order = row_order(model, config, to.name, source.shape[0]);
    to.type = &type_of(to.name, to.shape, type);
    to.emit = [&source, order, turns, shift = shift_of(model, to.name)](const GgufSource::Sink& sink) {
      if (turns || order.head_rows != 0) return emit_moved(source, order, turns, sink);
      source.emit([&](std::span<const std::byte> bytes) { as_floats(bytes, sink, shift); });
    };
    sources.push_back(std::move(to));
  }
  return sources;
}

}  // namespace

std::string write_gguf_model(const WeightSource& weights, const Published& published,
                             const ModelConfig& model, const GgufType& type, const std::string& output,
                             Device& device,
                             const std::function<void(const std::string& folder)>& add_files) {
  const TemporaryFolder folder("gguf");
  const HeldWeights held(weights);
  published.save(held, model, folder.string(), device);
  const Json config = read_json(folder / "config.json", kLongest);
  const std::string named = config.value("model_type", "");
  const GgufModel* kind = find_gguf_model(named);
  if (kind == nullptr) {
    throw UsageError(fmt::format("{}: is a {}, which is not written as a GGUF; there are {}", weights.path(),
                                 named.empty() ? std::string(model.name) : named, gguf_model_types()));
  }
  add_files(folder.string());
  Json keys = keys_of(config, *kind);
  keys["general.file_type"] = type.file_type;
  keys["general.quantization_version"] = 2;
  std::string left_out = add_tokenizer(folder.string(), config.value("vocab_size", std::int64_t{0}), keys);
  if (!left_out.empty()) left_out = fmt::format("it has no tokenizer: {}", left_out);
  const bool has_layers_apart = config.contains("layer_types");  // which llama.cpp has too
  if (const Json window = config.value("sliding_window", Json()); window.is_number() && !has_layers_apart) {
    left_out += fmt::format("{}llama.cpp lets it attend to all positions, not to the last {}",
                            left_out.empty() ? "" : "; ", window.dump());
  }
  write_gguf(output, keys, sources_of(held.held(), *kind, config, type));
  return left_out;
}

}  // namespace lpmm
