// GGUF files: a model as llama.cpp reads it, with its settings, tokenizer and chat template in one file.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "lpmm/files/files.h"
#include "lpmm/files/json.h"
#include "models/gguf/types.h"

namespace lpmm {

struct GgufTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // as elsewhere here: neighbours in memory along the last
  const GgufType* type = nullptr;
  std::uint64_t offset = 0, bytes = 0;  // in the file

  std::int64_t columns() const { return shape.back(); }
  std::int64_t rows() const;
};

// Opens a file and checks all that its header says against it before anything is used. Throws RunError.
class GgufFile {
 public:
  explicit GgufFile(const std::string& path);
  const std::string& path() const { return file_.path(); }
  // "llama.block_count": 30. Numbers of 32 bits are those that print as they do.
  const Json& keys() const { return keys_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find(const std::string& name) const;  // null where there is none
  // Bytes [first, first + out.size()) of a tensor as they are stored.
  void read(const GgufTensor& tensor, std::uint64_t first, std::span<std::byte> out) const;

 private:
  File file_;
  Json keys_;
  std::vector<GgufTensor> tensors_;
};

// A tensor to write; `emit` hands its values to the sink, in order, in pieces of any size.
struct GgufSource {
  using Sink = std::function<void(std::span<const float>)>;
  std::string name;
  std::vector<std::int64_t> shape;
  const GgufType* type = nullptr;  // one that has `encode`, and whole blocks in a row
  std::function<void(const Sink&)> emit;
};

// Keys in the order of `keys`: texts, booleans, numbers (of 32 bits where they fit), lists of one of these.
// The file appears whole or not at all. Returns its bytes.
std::uint64_t write_gguf(const std::string& path, const Json& keys, std::span<const GgufSource> tensors);

}  // namespace lpmm
