#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/data/tokenizers/characters.h"
#include "lpmm/data/utf8.h"
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
    for (const Json& type : types_) {
      if (type < int{kNormalToken} || type > int{kByteToken}) {
        throw refusal(fmt::format("tokenizer.ggml.token_type has {}, expected {} to {}", type.dump(),
                                  int{kNormalToken}, int{kByteToken}));
      }
    }
  }
  std::size_t count() const { return tokens_.size(); }
  std::string token(std::size_t id) const { return tokens_[id].get<std::string>(); }
  std::int64_t type(std::size_t id) const {
    return types_.empty() ? std::int64_t{kNormalToken} : types_[id].get<std::int64_t>();
  }
  // Unused tokens behind all others fill up the rows of the matrix; those before keep their places.
  std::size_t used() const {
    std::size_t end = count();
    const auto is_named = [&](std::size_t id) {
      return std::ranges::any_of(kSpecial, [&](const char* name) { return special(name) == id; });
    };
    while (end > 0 && type(end - 1) == kUnusedToken && !is_named(end - 1)) --end;
    return end;
  }
  float score(std::size_t id) const { return scores_.empty() ? 0 : scores_[id].get<float>(); }
  bool has_scores() const { return !scores_.empty(); }
  const Json* find(const std::string& name) const {
    const auto at = file_.keys().find("tokenizer." + name);
    return at == file_.keys().end() ? nullptr : &*at;
  }
  const Json* find_of(const std::string& name, bool (Json::*is)() const noexcept, const char* what) const {
    const Json* value = find(name);
    if (value == nullptr || (value->*is)()) return value;
    throw refusal(fmt::format(
        "tokenizer.{} is {}, expected {}", name,
        printable(value->dump(-1, ' ', false, Json::error_handler_t::replace)).substr(0, 80), what));
  }
  std::string text(const std::string& name) const {
    const Json* value = find_of(name, &Json::is_string, "a text");
    return value == nullptr ? "" : value->get<std::string>();
  }
  bool flag(const std::string& name, bool otherwise) const {
    const Json* value = find_of("ggml." + name, &Json::is_boolean, "true or false");
    return value == nullptr ? otherwise : value->get<bool>();
  }
  // The id of a special token; nothing where there is none, which a number that is no token's says too.
  std::optional<std::size_t> special(const std::string& name) const {
    const Json* value = find_of(fmt::format("ggml.{}_token_id", name), &Json::is_number_integer, "a number");
    if (value == nullptr || *value < 0 || *value >= count()) return {};
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

// ---- tokenizer.json --------------------------------------------------------------------------------------------
Json added_token(std::size_t id, const std::string& token, bool is_special) {
  return {{"id", id},        {"content", token},    {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", is_special}};
}

// Special tokens that stand before and behind every text.
Json special_frame(const TokenKeys& keys, bool adds_begin, bool adds_end) {
  Json single = Json::array(), special = Json::object();
  const auto put = [&](const std::optional<std::size_t>& id) {
    const std::string name = keys.token(*id);
    single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
    special[name] = {{"id", name}, {"ids", Json::array({*id})}, {"tokens", Json::array({name})}};
  };
  const auto begin = keys.special("bos"), end = keys.special("eos");
  if (begin && adds_begin) put(begin);
  Json pair = single;
  const Json first = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  single.push_back(first);
  if (end && adds_end) put(end);
  if (special.empty()) return {};
  pair.push_back(first);
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  if (end && adds_end) pair.push_back(single.back());
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

Json whole_document(Json added, Json normalizer, Json pre_tokenizer, Json frame, Json decoder, Json model) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", std::move(frame)},
          {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

Json bpe_model(Json unknown, bool has_bytes, bool whole_words, Json vocabulary, Json merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"fuse_unk", !unknown.is_null()},
          {"unk_token", std::move(unknown)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"byte_fallback", has_bytes},
          {"ignore_merges", whole_words},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

// Byte-level BPE.
Json bytes_document(const TokenKeys& keys, const GgufSplit& split) {
  const std::size_t used = keys.used();
  Json vocabulary = Json::object(), added = Json::array();
  Json::object_t& entries = vocabulary.get_ref<Json::object_t&>();
  for (std::size_t id = 0; id < used; ++id) {
    const std::string token = keys.token(id);
    const std::int64_t type = keys.type(id);
    const bool is_added =
        type == kControlToken || type == kUserToken || (type == kUnusedToken && !unspelled_bytes(token));
    if (is_added) added.push_back(added_token(id, token, type == kControlToken));
    // At the end, without a search for the name: there are many, and load_tokenizer() looks for doubles.
    if (!is_added || unspelled_bytes(token)) entries.emplace_back(token, id);
  }
  return whole_document(
      std::move(added), split.normalizes ? Json{{"type", "NFC"}} : Json(), pre_tokenizer_json(split),
      special_frame(keys, keys.flag("add_bos_token", split.adds_begin), keys.flag("add_eos_token", false)),
      {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}},
      bpe_model(nullptr, false, split.whole_words, std::move(vocabulary),
                keys.list("merges", true, &Json::is_string)));
}

// The pairs that make each piece. SentencePiece joins the two parts whose whole has the highest score, so a
// merge has the rank of its whole.
Json merges_of_pieces(const TokenKeys& keys, const std::vector<std::size_t>& pieces) {
  constexpr std::size_t kLongest = 1000;  // bytes: all its cuts are tried
  std::unordered_set<std::string> known;
  for (const std::size_t id : pieces) {
    if (keys.token(id).size() > kLongest)
      throw keys.refusal(fmt::format("has a token of more than {} bytes", kLongest));
    known.insert(keys.token(id));
  }
  std::vector<std::size_t> order = pieces;
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t id) { return keys.score(id); });
  constexpr std::size_t kMost = 48 << 20;  // bytes of all merges; a tokenizer.json may have 64
  std::size_t bytes = 0;
  Json merges = Json::array();
  for (const std::size_t id : order) {
    const std::string whole = keys.token(id);
    for (std::size_t cut = first_character(whole).bytes; cut < whole.size();
         cut += first_character(std::string_view(whole).substr(cut)).bytes) {
      std::string left = whole.substr(0, cut), right = whole.substr(cut);
      if (!known.contains(left) || !known.contains(right)) continue;
      bytes += whole.size();
      if (bytes > kMost) throw keys.refusal("has tokens that can be joined in too many ways");
      merges.push_back(Json::array({std::move(left), std::move(right)}));
    }
  }
  return merges;
}

// SentencePiece's BPE, as llama.cpp runs it.
Json pieces_document(const TokenKeys& keys) {
  constexpr std::string_view kSpace = "\u2581";
  const auto unknown = keys.special("unknown");
  const std::size_t used = keys.used();
  Json vocabulary = Json::object(), added = Json::array(), unknown_name;
  Json::object_t& entries = vocabulary.get_ref<Json::object_t&>();
  std::vector<std::size_t> pieces;
  bool has_bytes = false;
  for (std::size_t id = 0; id < used; ++id) {
    const std::string token = keys.token(id);
    // Some files, Gemma's among them, name the unknown token and call it a control token.
    const std::int64_t type = unknown && id == *unknown ? std::int64_t{kUnknownToken} : keys.type(id);
    if (token.empty()) continue;
    if (type == kUnknownToken) unknown_name = token;
    has_bytes |= type == kByteToken;
    if (type == kNormalToken || type == kUserToken) pieces.push_back(id);
    if (type != kNormalToken && type != kByteToken && type != kUnusedToken)
      added.push_back(added_token(id, token, type != kUserToken));
    entries.emplace_back(token, id);
  }
  Json spell = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
  Json decoders = Json::array({{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                               {{"type", "ByteFallback"}},
                               {{"type", "Fuse"}}});
  if (keys.flag("add_space_prefix", true)) {
    spell = {{"type", "Sequence"},
             {"normalizers", Json::array({{{"type", "Prepend"}, {"prepend", kSpace}}, std::move(spell)})}};
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return whole_document(
      std::move(added), std::move(spell), nullptr,
      special_frame(keys, keys.flag("add_bos_token", true), keys.flag("add_eos_token", false)),
      {{"type", "Sequence"}, {"decoders", std::move(decoders)}},
      bpe_model(std::move(unknown_name), has_bytes, false, std::move(vocabulary),
                merges_of_pieces(keys, pieces)));
}

// What stands in the way of a tokenizer of a GGUF.
struct NoTokenizer {
  std::string why;
};

Json document_of(const TokenKeys& keys) {
  const std::string model = keys.text("ggml.model"), pre = keys.text("ggml.pre");
  if (model == "llama" && keys.has_scores()) return pieces_document(keys);
  if (model != "gpt2") {
    throw NoTokenizer{
        fmt::format("its tokenizer is of the kind \"{}\", which is not read from a GGUF: give the model's "
                    "own with --vocab",
                    printable(model))};
  }
  if (const GgufSplit* split = find_split(pre.empty() ? "gpt-2" : pre); split != nullptr)
    return bytes_document(keys, *split);
  throw NoTokenizer{
      fmt::format("its tokenizer splits words as \"{}\" does, which is not here: give the model's own "
                  "tokenizer.json with --vocab",
                  printable(pre))};
}

}  // namespace

std::string unpack_tokenizer(const GgufFile& file, const std::string& folder, Json& config) {
  namespace fs = std::filesystem;
  const auto at = [&](std::string_view name) { return (fs::path(folder) / name).string(); };
  if (const auto none = file.keys().find("tokenizer.ggml.tokens"); none == file.keys().end())
    return "it has no tokenizer";
  const TokenKeys keys(file);
  Json settings = {{"clean_up_tokenization_spaces", false}};
  for (std::size_t i = 0; i < std::size(kSpecial); ++i) {
    const auto id = keys.special(kSpecial[i]);
    if (!id) continue;
    settings[std::string(kTheirSpecial[i])] = keys.token(*id);
    if (i != 2) config[fmt::format("{}_id", kTheirSpecial[i])] = *id;
  }
  if (const std::string template_text = keys.text("chat_template"); !template_text.empty())
    write_text(at("chat_template.jinja"), template_text);
  Json document;
  try {
    document = document_of(keys);
  } catch (const NoTokenizer& none) {
    return none.why;
  }
  settings["tokenizer_class"] = "PreTrainedTokenizerFast";
  write_text(at(kTokenizerJson), document.dump());
  write_text(at("tokenizer_config.json"), settings.dump(2) + "\n");
  return "";
}

}  // namespace lpmm
