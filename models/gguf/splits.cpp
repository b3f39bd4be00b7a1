#include "models/gguf/splits.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "models/published/table.h"

namespace lpmm {
namespace {

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr GgufSplit kSplits[] = {
    {"gpt-2 phi-2 olmo mpt roberta-bpe gigachat"},
    {"smollm starcoder refact command-r codeshell", {}, true},
    {.names = "llama-bpe llama3 llama-v3 falcon3", .regex = kLlama3, .whole_words = true, .adds_begin = true},
    {.names = "dbrx smaug-bpe", .regex = kLlama3},
    {.names = "qwen2 deepseek-r1-qwen stablelm2 megrez", .regex = kQwen, .normalizes = true}};

// The pre-tokenizers of a tokenizer.json, in the terms of a row of kSplits.
struct Seen {
  std::string regex;
  bool digits = false, is_byte_level = false, by_words = false, is_other = false;
};
void look_at(const Json& stage, Seen& seen) {
  const std::string type = stage.is_object() ? stage.value("type", "") : "";
  if (type == "Sequence" && stage.contains("pretokenizers")) {
    for (const Json& inner : stage["pretokenizers"]) look_at(inner, seen);
  } else if (type == "Split" && seen.regex.empty() && stage.value("behavior", "") == "Isolated" &&
             !stage.value("invert", false) && stage["pattern"].contains("Regex")) {
    seen.regex = stage["pattern"]["Regex"].get<std::string>();
  } else if (type == "Digits" && stage.value("individual_digits", false)) {
    seen.digits = true;
  } else if (type == "ByteLevel" && !stage.value("add_prefix_space", true)) {
    seen.is_byte_level = true;
    seen.by_words = stage.value("use_regex", true);
  } else {
    seen.is_other = true;
  }
}

}  // namespace

const GgufSplit* find_split(std::string_view name) {
  const auto* at =
      std::ranges::find_if(kSplits, [&](const GgufSplit& row) { return is_among(name, row.names); });
  return at == std::end(kSplits) ? nullptr : at;
}

const GgufSplit* split_of(const Json& tokenizer) {
  Seen seen;
  look_at(tokenizer.value("pre_tokenizer", Json()), seen);
  if (seen.is_other || !seen.is_byte_level || seen.by_words != seen.regex.empty()) return nullptr;
  const Json model = tokenizer.value("model", Json::object());
  const bool whole_words = model.value("ignore_merges", false);
  const auto* at = std::ranges::find_if(kSplits, [&](const GgufSplit& row) {
    return row.regex == seen.regex && row.digits == seen.digits && row.whole_words == whole_words;
  });
  return at == std::end(kSplits) ? nullptr : at;
}

Json pre_tokenizer_json(const GgufSplit& split) {
  Json bytes = {{"type", "ByteLevel"},
                {"add_prefix_space", false},
                {"trim_offsets", true},
                {"use_regex", split.regex.empty()}};
  Json first;
  if (split.digits) first = {{"type", "Digits"}, {"individual_digits", true}};
  if (!split.regex.empty()) {
    first = {{"type", "Split"},
             {"pattern", {{"Regex", split.regex}}},
             {"behavior", "Isolated"},
             {"invert", false}};
  }
  if (first.is_null()) return bytes;
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({first, bytes})}};
}

}  // namespace lpmm
