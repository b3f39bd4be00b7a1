// BERT, RoBERTa and DistilBERT in Hugging Face's layout: safetensors with their tensor names, and
// config.json.
#pragma once

#include "lpmm/program/family.h"

namespace lpmm {

// A path is a folder with config.json and model.safetensors or its shards, or one of these files. Tensors may
// be fp32, fp16 or bf16, with or without the prefix that files with a head have ("bert."). What is read of a
// head depends on the model's classes: a classifier where there are some, else none.
const Published& bert_hugging_face();

}  // namespace lpmm
