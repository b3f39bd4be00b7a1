#include "models/published/published.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "kernels/compute.h"
#include "kernels/formats/codec.h"
#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/files/half.h"
#include "models/families.h"
#include "models/gguf/gguf.h"
#include "models/published/facts.h"
#include "models/published/folder.h"
#include "models/published/pickles.h"
#include "models/published/type.h"
#include "models/published/unknown.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr const char *kSingle = "model.safetensors", *kConfig = "config.json";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kWeights[] = {kSingle, kIndex, kGgufWeights};
constexpr std::uint64_t kLongestText = 1 << 26;
constexpr std::string_view kVariance = ".running_var", kStatistics = ".running_";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Elements [first, first + out.size()) of a tensor of any of the three types.
void read_floats(const PublishedTensors::Place& place, std::int64_t first, std::span<float> out) {
  const SafetensorsEntry& entry = *place.entry;
  const auto at = static_cast<std::uint64_t>(first);
  if (entry.dtype == "F32") return place.file->read(entry, 4 * at, std::as_writable_bytes(out));
  if (entry.dtype != "F16" && entry.dtype != "BF16") {
    throw RunError(
        fmt::format("{}: {} is {}, expected F32, F16 or BF16", place.file->path(), entry.name, entry.dtype));
  }
  std::vector<std::uint16_t> narrow(out.size());
  place.file->read(entry, 2 * at, std::as_writable_bytes(std::span(narrow)));
  const bool half = entry.dtype == "F16";
  std::transform(narrow.begin(), narrow.end(), out.begin(),
                 [half](std::uint16_t x) { return half ? half_to_float(x) : bf16_to_float(x); });
}

// Returns true if two tensors hold the same values.
bool is_same(const PublishedTensors::Place& a, const PublishedTensors::Place& b) {
  constexpr std::uint64_t kPiece = 1 << 20;
  bool same = a.entry->shape == b.entry->shape && a.entry->dtype == b.entry->dtype;
  std::vector<std::byte> x, y;
  for (std::uint64_t at = 0; same && at < a.entry->bytes; at += kPiece) {
    x.resize(std::min(kPiece, a.entry->bytes - at));
    y.resize(x.size());
    a.file->read(*a.entry, at, x);
    b.file->read(*b.entry, at, y);
    same = x == y;
  }
  return same;
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

bool is_transposed(const PublishedLayout& layout, const TensorInfo& t) {
  return t.shape.size() == 2 && layout.is_transposed != nullptr && layout.is_transposed(t.name);
}

std::vector<std::int64_t> their_shape(const PublishedLayout& layout, const TensorInfo& t) {
  std::vector<std::int64_t> shape = t.shape;
  if (is_transposed(layout, t)) std::reverse(shape.begin(), shape.end());
  if (layout.is_row != nullptr && layout.is_row(t.name)) shape.insert(shape.begin(), 1);
  return shape;
}

std::vector<std::string> parts_of(const PublishedLayout& layout, const std::string& name) {
  return layout.parts == nullptr ? std::vector{name} : layout.parts(name);
}

// Returns the shape of one of `count` parts that divide the rows.
std::vector<std::int64_t> part_shape(std::vector<std::int64_t> whole, std::size_t count) {
  whole[0] /= static_cast<std::int64_t>(count);
  return whole;
}

// `parts` hold its rows one after the other.
void load_tensor(const std::vector<PublishedTensors::Place>& parts, bool turn, int tensor,
                 ModelMemory& memory) {
  constexpr std::int64_t kPanel = 256 * kernels::kTile;
  const std::int64_t elements = memory.info(tensor).elements(), of_part = elements / std::ssize(parts);
  // A transposed matrix is turned whole, and parts are joined; the embedding, the one large tensor, is
  // neither.
  const std::int64_t panel = turn || parts.size() > 1 ? elements : kPanel;
  std::vector<float> values, turned;
  for (std::int64_t at = 0; at < elements; at += panel) {
    values.resize(static_cast<std::size_t>(std::min(panel, elements - at)));
    if (parts.size() == 1) read_floats(parts[0], at, values);
    for (std::size_t k = 0; k < parts.size() && parts.size() > 1; ++k) {
      const auto size = static_cast<std::size_t>(of_part);
      read_floats(parts[k], 0, std::span(values).subspan(k * size, size));
    }
    if (turn) {
      transpose(parts[0].entry->shape[0], parts[0].entry->shape[1], values, turned);
      values.swap(turned);
    }
    try {
      memory.initialize(tensor, at, values);
    } catch (const RunError& e) {
      throw RunError(fmt::format("{}: {}", parts[0].file->path(), e.what()));
    }
  }
}

// Under either name.
PublishedTensors::Place find_either(const PublishedTensors& tensors, const PublishedLayout& layout,
                                    const std::string& name) {
  const PublishedTensors::Place place = tensors.find(name, layout.prefix);
  const std::string older = layout.older_name == nullptr ? "" : layout.older_name(name);
  return place.entry == nullptr && !older.empty() ? tensors.find(older, layout.prefix) : place;
}

// A tensor that must be there.
PublishedTensors::Place expect(const PublishedTensors& tensors, const PublishedLayout& layout,
                               const std::string& name) {
  const PublishedTensors::Place place = find_either(tensors, layout, name);
  if (place.entry == nullptr) {
    throw RunError(fmt::format("{}: has no tensor {}, which a {} has", tensors.path(), name, layout.model));
  }
  return place;
}

// Finds a tensor that must have that shape.
PublishedTensors::Place expect(const PublishedTensors& tensors, const PublishedLayout& layout,
                               const std::string& name, const std::vector<std::int64_t>& shape) {
  const PublishedTensors::Place place = expect(tensors, layout, name);
  if (place.entry->shape != shape) {
    throw RunError(fmt::format("{}: {} is {}, expected {}", place.file->path(), place.entry->name,
                               fmt::join(place.entry->shape, " x "), fmt::join(shape, " x ")));
  }
  return place;
}

// Says why published weights that no family knows cannot be imported.
std::string why_unknown(const std::string& path) {
  if (!PublishedConfig::is_beside(path)) {
    return "holds no model that can be imported; there is no config.json, by which those of transformers are "
           "known";
  }
  const std::string type = PublishedConfig(PublishedConfig::beside(path)).text("model_type");
  return type.empty() ? "holds no model that can be imported"
                      : fmt::format("is a {} of transformers, which cannot be imported{}", printable(type),
                                    why_not_here(type));
}

// "gpt2, llama (transformers), vit (timm)"
std::string known_kinds() {
  std::vector<std::pair<std::string_view, std::string>> by;
  for (const Family& family : families().rows) {
    if (family.published == nullptr || family.published->kinds.empty()) continue;
    const auto at = std::ranges::find(by, family.published->by, [](const auto& p) { return p.first; });
    if (at == by.end()) {
      by.emplace_back(family.published->by, family.published->kinds);
    } else {
      at->second += fmt::format(", {}", family.published->kinds);
    }
  }
  std::vector<std::string> known;
  for (const auto& [library, kinds] : by) known.push_back(fmt::format("{} ({})", kinds, library));
  return fmt::format("{}", fmt::join(known, ", "));
}

// Returns the name that a part gets in the file to write.
std::string theirs_of(const PublishedLayout& layout, const std::string& name, std::size_t part) {
  const bool is_behind = layout.is_behind_prefix != nullptr && layout.is_behind_prefix(name);
  return (is_behind ? std::string(layout.prefix) : "") + parts_of(layout, name)[part];
}

// The counts of batches beside running statistics: whoever goes on training counts anew.
std::vector<SafetensorsSource> counts_of(const std::vector<TensorInfo>& tensors,
                                         const PublishedLayout& layout) {
  std::vector<SafetensorsSource> counts;
  for (const TensorInfo& t : tensors) {
    if (layout.counts.empty() || !t.name.ends_with(kVariance)) continue;
    const std::string theirs = theirs_of(layout, t.name, 0);
    const std::string norm = theirs.substr(0, theirs.size() - kVariance.size());
    counts.push_back({norm + std::string(layout.counts), "I64", {}, [](const auto& sink) {
                        const std::int64_t none = 0;
                        sink(std::as_bytes(std::span(&none, 1)));
                      }});
  }
  return counts;
}

SafetensorsSource source_of(const WeightSource& weights, const TensorInfo& t, std::size_t tensor,
                            std::size_t part, const PublishedLayout& layout, const ExportedTypes& types,
                            Device& device) {
  const std::string theirs = theirs_of(layout, t.name, part);
  const StoredType& type = t.name.find(kStatistics) == std::string::npos ? types.of(theirs) : full_type();
  const bool turn = is_transposed(layout, t);
  const std::size_t parts = parts_of(layout, t.name).size();
  const std::int64_t elements = t.elements() / static_cast<std::int64_t>(parts),
                     begin = static_cast<std::int64_t>(part) * elements;
  return {theirs, std::string(type.stored), part_shape(their_shape(layout, t), parts),
          [&weights, &device, t, tensor, turn, begin, elements, &type](const auto& as_stored) {
            const auto sink = narrowed(as_stored, type, t.name);
            std::vector<float> all, turned;
            weights.read(tensor, device, [&](std::int64_t first, std::span<const float> values) {
              if (turn) {
                all.insert(all.end(), values.begin(), values.end());
                return;
              }
              const std::int64_t from = std::clamp<std::int64_t>(begin - first, 0, std::ssize(values)),
                                 to = std::clamp<std::int64_t>(begin + elements - first, from,
                                                               std::ssize(values));
              if (from < to) {
                sink(std::as_bytes(
                    values.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from))));
              }
            });
            if (!turn) return;
            transpose(t.shape[0], t.shape[1], all, turned);
            sink(std::as_bytes(std::span(std::as_const(turned))));
          }};
}

}  // namespace

// ---- tensors ---------------------------------------------------------------------------------------------
PublishedTensors::PublishedTensors(const std::string& path) : path_(path) {
  std::error_code error;
  // config.json stands for the weights beside it.
  const bool is_config = fs::path(path).filename() == kConfig;
  if (const fs::path folder = is_config ? fs::path(path).parent_path() : fs::path(path);
      fs::is_directory(folder, error)) {
    const auto is_weights = [&](const char* name) { return is_there(folder / name); };
    const auto at = std::ranges::find_if(kWeights, is_weights);
    path_ = (folder / (at == std::end(kWeights) ? kSingle : *at)).string();
  }
  if (path_.ends_with(".index.json")) {
    open_shards(path_);
    return;
  }
  if (!is_there(path_)) refuse_without_weights(published_folder(path_));
  files_.push_back(open_weights(path_));
}

void PublishedTensors::open_shards(const std::string& index) {
  constexpr std::size_t kMostShards = 4096;
  path_ = index;
  const Json j = read_json(index, kLongestText);
  const auto map = j.is_object() ? j.find("weight_map") : j.end();
  if (!j.is_object() || map == j.end() || !map->is_object() || map->empty()) {
    throw RunError(fmt::format("{}: has no weight_map of tensors and their files", index));
  }
  std::map<std::string, const TensorFile*> by_name;
  std::map<std::string, std::size_t> tensors_of;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) throw RunError(fmt::format("{}: {} has no file", index, tensor));
    const auto name = file.get<std::string>();
    if (name.empty() || name == "." || name == ".." || name.find_first_of("/\\") != std::string::npos) {
      throw RunError(
          fmt::format("{}: {} is in \"{}\", which is no file of this folder", index, tensor, name));
    }
    if (!by_name.contains(name)) {
      if (files_.size() == kMostShards) throw RunError(fmt::format("{}: names too many files", index));
      files_.push_back(open_weights((fs::path(index).parent_path() / name).string()));
      by_name[name] = files_.back().get();
    }
    if (by_name[name]->find(tensor) == nullptr) {
      throw RunError(fmt::format("{}: says that {} is in {}, which has no such tensor", index, tensor, name));
    }
    ++tensors_of[name];
  }
  for (const auto& [name, file] : by_name) {
    if (file->entries().size() != tensors_of[name]) {
      throw RunError(fmt::format("{}: {} has {} tensors, the index says {}", index, name,
                                 file->entries().size(), tensors_of[name]));
    }
  }
}

PublishedTensors::Place PublishedTensors::find(const std::string& name, std::string_view prefix) const {
  for (const auto& file : files_) {
    if (const SafetensorsEntry* entry = file->find(name); entry != nullptr) return {file.get(), entry};
  }
  return prefix.empty() ? Place{} : find(std::string(prefix) + name);
}

std::vector<PublishedTensors::Place> PublishedTensors::all() const {
  std::vector<Place> places;
  for (const auto& file : files_) {
    for (const SafetensorsEntry& entry : file->entries()) places.push_back({file.get(), &entry});
  }
  return places;
}

bool has_published_tensors(const std::string& path, std::initializer_list<const char*> names,
                           std::string_view prefix) {
  std::error_code error;
  const auto is_weights = [&](const char* name) { return is_there(fs::path(path) / name); };
  if (fs::is_directory(path, error) && std::ranges::none_of(kWeights, is_weights)) return false;
  const PublishedTensors tensors(path);
  return std::ranges::all_of(names,
                             [&](const char* name) { return tensors.find(name, prefix).entry != nullptr; });
}

const SafetensorsEntry& expect_published(const PublishedTensors& tensors, const PublishedLayout& layout,
                                         const std::string& name, std::size_t dimensions) {
  const SafetensorsEntry& entry = *expect(tensors, layout, name).entry;
  if (entry.shape.size() != dimensions) {
    throw RunError(fmt::format("{}: {} has {} dimensions, expected {}", tensors.path(), name,
                               entry.shape.size(), dimensions));
  }
  return entry;
}

std::int64_t count_published(const PublishedTensors& tensors, const PublishedLayout& layout,
                             std::int64_t most, const std::function<std::string(std::int64_t)>& name) {
  std::int64_t count = 0;
  while (count < most && tensors.find(name(count), layout.prefix).entry != nullptr) ++count;
  return count;
}

const Family& published_family(const std::string& path) {
  refuse_no_model(path);
  for (const Family& family : families().rows) {
    if (family.published != nullptr && family.published->is_at(path)) return family;
  }
  refuse_pickles_in(published_folder(path));
  throw RunError(fmt::format("{}: {}; there are {}", path, why_unknown(path), known_kinds()));
}

// ---- in and out ------------------------------------------------------------------------------------------
void load_published(const PublishedTensors& tensors, const PublishedLayout& layout, ModelMemory& memory) {
  std::set<std::string> known;
  for (int i = 0; i < memory.tensors(); ++i) {
    const TensorInfo& info = memory.info(i);
    const std::vector<std::string> parts = parts_of(layout, info.name);
    const bool may_lack = layout.may_lack != nullptr && layout.may_lack(info.name);
    if (may_lack && find_either(tensors, layout, parts[0]).entry == nullptr) continue;  // memory has zeros
    std::vector<PublishedTensors::Place> places;
    for (const std::string& part : parts) {
      places.push_back(expect(tensors, layout, part, part_shape(their_shape(layout, info), parts.size())));
      known.insert(places.back().entry->name);
    }
    load_tensor(places, is_transposed(layout, info), i, memory);
  }
  for (const PublishedTensors::Place& place : tensors.all()) {
    const std::string& name = place.entry->name;
    if (known.contains(name) || (layout.is_left_out != nullptr && layout.is_left_out(name))) continue;
    const bool is_of_head = std::ranges::count(name, '.') < 2;
    throw RunError(fmt::format("{}: holds the tensor {}, which a {} has not{}", place.file->path(), name,
                               layout.model, is_of_head ? head_not_here(tensors.path()) : ""));
  }
}

void load_published_buffers(const PublishedTensors& tensors, const PublishedLayout& layout,
                            Buffers& buffers) {
  std::vector<float> values;
  for (std::size_t i = 0; i < buffers.infos().size(); ++i) {
    const BufferInfo& info = buffers.infos()[i];
    const PublishedTensors::Place place = expect(tensors, layout, parts_of(layout, info.name)[0], info.shape);
    const auto to = buffers.value(static_cast<int>(i));
    values.resize(to.size());
    read_floats(place, 0, values);
    if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) {
      throw RunError(fmt::format("{}: {} holds what is not finite", place.file->path(), info.name));
    }
    if (info.name.ends_with(kVariance) && *std::min_element(values.begin(), values.end()) < 0) {
      throw RunError(fmt::format("{}: {} holds a negative variance", place.file->path(), info.name));
    }
    buffers.device().upload(to.data(), values.data(), 4 * std::ssize(values));
  }
}

void check_tied(const PublishedTensors& tensors, const std::string& output, const std::string& embedding,
                const PublishedLayout& layout, std::string_view remedy) {
  const PublishedTensors::Place head = tensors.find(output), rows = tensors.find(embedding, layout.prefix);
  if (head.entry == nullptr || rows.entry == nullptr || is_same(head, rows)) return;
  throw RunError(fmt::format("{}: {} is not {}; {}", tensors.path(), output, embedding, remedy));
}

void save_published(const WeightSource& weights, const PublishedLayout& layout, Json config,
                    const std::string& folder, Device& device, std::int64_t shard_bytes) {
  const PublishedFacts facts = weights.facts();
  const Publisher& publisher = publisher_of(layout.by);
  const ExportedTypes types(facts);
  const bool embeds = !config.contains("num_labels") || !is_there(fs::path(facts.files) / "modules.json");
  add_tokens(facts, config);
  config = with_kept_keys(facts, publisher, layout.type, std::move(config));
  std::vector<std::vector<SafetensorsSource>> shards(1);
  std::int64_t bytes = 0, all = 0;
  const std::vector<TensorInfo> tensors = weights.infos();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t more = types.of(theirs_of(layout, tensors[i].name, 0)).bytes * tensors[i].elements();
    if (bytes > 0 && bytes + more > shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    for (std::size_t k = 0; k < parts_of(layout, tensors[i].name).size(); ++k)
      shards.back().push_back(source_of(weights, tensors[i], i, k, layout, types, device));
    bytes += more;
    all += more;
  }
  const std::vector<SafetensorsSource> counts = counts_of(tensors, layout);
  shards.back().insert(shards.back().end(), counts.begin(), counts.end());
  make_folder(folder);
  const Metadata metadata = {{"format", "pt"}};
  Json map = Json::object();
  // Shards without an index are no model: it is removed first and written last, so that exports do not mix.
  fs::remove(fs::path(folder) / kIndex);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        shards.size() == 1 ? kSingle : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    weights.write((fs::path(folder) / name).string(), metadata, shards[i]);
    for (const SafetensorsSource& source : shards[i]) map[source.name] = name;
  }
  write_text((fs::path(folder) / kConfig).string(), config.dump(2) + "\n");
  write_back(facts, publisher, Beside::kModel, folder);
  if (embeds) write_back(facts, publisher, Beside::kSentences, folder);
  if (shards.size() == 1) return;
  const Json index = {{"metadata", {{"total_size", all}}}, {"weight_map", map}};
  write_text((fs::path(folder) / kIndex).string(), index.dump(2) + "\n");
  fs::remove(fs::path(folder) / kSingle);  // of an earlier model, which would be read in place of this one
}

}  // namespace lpmm
