#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "lpmm/base/error.h"
#include "lpmm/data/conversations/chat_templates.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/data/tokenizers/sentence_piece/message.h"
#include "lpmm/files/files.h"
#include "models/gguf/splits.h"
#include "models/gguf/token_types.h"
#include "models/gguf/tokenizer.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kLongest = 64 << 20;

// A tokenizer in the form in which a GGUF lists it.
struct Tokens {
  std::vector<std::string> texts;
  std::vector<int> types;
  std::vector<float> scores;  // of pieces; empty: there are merges
  std::vector<std::string> merges;
  std::string_view split;  // tokenizer.ggml.pre; empty: pieces
  bool adds_begin = false, adds_space = false;
  std::string refused;  // why this is none that llama.cpp has; empty: it is one

  void set(std::size_t id, std::string text, int type) {
    if (id >= texts.size()) {
      texts.resize(id + 1);
      types.resize(id + 1, kUnusedToken);
      if (merges.empty()) scores.resize(id + 1);
    }
    texts[id] = std::move(text);
    types[id] = type;
  }
};

Json object_in(const fs::path& file) {
  std::error_code error;
  return fs::exists(file, error) ? read_json(file.string(), kLongest) : Json::object();
}

// Tokens that are taken out of a text: [{"id", "content", "special"}].
void set_added(const Json& list, std::int64_t vocabulary, Tokens& tokens) {
  if (!list.is_array()) return;
  for (const Json& one : list) {
    const auto id = one.value("id", std::int64_t{-1});
    if (id < 0 || id >= vocabulary) continue;  // the model has no row for it
    tokens.set(static_cast<std::size_t>(id), one.value("content", ""),
               one.value("special", false) ? kControlToken : kUserToken);
  }
}

bool begins_with_special(const Json& processor) {
  if (!processor.is_object()) return false;
  if (processor.value("type", "") == "Sequence") {
    const Json inner = processor.value("processors", Json::array());
    return std::ranges::any_of(inner, begins_with_special);
  }
  const Json single = processor.value("single", Json::array());
  return !single.empty() && single[0].contains("SpecialToken");
}

std::string merge_text(const Json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  return fmt::format("{} {}", merge.at(0).get<std::string>(), merge.at(1).get<std::string>());
}

// Pieces that are joined in the order of a list of merges are those that are joined by their scores, where a
// piece has the rank of the first merge that makes it.
void set_scores(const Json& merges, const std::unordered_map<std::string, std::size_t>& ids, Tokens& tokens) {
  float rank = 0;
  std::vector<bool> is_set(tokens.texts.size());
  for (const Json& merge : merges) {
    std::string text = merge_text(merge);
    text.erase(text.find(' '), 1);
    const auto at = ids.find(text);
    rank -= 1;
    if (at == ids.end() || is_set[at->second]) continue;
    is_set[at->second] = true;
    tokens.scores[at->second] = rank;
  }
}

bool puts_space_before(const Json& document) {
  const auto says = [](const Json& stage, auto&& self) -> bool {
    if (!stage.is_object()) return false;
    for (const char* list : {"normalizers", "pretokenizers"}) {
      for (const Json& inner : stage.value(list, Json::array())) {
        if (self(inner, self)) return true;
      }
    }
    const std::string type = stage.value("type", "");
    return type == "Prepend" || (type == "Metaspace" && stage.value("prepend_scheme", "always") != "never");
  };
  return says(document.value("normalizer", Json()), says) ||
         says(document.value("pre_tokenizer", Json()), says);
}

// tokenizer.json, with BPE of bytes or of pieces.
Tokens from_document(const Json& document, std::int64_t vocabulary) {
  Tokens tokens;
  const Json& model = document.at("model");
  if (model.value("type", "") != "BPE") {
    tokens.refused =
        fmt::format("its tokenizer is a {}, and llama.cpp's Llamas have BPE", model.value("type", ""));
    return tokens;
  }
  const bool has_pieces = model.value("byte_fallback", false);
  const GgufSplit* split = has_pieces ? nullptr : split_of(document);
  if (!has_pieces && split == nullptr) {
    tokens.refused = "its tokenizer splits words in a way that llama.cpp has no name for";
    return tokens;
  }
  std::unordered_map<std::string, std::size_t> ids;
  const std::string unknown = model.value("unk_token", Json()).is_string() ? model["unk_token"] : Json("");
  for (const auto& [text, id] : model.at("vocab").items()) {
    const auto at = id.get<std::size_t>();
    if (std::cmp_greater_equal(at, vocabulary)) continue;
    const bool is_byte = has_pieces && text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
    tokens.set(at, text, is_byte ? kByteToken : has_pieces && text == unknown ? kUnknownToken : kNormalToken);
    ids.emplace(text, at);
  }
  const Json added = document.value("added_tokens", Json::array());
  if (has_pieces) {
    set_scores(model.at("merges"), ids, tokens);
    tokens.adds_space = puts_space_before(document);
  } else {
    tokens.scores.clear();
    for (const Json& merge : model.at("merges")) tokens.merges.push_back(merge_text(merge));
    tokens.split = split->names.substr(0, split->names.find(' '));
  }
  for (const Json& one : added) {
    if (has_pieces && one.value("content", "") == unknown) continue;
    set_added(Json::array({one}), vocabulary, tokens);
  }
  tokens.adds_begin = begins_with_special(document.value("post_processor", Json()));
  return tokens;
}

// A SentencePiece model.
Tokens from_pieces(const std::string& path, std::int64_t vocabulary) {
  Tokens tokens;
  const std::string file = read_text(path, kLongest);
  std::vector<std::string_view> trainer, normalizer;
  enum Field : std::uint32_t { kTrainer = 2, kNormalizer = 3 };
  find_fields(file, kTrainer, FieldKind::kBytes, trainer);
  find_fields(file, kNormalizer, FieldKind::kBytes, normalizer);
  constexpr std::int64_t kBpe = 2;
  if (trainer.empty() || find_number(trainer[0], 3).value_or(1) != kBpe) {
    tokens.refused = "its SentencePiece model is a unigram, and llama.cpp's Llamas have BPE";
    return tokens;
  }
  const std::vector<Piece> pieces = read_pieces(file, path);
  for (std::size_t id = 0; id < std::min(pieces.size(), static_cast<std::size_t>(vocabulary)); ++id) {
    tokens.set(id, std::string(pieces[id].text), static_cast<int>(pieces[id].type));
    tokens.scores[id] = pieces[id].score;
  }
  tokens.adds_space = normalizer.empty() || find_number(normalizer[0], 3).value_or(1) != 0;
  return tokens;
}

// GPT-2's two files.
Tokens from_gpt2(const fs::path& folder, std::int64_t vocabulary) {
  Tokens tokens;
  const Json vocabulary_file = object_in(folder / kHuggingFaceTokens);
  for (const auto& [text, id] : vocabulary_file.items()) {
    const auto at = id.get<std::int64_t>();
    if (at < 0 || at >= vocabulary) continue;
    tokens.set(static_cast<std::size_t>(at), text, text == "<|endoftext|>" ? kControlToken : kNormalToken);
  }
  tokens.scores.clear();
  const std::string merges = read_text((folder / kHuggingFaceMerges).string(), kLongest);
  for (std::size_t at = 0; at < merges.size();) {
    const std::size_t end = std::min(merges.find('\n', at), merges.size());
    const std::string_view line = std::string_view(merges).substr(at, end - at);
    if (!line.empty() && !line.starts_with("#version")) tokens.merges.emplace_back(line);
    at = end + 1;
  }
  tokens.split = "gpt-2";
  return tokens;
}

Tokens tokens_in(const fs::path& folder, const Json& settings, std::int64_t vocabulary) {
  std::error_code error;
  Tokens tokens;
  if (fs::exists(folder / kTokenizerJson, error)) {
    tokens = from_document(object_in(folder / kTokenizerJson), vocabulary);
  } else if (fs::exists(folder / kSentencePieceFile, error)) {
    tokens = from_pieces((folder / kSentencePieceFile).string(), vocabulary);
    tokens.adds_begin = settings.value("add_bos_token", true);
    if (settings.value("add_prefix_space", Json()) == false) tokens.adds_space = false;
  } else if (fs::exists(folder / kHuggingFaceTokens, error)) {
    tokens = from_gpt2(folder, vocabulary);
  } else {
    tokens.refused = "there is no tokenizer of another program's form beside the model";
  }
  if (!tokens.refused.empty()) return tokens;
  Json added = Json::array();
  const Json listed = settings.value("added_tokens_decoder", Json::object());
  for (const auto& [id, one] : listed.items()) {
    Json with_id = one;
    with_id["id"] = std::stoll(id);
    const auto at = with_id["id"].get<std::size_t>();
    const bool is_there = at < tokens.texts.size() && tokens.types[at] != kUnusedToken;
    if (!is_there) added.push_back(std::move(with_id));
  }
  set_added(added, vocabulary, tokens);
  for (std::size_t id = 0; id < static_cast<std::size_t>(vocabulary); ++id) {
    if (id >= tokens.texts.size() || tokens.types[id] == kUnusedToken)
      tokens.set(id, fmt::format("[PAD{}]", id), kUnusedToken);
  }
  return tokens;
}

// The id of a special token: as its name says, else as config.json does.
std::optional<std::int64_t> special_id(const char* key, const Json& settings, const Json& config,
                                       const Tokens& tokens) {
  const Json said = settings.value(key, Json());
  const std::string name = said.is_string()   ? said.get<std::string>()
                           : said.is_object() ? said.value("content", "")
                                              : "";
  const auto at = std::ranges::find(tokens.texts, name);
  if (!name.empty() && at != tokens.texts.end()) return at - tokens.texts.begin();
  const Json id = config.value(fmt::format("{}_id", key), Json());
  const Json& first = id.is_array() && !id.empty() ? id[0] : id;
  if (!first.is_number_integer()) return {};
  const auto number = first.get<std::int64_t>();
  if (number < 0 || number >= std::ssize(tokens.texts)) return {};
  return number;
}

}  // namespace

std::string add_tokenizer(const std::string& folder, std::int64_t vocabulary, Json& keys) {
  const fs::path in = folder;
  const Json settings = object_in(in / "tokenizer_config.json"), config = object_in(in / "config.json");
  const auto put = [&](const char* key, Json value) {
    keys[fmt::format("tokenizer.{}", key)] = std::move(value);
  };
  for (const TemplateText& one : template_texts(folder)) {
    if (!one.is_for_tools && !one.text.empty()) put("chat_template", one.text);
  }
  const Tokens tokens = tokens_in(in, settings, vocabulary);
  if (!tokens.refused.empty()) {
    put("ggml.model", "no_vocab");
    return tokens.refused;
  }
  const bool has_pieces = tokens.split.empty();
  put("ggml.model", has_pieces ? "llama" : "gpt2");
  put("ggml.pre", has_pieces ? std::string_view("default") : tokens.split);
  put("ggml.tokens", tokens.texts);
  if (has_pieces) put("ggml.scores", tokens.scores);
  put("ggml.token_type", tokens.types);
  if (!has_pieces) put("ggml.merges", tokens.merges);
  constexpr std::pair<const char*, const char*> kSpecial[] = {
      {"bos", "bos_token"}, {"eos", "eos_token"}, {"unknown", "unk_token"}, {"padding", "pad_token"}};
  for (const auto& [ours, theirs] : kSpecial) {
    if (const auto id = special_id(theirs, settings, config, tokens))
      put(fmt::format("ggml.{}_token_id", ours).c_str(), *id);
  }
  put("ggml.add_bos_token", tokens.adds_begin);
  if (has_pieces) put("ggml.add_space_prefix", tokens.adds_space);
  return "";
}

}  // namespace lpmm
