// The types that numbers have in a GGUF: plain ones, and blocks that share one or more scales.
// https://github.com/ggml-org/llama.cpp/blob/master/ggml/src/ggml-quants.c
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lpmm {

struct GgufType {
  std::uint32_t id;
  std::string_view name;
  std::int64_t elements, bytes;  // of a block; a row of a tensor is whole blocks
  void (*decode)(const std::byte* block, float* out);
  void (*encode)(const float* values, std::byte* block);  // null: this type is only read
  std::string_view stored = {};  // as safetensors names it; empty: it has no name there
  int file_type = -1;            // general.file_type of a file of mostly this one
};

const GgufType* find_gguf_type(std::uint32_t id);       // null: none of these
const GgufType* find_gguf_type(std::string_view name);  // "q8_0"
std::string gguf_type_names();                          // "f32, f16, ...", for messages

}  // namespace lpmm
