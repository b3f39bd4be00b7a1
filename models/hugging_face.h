// GPT-2 in Hugging Face's layout: model.safetensors with their tensor names and config.json. Their
// projections are stored (inputs, outputs), ours (outputs, inputs); the output matrix is the token embedding
// in both.
#pragma once

#include <string>

#include "lpmm/memory/model_memory.h"
#include "lpmm/program/program.h"
#include "lpmm/run/stored_weights.h"

namespace lpmm {

// The model that `path` holds: a safetensors file, or a folder with model.safetensors; config.json beside it
// is read. Without one heads are 64 wide, as in every published size. Throws RunError naming file and tensor
// for what is no GPT-2.
ModelConfig hugging_face_model(const std::string& path);

// Parameters of `memory` from that file, fp32, fp16 or bf16. Tensors that are missing, of another shape or
// not known are errors; attention masks and a tied lm_head are left out, another lm_head is an error.
void import_hugging_face(const std::string& path, ModelMemory& memory);

// Writes `folder`/model.safetensors (fp32) and config.json.
void export_hugging_face(const StoredWeights& weights, const ModelConfig& model, const std::string& folder,
                         Pool& pool);

}  // namespace lpmm
