// Norms over channels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lpmm/program/builder.h"

namespace lpmm {

// Layer norm: Ba, Kiros & Hinton 2016. Tensors `name`.weight and, where it has one, .bias.
Value layer_norm(ProgramBuilder& b, const std::string& name, Value x, double epsilon = 1e-5,
                 bool has_bias = true);
// RMS norm: Zhang & Sennrich 2019. Tensor `name`.weight. It multiplies by the weight, which starts at 1, or,
// as Gemma's, by 1 + weight, which starts at 0.
enum class NormWeight : std::uint8_t { kFactor, kAboveOne };
Value rms_norm(ProgramBuilder& b, const std::string& name, Value x, double epsilon = 1e-5,
               NormWeight kind = NormWeight::kFactor);

// RMS norms of queries and keys: each is of so many heads of x, of `width` channels, one after the other.
// Qwen3 has them so; OLMo 2 has one of all heads together. The channels that are left stay as they are.
struct HeadNorm {
  std::string name;
  int heads = 0, width = 0;
};
Value head_norms(ProgramBuilder& b, const std::vector<HeadNorm>& norms, Value x, double epsilon = 1e-5,
                 NormWeight kind = NormWeight::kFactor);

}  // namespace lpmm
