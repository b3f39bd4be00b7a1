// Files of published tokenizers: tokenizer.json, vocab.txt, vocab.json with merges.txt.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/gpt2_files.h"
#include "lpmm/data/pairs/marian_tokenizer.h"
#include "lpmm/data/tokenizers/beside.h"
#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/tokenizers/pipeline.h"
#include "lpmm/data/tokenizers/sentence_piece/fairseq.h"
#include "lpmm/data/tokenizers/sentence_piece/sentence_piece.h"
#include "lpmm/data/tokenizers/sentence_piece/with_added.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;  // not ordered: its search for a name is linear

// The stages of a tokenizer.json, or of a document like one.
Pipeline read_document(const json& document, const std::string& path, std::string_view kind) {
  const Part file(document, path, "");
  const Normalizer normalize = make_normalizer(file);
  auto subwords = make_subwords(file);
  const TokensBeside beside(path);
  std::vector<AddedToken> added = read_added_tokens(file);
  const std::string more = beside.complete(subwords->tokens(), added);
  const auto end = beside.end_of_text(added);
  Pipeline parts{AddedTokens(std::move(added), normalize),
                 normalize,
                 make_pre_tokenizer(file),
                 std::move(subwords),
                 make_decoder(file),
                 SentenceTemplate(file)};
  parts.file = path;
  parts.kind = kind;
  // The checksum ignores the JSON's spelling, as members are sorted. The parser has refused invalid UTF-8.
  parts.checksum = crc32(document.dump() + more);
  parts.end_of_text = end;
  return parts;
}

// The merges of a merges.txt.
json merges_of(const std::string& path) {
  constexpr std::uint64_t kMost = 64 << 20;
  const std::string text = read_text(path, kMost);
  json merges = json::array();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    if (first_bad_byte(line) != std::string::npos) throw RunError(fmt::format("{}: is no UTF-8", path));
    if (!line.empty() && !(at == 0 && line.starts_with("#version"))) merges.push_back(std::move(line));
    at = end + 1;
  }
  return merges;
}

// Throws where the two lost merges: every token is a byte, merged, special by its form, or added.
void check_merges(const Pipeline& parts, const json& merges, const std::string& path) {
  std::unordered_set<std::string> made;
  for (const json& merge : merges) {
    std::string whole = merge.get<std::string>();
    std::erase(whole, ' ');
    made.insert(std::move(whole));
  }
  for (const AddedToken& token : parts.added.all()) made.insert(token.text);
  for (const auto& [token, id] : parts.subwords->tokens()) {
    const bool is_form =
        (token.starts_with('<') && token.ends_with('>')) || (token.starts_with('[') && token.ends_with(']'));
    if (is_form || made.contains(token) || first_character(token).bytes == token.size()) continue;
    throw RunError(
        fmt::format("{}: no merge gives the token {} (id {}) of {}: the file is cut off, or the two do "
                    "not belong together",
                    path, shown(token), id, kHuggingFaceTokens));
  }
}

// Returns the model_type in the config.json of a folder; empty: there is none.
std::string model_type_in(const fs::path& folder) {
  std::error_code error;
  const fs::path config = folder / "config.json";
  if (!fs::exists(config, error)) return "";
  const json model = read_sorted_json(config.string());
  return Part(model, config.string(), "").text("model_type", "");
}

bool is_roberta(const fs::path& folder, const Part& settings) {
  return settings.text("tokenizer_class", "").starts_with("Roberta") || model_type_in(folder) == "roberta";
}
bool is_mpnet(const fs::path& folder, const Part& settings) {
  return settings.text("tokenizer_class", "").starts_with("MPNet") || model_type_in(folder) == "mpnet";
}

// What RoBERTa puts around sentences.
json roberta_processing(const json& cls, const json& sep) {
  return {{"type", "RobertaProcessing"}, {"cls", {"<s>", cls}}, {"sep", {"</s>", sep}}};
}

// Returns true if vocab.json and merges.txt are of a tokenizer that splits texts as GPT-2's does: others, as
// Qwen's, have the same files.
bool splits_as_gpt2(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / kHuggingFaceMerges, error)) return false;
  const TokensBeside beside((folder / kHuggingFaceTokens).string());
  const std::string made_by = beside.settings().text("tokenizer_class", ""), type = model_type_in(folder);
  const bool is_known_class =
      made_by.empty() || made_by.starts_with("GPT2") || made_by.starts_with("Roberta");
  return is_known_class && (type.empty() || type == "gpt2" || type == "roberta");
}

// vocab.json with merges.txt beside: BPE of bytes, as GPT-2 has it, or RoBERTa, which puts tokens around.
Pipeline read_vocab_json(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const std::string merges_path = (folder / kHuggingFaceMerges).string();
  const json vocabulary = read_sorted_json(path), merges = merges_of(merges_path);
  const TokensBeside beside(path);
  const Part& settings = beside.settings();
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", settings.flag("add_prefix_space", false)}};
  json document = {{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}},
                   {"pre_tokenizer", bytes},
                   {"decoder", {{"type", "ByteLevel"}}}};
  std::vector<const char*> special = {kEndOfText.data()};
  if (is_roberta(folder, settings)) {
    special = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
    for (const char* name : special) {
      if (!vocabulary.is_object() || !vocabulary.contains(name))
        throw RunError(fmt::format("{}: has no token {}, as RoBERTa's has", path, name));
    }
    document["post_processor"] = roberta_processing(vocabulary["<s>"], vocabulary["</s>"]);
  }
  const std::vector<AddedToken> named = beside.added();
  for (const std::string name : special) {
    const bool is_named = std::ranges::find(named, name, &AddedToken::text) != named.end();
    if (is_named || !vocabulary.is_object() || !vocabulary.contains(name)) continue;
    document["added_tokens"].push_back({{"id", vocabulary[name]}, {"content", name}, {"special", true}});
  }
  Pipeline parts = read_document(document, path, kHuggingFaceTokens);
  check_merges(parts, merges, merges_path);
  return parts;
}

// A token a line; its number, from 0 on, is its id.
TokenIds ids_of_lines(const std::string& path, const std::string& text) {
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
  return ids;
}

// BERT's file, and MPNet's, which has RoBERTa's names.
Pipeline read_vocab_txt(const std::string& path) {
  constexpr std::uint64_t kMost = 64 << 20;
  const std::string text = read_text(path, kMost);
  TokenIds ids = ids_of_lines(path, text);
  const TokensBeside beside(path);
  const bool has_mpnet = is_mpnet(fs::path(path).parent_path(), beside.settings());
  struct Name {
    const char *key, *usual, *of_mpnet;
  };
  std::vector<AddedToken> special;
  for (const Name& row : {Name{"unk_token", "[UNK]", "[UNK]"},
                          {"sep_token", "[SEP]", "</s>"},
                          {"pad_token", "[PAD]", "<pad>"},
                          {"cls_token", "[CLS]", "<s>"},
                          {"mask_token", "[MASK]", "<mask>"}}) {
    const std::string named = beside.name(row.key),
                      name = named.empty() ? (has_mpnet ? row.of_mpnet : row.usual) : named;
    const auto found = ids.find(name);
    if (found == ids.end()) {
      throw RunError(
          fmt::format("{}: has no token {}, as {}'s has", path, shown(name), has_mpnet ? "MPNet" : "BERT"));
    }
    AddedToken token{found->second, name, true};
    token.normalized = false;
    special.push_back(token);
  }
  const std::string unknown = special[0].text;
  const std::int32_t sep = special[1].id, cls = special[3].id;
  const std::string more = beside.complete(ids, special);
  const auto number = [](std::int32_t id) { return static_cast<std::uint32_t>(id); };
  const json processing = {{"post_processor", roberta_processing(number(cls), number(sep))}};
  const SentenceTemplate around =
      has_mpnet ? SentenceTemplate(Part(processing, path, "")) : SentenceTemplate::bert(cls, sep);
  const Part& options = beside.settings();
  const bool lowercase = options.flag("do_lower_case", true);
  const Normalizer normalize = bert_normalizer(true, options.flag("tokenize_chinese_chars", true),
                                               options.flag("strip_accents", lowercase), lowercase);
  return {.added = AddedTokens(std::move(special), normalize),
          .normalize = normalize,
          .split = bert_pre_tokenizer(),
          .subwords = make_word_piece(std::move(ids), unknown, "##", 100),
          .decode = word_piece_decoder("##", true),
          .around = around,
          .file = path,
          .kind = std::string(kVocabTxt),
          .checksum = crc32(fmt::format("{}{}{}", lowercase, text, more))};
}

// If a folder has several of these files, the first in this order is taken.
constexpr std::string_view kFiles[] = {kTokenizerJson, kVocabTxt, kHuggingFaceTokens, kFairseqFile,
                                       kSentencePieceFile};

bool is_fairseq(const std::string& file) {
  return fs::path(file).filename() == kFairseqFile;
}

Pipeline read_fairseq(const std::string& path) {
  const TokensBeside beside(path);
  const bool is_camembert = beside.settings().text("tokenizer_class", "").starts_with("Camembert") ||
                            model_type_in(fs::path(path).parent_path()) == "camembert";
  return read_document(fairseq_document(path, is_camembert), path, kFairseqFile);
}

bool is_vocab_json(const std::string& file) {
  return fs::path(file).filename() == kHuggingFaceTokens;
}

// Returns the tokenizer's file in a folder, or the path itself if it is a file.
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
    const fs::path file = fs::path(folder) / name;
    if (!fs::exists(file, error) || (name == kHuggingFaceTokens && !splits_as_gpt2(folder))) continue;
    return file.string();
  }
  return "";
}

bool is_plain_gpt2(const std::string& folder) {
  std::error_code error;
  const fs::path tokens = fs::path(folder) / kHuggingFaceTokens, whole = fs::path(folder) / kTokenizerJson;
  if (!fs::exists(tokens, error) || fs::exists(fs::path(folder) / kGpt2Tokens, error)) return true;
  std::vector<AddedToken> added;
  const TokensBeside beside(tokens.string());
  if (beside.settings().flag("add_prefix_space", false)) return false;
  beside.complete({}, added);
  if (fs::exists(whole, error)) {
    const json document = read_sorted_json(whole.string());
    for (AddedToken& token : read_added_tokens(Part(document, whole.string(), ""))) {
      added.push_back(std::move(token));
    }
  }
  if (!std::ranges::all_of(added, [](const AddedToken& t) { return t.text == kEndOfText; })) return false;
  const json listed = read_sorted_json(tokens.string());
  return std::ranges::none_of(listed.items(), [](const auto& item) {
    const std::string& token = item.key();
    return token.size() > 2 && token.starts_with('<') && token.ends_with('>') && token != kEndOfText;
  });
}

std::vector<std::string> tokenizer_paths(const std::string& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  if (is_folder && has_marian_tokenizer(path)) return marian_tokenizer_paths(path);
  const std::string file = is_folder ? tokenizer_in(path) : path;
  if (file.empty()) return {};
  std::vector<std::string> paths = {file};
  if (is_vocab_json(file)) paths.push_back((fs::path(file).parent_path() / kHuggingFaceMerges).string());
  return paths;
}

std::string standard_tokenizer_name(std::string_view kind, const std::string& file) {
  if (kind == kSentencePiece) return std::string(kSentencePieceFile);
  return kind == kTokenizerJson || kind == kVocabTxt ? std::string(kind) : fs::path(file).filename().string();
}

void copy_tokenizer(const std::string& path, std::string_view kind, const std::string& folder) {
  constexpr std::uint64_t kMost = 64 << 20;
  make_folder(folder);
  const auto copy = [&](const fs::path& from, const std::string& name) {
    write_text((fs::path(folder) / name).string(), read_text(from.string(), kMost));
  };
  std::vector<const char*> names(std::begin(kFilesBeside), std::end(kFilesBeside));
  names.push_back("config.json");  // says which model a vocab.txt is for
  for (const fs::path file : tokenizer_paths(path)) {
    copy(file, standard_tokenizer_name(kind, file));
    std::error_code error;
    for (const char* name : names) {
      if (const fs::path beside = file.parent_path() / name; fs::exists(beside, error)) copy(beside, name);
    }
  }
}

std::unique_ptr<PipelineTokenizer> load_pipeline_tokenizer(const std::string& path) {
  const std::string file = tokenizer_file(path);
  Pipeline parts = file.ends_with(".txt") ? read_vocab_txt(file)
                   : is_vocab_json(file)  ? read_vocab_json(file)
                   : is_fairseq(file)     ? read_fairseq(file)
                                          : read_document(read_sorted_json(file), file, kTokenizerJson);
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path, SentencePieceAge age) {
  const std::string file = tokenizer_file(path);
  std::error_code error;
  if (fs::is_directory(file, error)) return load_marian_tokenizer(file);
  const bool is_pipeline = file.ends_with(".json") || file.ends_with(".txt") || is_fairseq(file);
  if (is_pipeline) return load_pipeline_tokenizer(file);
  const TokensBeside beside(file);
  const bool of_old = age == SentencePieceAge::kSpaced,
             is_spaced = of_old || beside.settings().flag("add_prefix_space", true),
             is_first = is_spaced && !of_old && !beside.settings().flag("legacy", true);
  return with_added_tokens(load_sentence_piece(file, is_spaced),
                           is_first ? load_sentence_piece(file, false) : nullptr, file, age);
}

}  // namespace lpmm
