// The tokenizer of XLM-RoBERTa and CamemBERT where there is no tokenizer.json: the pieces of a SentencePiece
// model, numbered as fairseq does, behind special tokens of its own.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace lpmm {

inline constexpr std::string_view kFairseqFile = "sentencepiece.bpe.model";

// The tokenizer.json that transformers makes of such a file. Throws RunError naming the file where it is no
// SentencePiece model of that form.
nlohmann::json fairseq_document(const std::string& path, bool is_camembert);

}  // namespace lpmm
