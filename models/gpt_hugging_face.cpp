#include "models/gpt_hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/codec.h"
#include "lpmm/base/error.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/files/files.h"
#include "lpmm/files/half.h"
#include "lpmm/files/json.h"
#include "lpmm/files/safetensors.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "transformer.";  // of files saved with a head
constexpr int kHeadWidth = 64;
constexpr int kMostLayers = 1000;

std::string file_of(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) ? (fs::path(path) / "model.safetensors").string() : path;
}

// Whether theirs is the transpose of ours.
bool is_transposed(const std::string& name) {
  return name.ends_with(".weight") &&
         (name.find(".attn.c_") != std::string::npos || name.find(".mlp.c_") != std::string::npos);
}

// What a file may hold besides parameters.
bool is_left_out(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name == "lm_head.weight";
}

const SafetensorsEntry* find(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsEntry* entry = file.find(name);
  return entry != nullptr ? entry : file.find(std::string(kPrefix) + name);
}

const SafetensorsEntry& expect(const SafetensorsFile& file, const std::string& name, std::size_t dimensions) {
  const SafetensorsEntry* entry = find(file, name);
  if (entry == nullptr) {
    throw RunError(fmt::format("{}: has no tensor {}, which a GPT-2 has", file.path(), name));
  }
  if (entry->shape.size() != dimensions) {
    throw RunError(fmt::format("{}: {} has {} dimensions, expected {}", file.path(), name,
                               entry->shape.size(), dimensions));
  }
  return *entry;
}

// Elements [first, first + out.size()) of a tensor of any of the three types.
void read_floats(const SafetensorsFile& file, const SafetensorsEntry& entry, std::int64_t first,
                 std::span<float> out) {
  const auto at = static_cast<std::uint64_t>(first);
  if (entry.dtype == "F32") return file.read(entry, 4 * at, std::as_writable_bytes(out));
  if (entry.dtype != "F16" && entry.dtype != "BF16") {
    throw RunError(
        fmt::format("{}: {} is {}, expected F32, F16 or BF16", file.path(), entry.name, entry.dtype));
  }
  std::vector<std::uint16_t> narrow(out.size());
  file.read(entry, 2 * at, std::as_writable_bytes(std::span(narrow)));
  const bool half = entry.dtype == "F16";
  std::transform(narrow.begin(), narrow.end(), out.begin(),
                 [half](std::uint16_t x) { return half ? half_to_float(x) : bf16_to_float(x); });
}

void transpose(std::int64_t rows, std::int64_t columns, const std::vector<float>& in,
               std::vector<float>& out) {
  constexpr std::int64_t kSide = 32;
  out.resize(in.size());
  for (std::int64_t r0 = 0; r0 < rows; r0 += kSide) {
    for (std::int64_t c0 = 0; c0 < columns; c0 += kSide) {
      for (std::int64_t r = r0; r < std::min(rows, r0 + kSide); ++r) {
        for (std::int64_t c = c0; c < std::min(columns, c0 + kSide); ++c) {
          out[static_cast<std::size_t>(c * rows + r)] = in[static_cast<std::size_t>(r * columns + c)];
        }
      }
    }
  }
}

std::int64_t size_of(std::int64_t value, const std::string& where) {
  if (value < 1 || value > 1 << 24) throw RunError(fmt::format("{}: {} is no size of a GPT-2", where, value));
  return value;
}

// Heads from config.json, and a refusal of what this GPT-2 does otherwise.
void read_config(const std::string& path, ModelConfig& model) {
  Json j;
  try {
    j = parse_json(read_text(path, std::uint64_t{1} << 20));
  } catch (const std::exception& e) {
    throw RunError(fmt::format("{}: {}", path, error_text(e)));
  }
  if (!j.is_object() || !j.contains("n_head") || !j["n_head"].is_number_integer()) {
    throw RunError(fmt::format("{}: has no n_head, so the heads are not known", path));
  }
  const std::int64_t heads = size_of(j["n_head"].get<std::int64_t>(), path + ": n_head");
  const int embedding = model.integer("embedding");
  if (embedding % heads != 0) {
    throw RunError(fmt::format("{}: n_head = {} does not divide the {} channels", path, heads, embedding));
  }
  model.set("heads", heads);
  const auto expect_value = [&](const char* key, const std::vector<Json>& known) {
    if (!j.contains(key) || std::find(known.begin(), known.end(), j[key]) != known.end()) return;
    throw RunError(fmt::format("{}: {} is {}, which this GPT-2 does not have", path, key, j[key].dump()));
  };
  expect_value("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  expect_value("layer_norm_epsilon", {1e-5});
  expect_value("n_inner", {nullptr, 4 * embedding});
  expect_value("scale_attn_weights", {true});
  expect_value("scale_attn_by_inverse_layer_idx", {false});
}

// An output matrix must be the token embedding.
void check_tied(const SafetensorsFile& file) {
  const SafetensorsEntry* head = file.find("lm_head.weight");
  if (head == nullptr) return;
  const SafetensorsEntry& tokens = expect(file, "wte.weight", 2);
  constexpr std::uint64_t kPiece = 1 << 20;
  bool same = head->shape == tokens.shape && head->dtype == tokens.dtype;
  std::vector<std::byte> a, b;
  for (std::uint64_t at = 0; same && at < tokens.bytes; at += kPiece) {
    a.resize(std::min(kPiece, tokens.bytes - at));
    b.resize(a.size());
    file.read(tokens, at, a);
    file.read(*head, at, b);
    same = a == b;
  }
  if (!same) {
    throw RunError(
        fmt::format("{}: lm_head.weight is not wte.weight; only a tied output can be imported", file.path()));
  }
}

bool is_gpt2(const std::string& path) {
  return find(SafetensorsFile(file_of(path)), "wte.weight") != nullptr;
}

ModelConfig read_gpt2(const std::string& path) {
  const SafetensorsFile file(file_of(path));
  ModelConfig model = model_config("gpt");
  const SafetensorsEntry& tokens = expect(file, "wte.weight", 2);
  const SafetensorsEntry& positions = expect(file, "wpe.weight", 2);
  const std::int64_t embedding = size_of(tokens.shape[1], file.path() + ": embedding");
  model.set(kVocabulary, size_of(tokens.shape[0], file.path() + ": vocabulary"));
  model.set("embedding", embedding);
  model.set(kContext, size_of(positions.shape[0], file.path() + ": positions"));
  std::int64_t layers = 0;
  while (layers < kMostLayers && find(file, fmt::format("h.{}.ln_1.weight", layers)) != nullptr) ++layers;
  model.set("layers", layers);
  model.set("heads", std::max<std::int64_t>(1, embedding / kHeadWidth));
  const fs::path config = fs::path(file.path()).parent_path() / "config.json";
  std::error_code error;
  if (fs::exists(config, error)) read_config(config.string(), model);
  return model;
}

void load_gpt2(const std::string& path, ModelMemory& memory) {
  constexpr std::int64_t kPanel = 256 * kernels::kTile;
  const SafetensorsFile file(file_of(path));
  check_tied(file);
  std::set<std::string> known;
  std::vector<float> values, turned;
  for (int i = 0; i < memory.tensors(); ++i) {
    const TensorInfo& info = memory.info(i);
    const SafetensorsEntry& entry = expect(file, info.name, info.shape.size());
    known.insert(entry.name);
    std::vector<std::int64_t> shape = info.shape;
    if (is_transposed(info.name)) std::reverse(shape.begin(), shape.end());
    if (entry.shape != shape) {
      throw RunError(fmt::format("{}: {} is {}, expected {}", file.path(), entry.name,
                                 fmt::join(entry.shape, " x "), fmt::join(shape, " x ")));
    }
    const std::int64_t elements = info.elements();
    // A transposed matrix is turned whole; the embedding, the one large tensor, is not one.
    const std::int64_t panel = is_transposed(info.name) ? elements : kPanel;
    for (std::int64_t at = 0; at < elements; at += panel) {
      values.resize(static_cast<std::size_t>(std::min(panel, elements - at)));
      read_floats(file, entry, at, values);
      if (is_transposed(info.name)) {
        transpose(shape[0], shape[1], values, turned);
        values.swap(turned);
      }
      try {
        memory.initialize(i, at, values);
      } catch (const RunError& e) {
        throw RunError(fmt::format("{}: {}", file.path(), e.what()));
      }
    }
  }
  for (const SafetensorsEntry& entry : file.entries()) {
    if (!known.contains(entry.name) && !is_left_out(entry.name)) {
      throw RunError(fmt::format("{}: holds the tensor {}, which a GPT-2 has not", file.path(), entry.name));
    }
  }
}

void save_gpt2(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
               Device& device) {
  const ModelConfig model = complete(config);
  if (model.flag("stable_embedding")) {
    throw UsageError(
        fmt::format("{}: has a norm behind its embedding (model.stable_embedding), for which Hugging Face's "
                    "GPT-2 has no place; export without --hf",
                    weights.path()));
  }
  make_folder(folder);
  std::vector<SafetensorsSource> sources;
  const std::vector<TensorInfo> tensors = weights.infos();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& t = tensors[i];
    std::vector<std::int64_t> shape = t.shape;
    const bool turn = is_transposed(t.name);
    if (turn && shape.size() != 2) {
      throw RunError(fmt::format("{}: {} is no matrix, so this is no GPT-2", weights.path(), t.name));
    }
    if (turn) std::reverse(shape.begin(), shape.end());
    sources.push_back({t.name, "F32", shape, [&weights, &device, &t, i, turn](const auto& sink) {
                         std::vector<float> all, turned;
                         weights.read(i, device, [&](std::int64_t, std::span<const float> values) {
                           if (!turn) return sink(std::as_bytes(values));
                           all.insert(all.end(), values.begin(), values.end());
                         });
                         if (!turn) return;
                         transpose(t.shape[0], t.shape[1], all, turned);
                         sink(std::as_bytes(std::span(std::as_const(turned))));
                       }});
  }
  weights.write((fs::path(folder) / "model.safetensors").string(), {{"format", "pt"}}, sources);
  const Json shape = {{"architectures", {"GPT2LMHeadModel"}},
                      {"model_type", "gpt2"},
                      {"activation_function", "gelu_new"},
                      {"vocab_size", model.integer(kVocabulary)},
                      {"n_positions", model.integer(kContext)},
                      {"n_ctx", model.integer(kContext)},
                      {"n_embd", model.integer("embedding")},
                      {"n_layer", model.integer("layers")},
                      {"n_head", model.integer("heads")},
                      {"layer_norm_epsilon", 1e-5},
                      {"tie_word_embeddings", true},
                      {"torch_dtype", "float32"}};
  write_text((fs::path(folder) / "config.json").string(), shape.dump(2) + "\n");
}

}  // namespace

const Published& gpt_hugging_face() {
  static constexpr Published kPublished{
      .by = "Hugging Face",
      .tokenizer = {kGpt2Tokenizer, {{{kGpt2Tokens, kHuggingFaceTokens}, {kGpt2Merges, kHuggingFaceMerges}}}},
      .is_at = is_gpt2,
      .read = read_gpt2,
      .load = load_gpt2,
      .save = save_gpt2};
  return kPublished;
}

}  // namespace lpmm
