// The correspondence of llama.cpp's kinds, tensors and sizes of models to those of transformers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/files/json.h"
#include "models/gguf/file.h"

namespace lpmm {

struct GgufModel {
  std::string_view name;                // general.architecture
  std::string_view type, architecture;  // in config.json
  // Rotary positions turn neighbouring rows of a head, where transformers has them half a head apart.
  bool is_interleaved = false;
  bool adds_one = false;  // norms multiply by what is stored, where transformers stores what is above 1
};
// Throws RunError for a kind that is not here.
const GgufModel& gguf_model(const GgufFile& file);
// The kind of a config.json's model_type; null: llama.cpp has another form for it, or none.
const GgufModel* find_gguf_model(std::string_view type);
std::string gguf_model_types();  // "llama, mistral, ...", for messages

// "blk.0.attn_q.weight" of "model.layers.0.self_attn.q_proj.weight", and back; empty: there is none.
std::string gguf_name(const GgufModel& model, std::string_view theirs);
std::string transformers_name(const GgufModel& model, std::string_view name);
// Returns true if transformers stores that tensor of a GGUF transposed, as (inputs, outputs).
bool is_turned(const GgufModel& model, std::string_view name);

// Returns the constant by which the GGUF's values exceed those of transformers.
float shift_of(const GgufModel& model, std::string_view name);

// The order in which a GGUF stores the rows of a tensor.
struct RowOrder {
  std::int64_t head_rows = 0;  // of a head whose rows are interleaved; 0: all lie as in transformers
  std::int64_t in_gguf(std::int64_t row) const;
};
// Returns the order of the rows of queries or keys, whose number of heads config.json says.
RowOrder row_order(const GgufModel& model, const Json& config, std::string_view name, std::int64_t rows);

// config.json of a GGUF, and a GGUF's keys of a config.json.
Json config_of(const GgufFile& file, const GgufModel& model);
Json keys_of(const Json& config, const GgufModel& model);
// Keys that nothing here reads.
std::vector<std::string> unused_keys(const GgufFile& file, const GgufModel& model);

}  // namespace lpmm
