// Weights as others publish them: safetensors, in one file or in shards with an index, and config.json beside
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lpmm/files/json.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/program/family.h"
#include "lpmm/program/model_config.h"
#include "lpmm/program/program.h"
#include "lpmm/program/weight_source.h"
#include "models/published/config.h"

namespace lpmm {

// The tensors of a safetensors file, of a folder with model.safetensors, of one with shards and
// model.safetensors.index.json, or of one that a GGUF was unpacked into. Throws RunError for an index that
// names what is not there, a shard outside the folder, or a tensor twice; and for a PyTorch pickle, which is
// not read.
class PublishedTensors {
 public:
  struct Place {
    const TensorFile* file = nullptr;  // null: there is no such tensor
    const SafetensorsEntry* entry = nullptr;
  };
  explicit PublishedTensors(const std::string& path);

  const std::string& path() const { return path_; }  // for messages: the file, or the index
  // The tensor of that name, or of that name behind the prefix.
  Place find(const std::string& name, std::string_view prefix = {}) const;
  std::vector<Place> all() const;

 private:
  void open_shards(const std::string& index);
  std::string path_;
  std::vector<std::unique_ptr<TensorFile>> files_;
};

// Returns true if a file or folder holds weights with tensors of all those names; false without weights.
bool has_published_tensors(const std::string& path, std::initializer_list<const char*> names,
                           std::string_view prefix = {});

// The family whose published weights are at `path`. Throws RunError where none is known.
const Family& published_family(const std::string& path);

// The layout of a family's published tensors: names are ours, perhaps behind a prefix, or `parts` gives them.
struct PublishedLayout {
  std::string_view model;                                     // "GPT-2", for messages
  std::string_view prefix = {};                               // that names may have
  bool (*is_transposed)(std::string_view name) = nullptr;     // matrices that are stored (inputs, outputs)
  bool (*is_left_out)(std::string_view name) = nullptr;       // tensors that there may be besides the model's
  bool (*is_behind_prefix)(std::string_view name) = nullptr;  // names that are written with the prefix
  bool (*is_row)(std::string_view name) = nullptr;            // vectors that are stored (1, n)
  // The names of one of ours, where they are others: several hold its rows one after the other. The functions
  // above and below get ours.
  std::vector<std::string> (*parts)(const std::string& name) = nullptr;
  bool (*may_lack)(std::string_view name) = nullptr;  // of a head: 0 where a file is a backbone alone
  std::string (*older_name)(const std::string& name) = nullptr;  // in files of old; empty: none
  std::string_view by = "transformers",
                   type = {};    // whose tables, and which rows where no config.json says it
  std::string_view counts = {};  // of batches, that stand beside every .running_var; 0 in what is saved
};

// A tensor that a model must have, with so many dimensions.
const SafetensorsEntry& expect_published(const PublishedTensors& tensors, const PublishedLayout& layout,
                                         const std::string& name, std::size_t dimensions);
// Counts how many of name(0), name(1), ... there are in a row, up to `most`.
std::int64_t count_published(const PublishedTensors& tensors, const PublishedLayout& layout,
                             std::int64_t most, const std::function<std::string(std::int64_t)>& name);

// Reads all tensors of a model, panel by panel. Tensors may be fp32, fp16 or bf16; those that are missing, of
// another shape or not known are errors.
void load_published(const PublishedTensors& tensors, const PublishedLayout& layout, ModelMemory& memory);
// The same of buffers, as running statistics.
void load_published_buffers(const PublishedTensors& tensors, const PublishedLayout& layout, Buffers& buffers);
// Throws RunError where there is an output matrix that is not the embedding, and says what to do.
void check_tied(const PublishedTensors& tensors, const std::string& output, const std::string& embedding,
                const PublishedLayout& layout,
                std::string_view remedy = "only a tied output can be imported");
// Writes model.safetensors, or shards of at most so many bytes (or a tensor) with their index, and `config`,
// with the special tokens and all else that the run kept, as config.json into `folder`, and files that came
// with the model but for those of its tokenizer. Buffers are fp32; the rest is of the type that the facts of
// the weights name. Files appear as a whole, the index after all that it names. Throws RunError for values
// that are too large for fp16.
void save_published(const WeightSource& weights, const PublishedLayout& layout, Json config,
                    const std::string& folder, Device& device, std::int64_t shard_bytes = 5'000'000'000);

}  // namespace lpmm
