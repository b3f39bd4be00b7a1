// Llama, Mistral, Qwen2 and Qwen3 in Hugging Face's layout: safetensors with their tensor names, and
// config.json.
#pragma once

#include "lpmm/program/family.h"

namespace lpmm {

// A path is a folder with config.json and model.safetensors or its shards, or one of these files. Tensors may
// be fp32, fp16 or bf16. A Mistral is written as the Llama that it is. Rotary scaling is none, linear or
// llama3; others are errors, as are biases and activations that this Llama has not, and tensors that are
// missing, of another shape or not known.
const Published& llama_hugging_face();

}  // namespace lpmm
