// Norms over channels.
#pragma once

#include <string>
#include <vector>

#include "lpmm/program/builder.h"

namespace lpmm {

// Layer norm: Ba, Kiros & Hinton 2016. Tensors `name`.weight and .bias.
Value layer_norm(ProgramBuilder& b, const std::string& name, Value x, double epsilon = 1e-5);
// RMS norm: Zhang & Sennrich 2019. Tensor `name`.weight.
Value rms_norm(ProgramBuilder& b, const std::string& name, Value x, double epsilon = 1e-5);

// RMS norms of heads, as Qwen3 has for queries and keys: the channels of x are heads of `head_width`, and
// each norm is of so many of them, one after the other. Those that are left stay as they are.
struct HeadNorm {
  std::string name;
  int heads = 0;
};
Value head_norms(ProgramBuilder& b, const std::vector<HeadNorm>& norms, Value x, int head_width,
                 double epsilon = 1e-5);

}  // namespace lpmm
