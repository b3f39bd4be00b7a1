// A GGUF in place of a folder with config.json and safetensors, both ways.
#pragma once

#include <filesystem>
#include <string>

#include "lpmm/files/temporary_folder.h"
#include "lpmm/program/family.h"
#include "lpmm/program/weight_source.h"
#include "models/gguf/types.h"

namespace lpmm {

// The file within a folder that holds its weights.
inline constexpr const char* kGgufWeights = "model.gguf";

// Returns true if the path leads to a file that begins with the magic of GGUF.
bool is_gguf(const std::string& path);

// A folder of a model as transformers has them, for as long as this lives: config.json, the tokenizer and a
// link to the GGUF, from which weights are read.
class UnpackedGguf {
 public:
  // Throws RunError for what is damaged, or not here.
  explicit UnpackedGguf(const std::string& path);
  std::string folder() const { return folder_.string(); }
  // Says which parts of the GGUF are not used here, and why; empty if all are.
  const std::string& remark() const { return remark_; }

 private:
  TemporaryFolder folder_;
  std::string remark_;
};

// Writes the model that `published` would write into a folder, with what `add_files` puts beside it, as one
// GGUF. Matrices are of that type, embeddings and the output of q8_0 where it is q4_0, all else f32. Returns
// a sentence about what is left out; empty: nothing. Throws UsageError for a model that llama.cpp has not.
std::string write_gguf_model(const WeightSource& weights, const Published& published,
                             const ModelConfig& model, const GgufType& type, const std::string& output,
                             Device& device, const std::function<void(const std::string& folder)>& add_files);

}  // namespace lpmm
