// Rotary positions of a GGUF: keys and tensors of their scaling, and config.json's "rope_scaling".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lpmm/files/json.h"
#include "models/gguf/file.h"
#include "models/gguf/layout.h"

namespace lpmm {

// general.architecture of a Phi-3, which has LongRoPE's two tensors.
inline constexpr std::string_view kGgufPhi3 = "phi3";

// Reads the GGUF keys of a model's kind; a value that is of another kind is an error that quotes it.
class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, const GgufModel& model) : file_(file), model_(model) {}
  std::string name(std::string_view key) const;
  const Json* find(std::string_view key) const;  // null: absent
  double number(std::string_view key, double otherwise) const;
  std::string text(std::string_view key, const char* otherwise) const;

 private:
  const GgufFile& file_;
  const GgufModel& model_;
};

// Channels of a head of a config.json.
double gguf_head_width(const Json& config);
// config.json's "rope_scaling" of a GGUF, null where there is none, and the keys of a config.json's.
Json gguf_scaling(const GgufFile& file, const GgufModel& model, const Json& config);
void add_gguf_scaling(const Json& config, const GgufModel& model, Json& keys);
bool is_scaling_key(std::string_view key);  // behind the model's kind and a dot

// A list of factors of rotary frequencies, for which transformers has keys and a GGUF tensors.
struct RotaryTensor {
  std::string name;
  std::vector<float> factors;
};
std::vector<RotaryTensor> rotary_tensors(const Json& config);
bool is_rotary_tensor(const GgufModel& model, std::string_view name);

}  // namespace lpmm
