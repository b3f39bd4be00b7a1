// Files of published tokenizers: tokenizer.json, vocab.txt.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/pairs/marian_tokenizer.h"
#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/tokenizers/pipeline.h"
#include "lpmm/data/tokenizers/sentence_piece/sentence_piece.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;  // not ordered: its search for a name is linear

constexpr std::string_view kConfigFile = "tokenizer_config.json";

std::uint32_t crc_of(const std::string& text) {
  return crc32(std::as_bytes(std::span(text)));
}

// tokenizer_config.json beside a file; an empty object where there is none.
json config_beside(const std::string& path) {
  const fs::path config = fs::path(path).parent_path() / kConfigFile;
  std::error_code error;
  return fs::exists(config, error) ? read_sorted_json(config.string()) : json::object();
}

// The token that the file beside names, else one of the usual ones.
std::optional<std::int32_t> end_of_text(const AddedTokens& added, const json& config) {
  std::vector<std::string> names = {"<|endoftext|>", "<|end_of_text|>", "</s>"};
  const auto named = config.find("eos_token");
  if (named != config.end()) {
    const json& name = named->is_object() && named->contains("content") ? (*named)["content"] : *named;
    if (name.is_string()) names = {name.get<std::string>()};
  }
  for (const std::string& name : names) {
    for (const AddedToken& token : added.all()) {
      if (token.text == name) return token.id;
    }
  }
  return std::nullopt;
}

Pipeline read_tokenizer_json(const std::string& path) {
  const json document = read_sorted_json(path);
  const Part file(document, path, "");
  const Normalizer normalize = make_normalizer(file);
  Pipeline parts{AddedTokens(file, normalize), normalize,          make_pre_tokenizer(file),
                 make_subwords(file),          make_decoder(file), SentenceTemplate(file)};
  parts.file = path;
  parts.kind = kTokenizerJson;
  // However its JSON is spelled: members are sorted. What is no UTF-8 the parser has refused.
  parts.checksum = crc_of(document.dump());
  parts.end_of_text = end_of_text(parts.added, config_beside(path));
  return parts;
}

// BERT's: a token a line, its number its id.
Pipeline read_vocab_txt(const std::string& path) {
  constexpr std::uint64_t kMost = 64 << 20;
  const std::string text = read_text(path, kMost);
  TokenIds ids;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string token = text.substr(at, end - at);
    if (token.ends_with('\r')) token.pop_back();
    const auto id = static_cast<std::int32_t>(ids.size());
    for (std::size_t i = 0; i < token.size(); i += first_character(std::string_view(token).substr(i)).bytes) {
      if (first_character(std::string_view(token).substr(i)).state != Character::kGood)
        throw RunError(fmt::format("{}:{}: is no UTF-8", path, id + 1));
    }
    if (!ids.emplace(token, id).second) {
      throw RunError(fmt::format("{}:{}: the token {} comes twice", path, id + 1, shown(token)));
    }
    at = end + 1;
  }
  std::vector<AddedToken> special;
  for (const char* name : {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}) {
    const auto found = ids.find(std::string_view(name));
    if (found == ids.end()) throw RunError(fmt::format("{}: has no token {}, as BERT's has", path, name));
    AddedToken token{found->second, name, true};
    token.normalized = false;
    special.push_back(token);
  }
  const json config = config_beside(path);
  const Part options(config, (fs::path(path).parent_path() / kConfigFile).string(), "");
  const bool lowercase = options.flag("do_lower_case", true);
  const Normalizer normalize = bert_normalizer(true, options.flag("tokenize_chinese_chars", true),
                                               options.flag("strip_accents", lowercase), lowercase);
  const std::int32_t sep = special[1].id, cls = special[3].id;
  return {.added = AddedTokens(std::move(special), normalize),
          .normalize = normalize,
          .split = bert_pre_tokenizer(),
          .subwords = make_word_piece(std::move(ids), "[UNK]", "##", 100),
          .decode = word_piece_decoder("##", true),
          .around = SentenceTemplate::bert(cls, sep),
          .file = path,
          .kind = std::string(kVocabTxt),
          .checksum = crc_of(fmt::format("{}{}", lowercase, text))};
}

constexpr std::string_view kFiles[] = {kTokenizerJson, kVocabTxt, kSentencePieceFile};

// What is in a folder, or the path itself.
std::string tokenizer_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  std::string file = tokenizer_in(path);
  if (file.empty()) {
    throw RunError(
        fmt::format("{}: has none of {}, nor Marian's {}", path, join(kFiles), join(kMarianFiles)));
  }
  return file;
}

}  // namespace

std::string tokenizer_in(const std::string& folder) {
  if (has_marian_tokenizer(folder)) return folder;
  std::error_code error;
  for (const std::string_view name : kFiles) {
    if (const fs::path file = fs::path(folder) / name; fs::exists(file, error)) return file.string();
  }
  return "";
}

std::vector<std::string> tokenizer_paths(const std::string& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  if (is_folder && has_marian_tokenizer(path)) return marian_tokenizer_paths(path);
  std::string file = is_folder ? tokenizer_in(path) : path;
  return file.empty() ? std::vector<std::string>() : std::vector{std::move(file)};
}

std::unique_ptr<PipelineTokenizer> load_pipeline_tokenizer(const std::string& path) {
  const std::string file = tokenizer_file(path);
  Pipeline parts = file.ends_with(".txt") ? read_vocab_txt(file) : read_tokenizer_json(file);
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  const std::string file = tokenizer_file(path);
  std::error_code error;
  if (fs::is_directory(file, error)) return load_marian_tokenizer(file);
  if (file.ends_with(".json") || file.ends_with(".txt")) return load_pipeline_tokenizer(file);
  return load_sentence_piece(file);
}

}  // namespace lpmm
