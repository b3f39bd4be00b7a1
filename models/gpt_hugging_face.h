// GPT-2 in Hugging Face's layout: model.safetensors with their tensor names and config.json. Their
// projections are stored (inputs, outputs), ours (outputs, inputs); the output matrix is the token embedding
// in both.
#pragma once

#include "lpmm/program/family.h"

namespace lpmm {

// A path is a safetensors file, or a folder with model.safetensors; config.json beside it is read. Without
// one heads are 64 wide, as in every published size. Tensors may be fp32, fp16 or bf16; those that are
// missing, of another shape or not known are errors. Attention masks and a tied lm_head are left out, another
// lm_head is an error. Saved are model.safetensors (fp32) and config.json.
const Published& gpt_hugging_face();

}  // namespace lpmm
