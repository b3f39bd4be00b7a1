// Activations: functions of one value each.
#pragma once

#include "kernels/sequence.h"
#include "lpmm/program/builder.h"

namespace lpmm {

Value relu(ProgramBuilder& b, Value x);
// Hendrycks & Gimpel 2016. GPT-2 has the tanh form, BERT and ViT the exact one.
Value gelu(ProgramBuilder& b, Value x, kernels::GeluForm form = kernels::GeluForm::kTanh);
Value tanh(ProgramBuilder& b, Value x);
// SwiGLU: Shazeer 2020. Of the two halves of the channels, gate and up: gate * sigmoid(gate) * up.
Value swiglu(ProgramBuilder& b, Value x);

}  // namespace lpmm
