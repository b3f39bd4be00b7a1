// The layouts in which models are published. A path is a folder with config.json and model.safetensors or its
// shards, or one of these files. Tensors may be fp32, fp16 or bf16; those that are missing, of another shape
// or not known are errors. Saved are model.safetensors (fp32), or shards, and config.json.
#pragma once

#include "lpmm/program/family.h"

namespace lpmm {

// The number of classes of the head that stands in where the backbone of an image model has none.
inline constexpr int kStandInClasses = 2;
inline constexpr const char* kNoHead =
    "has no head: one of two classes, all zeros, stands in until a training (--init) draws its data's";

// BERT, RoBERTa, XLM-RoBERTa, CamemBERT, MPNet and DistilBERT, with or without the prefix that files with a
// head have ("bert."). A head is read only if the model has classes: it is a classifier of sentences or of
// words then, and otherwise there is none.
const Published& bert_hugging_face();
// ModernBERT, in the same way.
const Published& modernbert_hugging_face();
// GPT-2. Their projections are stored (inputs, outputs), ours (outputs, inputs); the output matrix is the
// token embedding in both: another lm_head is an error. Without config.json heads are 64 wide, as in every
// published size.
const Published& gpt_hugging_face();
// Llama, Mistral, Qwen2, Qwen3, Qwen3-MoE, SmolLM3, Phi-3, OLMo 2, Granite and Gemma 3 (models of text);
// which one is written depends on what the layers have. Rotary scaling is none, dynamic, linear, llama3, yarn
// or (Phi-3) longrope; others are errors, as are biases and activations that the kind has not.
const Published& llama_hugging_face();
// The same with a head that tells classes or a number of a text's end (score), or, where modules.json says so
// or there is no head, as makers of vectors.
const Published& llama_sentences_hugging_face();
// Marian's translators.
const Published& transformer_hugging_face();
// ResNets, with the running statistics of batch norms, of torchvision and timm, which share the layout, and
// of transformers, where config.json says its model_type; what came from there is written so. Sizes are told
// from the tensors (wide ones, resnet-d and ResNeXt among them). A stem of 3x3 has no pooling behind it.
// Counts of batches are left out, and 0 in what is saved.
const Published& resnet_torchvision();
// Vision transformers of timm, distilled ones among them, and of transformers, as above. timm's sizes are
// told from the tensors, of square images; heads from config.json's model_args, else they are 64 wide, as in
// every published size.
const Published& vit_timm();

}  // namespace lpmm
