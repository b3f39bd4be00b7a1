#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/data/tokenizers/characters.h"
#include "lpmm/files/files.h"
#include "models/gguf/splits.h"
#include "models/gguf/token_types.h"
#include "models/gguf/tokenizer.h"

namespace lpmm {
namespace {

constexpr const char* kSpecial[] = {"bos", "eos", "unknown", "padding"};
constexpr std::string_view kTheirSpecial[] = {"bos_token", "eos_token", "unk_token", "pad_token"};

// The keys of a tokenizer, checked.
class TokenKeys {
 public:
  explicit TokenKeys(const GgufFile& file) : file_(file) {
    tokens_ = list("tokens", true, &Json::is_string);
    types_ = list("token_type", false, &Json::is_number_integer);
    scores_ = list("scores", false, &Json::is_number);
    if (!types_.empty() && types_.size() != tokens_.size())
      throw refusal("has other numbers of tokens and of their types");
    if (!scores_.empty() && scores_.size() != tokens_.size())
      throw refusal("has other numbers of tokens and of their scores");
  }
  std::size_t count() const { return tokens_.size(); }
  std::string token(std::size_t id) const { return tokens_[id].get<std::string>(); }
  std::int64_t type(std::size_t id) const {
    return types_.empty() ? std::int64_t{kNormalToken} : types_[id].get<std::int64_t>();
  }
  float score(std::size_t id) const { return scores_.empty() ? 0 : scores_[id].get<float>(); }
  bool has_scores() const { return !scores_.empty(); }
  const Json* find(const std::string& name) const {
    const auto at = file_.keys().find("tokenizer." + name);
    return at == file_.keys().end() ? nullptr : &*at;
  }
  std::string text(const std::string& name) const {
    const Json* value = find(name);
    return value != nullptr && value->is_string() ? value->get<std::string>() : "";
  }
  bool flag(const std::string& name, bool otherwise) const {
    const Json* value = find("ggml." + name);
    return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
  }
  // The id of a special token; nothing where there is none.
  std::optional<std::size_t> special(const std::string& name) const {
    const Json* value = find(fmt::format("ggml.{}_token_id", name));
    if (value == nullptr || !value->is_number_unsigned() || value->get<std::uint64_t>() >= count()) return {};
    return value->get<std::size_t>();
  }
  Json list(const std::string& name, bool must_be, bool (Json::*is)() const noexcept) const {
    const Json* value = find("ggml." + name);
    if (value == nullptr && !must_be) return Json::array();
    const bool is_good = value != nullptr && value->is_array() &&
                         std::ranges::all_of(*value, [&](const Json& one) { return (one.*is)(); });
    if (is_good) return *value;
    throw refusal(fmt::format("has no list tokenizer.ggml.{}, or one of something else", name));
  }
  RunError refusal(const std::string& what) const {
    return RunError(fmt::format("{}: {}", file_.path(), what));
  }

 private:
  const GgufFile& file_;
  Json tokens_, types_, scores_;
};

// ---- byte-level BPE --------------------------------------------------------------------------------------------
Json bpe_document(const TokenKeys& keys, const GgufSplit& split) {
  Json vocabulary = Json::object(), added = Json::array();
  Json::object_t& entries = vocabulary.get_ref<Json::object_t&>();
  for (std::size_t id = 0; id < keys.count(); ++id) {
    const std::string token = keys.token(id);
    const std::int64_t type = keys.type(id);
    if (type == kUnusedToken) continue;  // fills up the rows of the matrix
    const bool is_added = type == kControlToken || type == kUserToken;
    if (is_added) {
      added.push_back({{"id", id},
                       {"content", token},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", type == kControlToken}});
    }
    // At the end, without a search for the name: there are many, and load_tokenizer() looks for doubles.
    if (!is_added || unspelled_bytes(token)) entries.emplace_back(token, id);
  }
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", split.whole_words},
                {"vocab", std::move(vocabulary)},
                {"merges", keys.list("merges", true, &Json::is_string)}};
  const auto begin = keys.special("bos");
  Json before;
  if (begin && keys.flag("add_bos_token", split.adds_begin)) {
    const std::string name = keys.token(*begin);
    const Json single = {{"SpecialToken", {{"id", name}, {"type_id", 0}}}};
    before = {{"type", "TemplateProcessing"},
              {"single", Json::array({single, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})},
              {"pair", Json::array({single,
                                    {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                    {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}})},
              {"special_tokens",
               {{name, {{"id", name}, {"ids", Json::array({*begin})}, {"tokens", Json::array({name})}}}}}};
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", split.normalizes ? Json{{"type", "NFC"}} : Json()},
          {"pre_tokenizer", pre_tokenizer_json(split)},
          {"post_processor", std::move(before)},
          {"decoder",
           {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
          {"model", std::move(model)}};
}

// ---- SentencePiece -----------------------------------------------------------------------------------------------
// A protobuf message: https://protobuf.dev/programming-guides/encoding/
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80U);
  out += static_cast<char>(value);
}
void put_number(std::string& out, unsigned field, std::int64_t value) {
  put_varint(out, field << 3U);
  put_varint(out, static_cast<std::uint64_t>(value));
}
void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  put_varint(out, field << 3U | 2U);
  put_varint(out, bytes.size());
  out += bytes;
}
void put_float(std::string& out, unsigned field, float value) {
  put_varint(out, field << 3U | 5U);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (unsigned i = 0; i < 4; ++i) out += static_cast<char>(bits >> 8 * i);
}

// https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
std::string piece_model(const TokenKeys& keys) {
  enum Field : unsigned { kPieces = 1, kTrainer = 2, kNormalizer = 3 };
  std::string out, trainer, normalizer;
  bool has_bytes = false;
  const auto unknown = keys.special("unknown");
  for (std::size_t id = 0; id < keys.count(); ++id) {
    // Some files, Gemma's among them, name the unknown token and call it a control token.
    const std::int64_t type = unknown && id == *unknown ? std::int64_t{kUnknownToken} : keys.type(id);
    std::string piece;
    put_bytes(piece, 1, keys.token(id));
    put_float(piece, 2, keys.score(id));
    put_number(piece, 3, type);
    put_bytes(out, kPieces, piece);
    has_bytes |= type == kByteToken;
  }
  constexpr int kBpe = 2;
  put_number(trainer, 3, kBpe);
  put_number(trainer, 35, has_bytes ? 1 : 0);
  constexpr unsigned kIds[] = {41, 42, 40, 43}, kNames[] = {46, 47, 45, 48};
  for (std::size_t i = 0; i < std::size(kSpecial); ++i) {
    const auto id = keys.special(kSpecial[i]);
    put_number(trainer, kIds[i], id ? static_cast<std::int64_t>(*id) : -1);
    if (id) put_bytes(trainer, kNames[i], keys.token(*id));
  }
  put_bytes(normalizer, 1, "identity");
  put_number(normalizer, 3, keys.flag("add_space_prefix", true) ? 1 : 0);
  put_number(normalizer, 4, keys.flag("remove_extra_whitespaces", false) ? 1 : 0);
  put_number(normalizer, 5, 1);
  put_bytes(out, kTrainer, trainer);
  put_bytes(out, kNormalizer, normalizer);
  return out;
}

}  // namespace

std::string unpack_tokenizer(const GgufFile& file, const std::string& folder, Json& config) {
  namespace fs = std::filesystem;
  const auto at = [&](std::string_view name) { return (fs::path(folder) / name).string(); };
  if (const auto none = file.keys().find("tokenizer.ggml.tokens"); none == file.keys().end())
    return "it has no tokenizer";
  const TokenKeys keys(file);
  const std::string model = keys.text("ggml.model"), pre = keys.text("ggml.pre");
  Json settings = {{"clean_up_tokenization_spaces", false}};
  for (std::size_t i = 0; i < std::size(kSpecial); ++i) {
    const auto id = keys.special(kSpecial[i]);
    if (!id) continue;
    settings[std::string(kTheirSpecial[i])] = keys.token(*id);
    if (i != 2) config[fmt::format("{}_id", kTheirSpecial[i])] = *id;
  }
  if (const std::string template_text = keys.text("chat_template"); !template_text.empty())
    write_text(at("chat_template.jinja"), template_text);
  if (model == "gpt2") {
    const GgufSplit* split = find_split(pre.empty() ? "gpt-2" : pre);
    if (split == nullptr)
      return fmt::format(
          "its tokenizer splits words as \"{}\" does, which is not here: give the model's own "
          "tokenizer.json with --vocab",
          printable(pre));
    settings["tokenizer_class"] = "PreTrainedTokenizerFast";
    write_text(at(kTokenizerJson), bpe_document(keys, *split).dump());
  } else if (model == "llama" && keys.has_scores()) {
    settings["tokenizer_class"] =
        config.value("model_type", "") == "gemma3_text" ? "GemmaTokenizer" : "LlamaTokenizer";
    settings["add_bos_token"] = keys.flag("add_bos_token", true);
    settings["add_eos_token"] = keys.flag("add_eos_token", false);
    settings["legacy"] = false;
    write_text(at(kSentencePieceFile), piece_model(keys));
  } else {
    return fmt::format(
        "its tokenizer is of the kind \"{}\", which is not read from a GGUF: give the model's own "
        "with --vocab",
        printable(model));
  }
  write_text(at("tokenizer_config.json"), settings.dump(2) + "\n");
  return "";
}

}  // namespace lpmm
