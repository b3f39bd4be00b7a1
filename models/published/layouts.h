// The layouts in which models are published. A path is a folder with config.json and model.safetensors or its
// shards, or one of these files. Tensors may be fp32, fp16 or bf16; those that are missing, of another shape
// or not known are errors. Saved are model.safetensors (fp32), or shards, and config.json.
#pragma once

#include "lpmm/program/family.h"

namespace lpmm {

// What stands in for the head of images' backbones that come without one.
inline constexpr int kStandInClasses = 2;
inline constexpr const char* kNoHead =
    "has no head: one of two classes, all zeros, stands in until a training (--init) draws its data's";

// BERT, RoBERTa and DistilBERT, with or without the prefix that files with a head have ("bert."). What is
// read of a head depends on the model's classes: a classifier where there are some, else none.
const Published& bert_hugging_face();
// GPT-2. Their projections are stored (inputs, outputs), ours (outputs, inputs); the output matrix is the
// token embedding in both: another lm_head is an error. Without config.json heads are 64 wide, as in every
// published size.
const Published& gpt_hugging_face();
// Llama, Mistral, Qwen2, Qwen3 and SmolLM3. A Mistral is written as the Llama that it is. Rotary scaling is
// none, linear or llama3; others are errors, as are biases and activations that this Llama has not.
const Published& llama_hugging_face();
// Marian's translators.
const Published& transformer_hugging_face();
// ResNets, with the running statistics of batch norms; timm shares the layout, and config.json is timm's.
// Sizes are told from the tensors (no ResNeXt, no wide ones). A stem of 3x3 has no pooling behind it. Counts
// of batches are left out, and 0 in what is saved.
const Published& resnet_torchvision();
// Vision transformers. Sizes are told from the tensors, of square images; heads from config.json's
// model_args, else they are 64 wide, as in every published size.
const Published& vit_timm();

}  // namespace lpmm
