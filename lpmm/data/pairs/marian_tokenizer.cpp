#include "lpmm/data/pairs/marian_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/data/tokenizers/added_tokens.h"
#include "lpmm/data/tokenizers/characters.h"
#include "lpmm/data/tokenizers/cuts.h"
#include "lpmm/data/tokenizers/decoder.h"
#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/tokenizers/sentence_piece/sentence_piece.h"
#include "lpmm/data/tokenizers/subwords.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

using SortedJson = nlohmann::json;

// Beside the three; the second is older transformers'.
constexpr const char *kMarianConfig = "tokenizer_config.json", *kMarianSpecial = "special_tokens_map.json";
constexpr const char* kMarianAdded = "added_tokens_decoder";

struct Marian {
  std::unique_ptr<SentencePieces> source, target;
  TokenIds ids;
  AddedTokens added;
  std::int32_t unknown, end, pad;
  bool cleans;
  std::uint32_t checksum;
};

bool is_there(const std::string& folder, std::string_view name) {
  std::error_code error;
  return fs::exists(fs::path(folder) / name, error);
}

std::string path_in(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / name).string();
}

// The configuration in the files beside; an empty object where there are none.
SortedJson read_marian_config(const std::string& folder) {
  SortedJson config = SortedJson::object();
  const auto add = [&](const char* name) {
    if (!is_there(folder, name)) return;
    const std::string path = path_in(folder, name);
    const SortedJson read = read_sorted_json(path);
    config.update(Part(read, path, "").json());
  };
  add(kMarianConfig);
  if (config.contains(kMarianAdded)) return config;  // which has it all
  add(kMarianSpecial);
  if (is_there(folder, "added_tokens.json")) {
    throw RunError(fmt::format("{}: is not supported without {} in {}", path_in(folder, "added_tokens.json"),
                               kMarianAdded, kMarianConfig));
  }
  return config;
}

void refuse_unsupported(const Part& config) {
  if (config.flag("separate_vocabs", false)) {
    throw config.refusal("separate_vocabs: a vocabulary of its own for each language is not supported");
  }
  if (config.flag("split_special_tokens", false))
    throw config.refusal("split_special_tokens is not supported");
  if (config.has("sp_model_kwargs") && !config.at("sp_model_kwargs").json().empty())
    throw config.refusal("sp_model_kwargs is not supported");
}

// A token that is named alone, or with how it is found, which transformers leaves unread but in the list of
// added tokens.
std::string named_token(const Part& config, const SortedJson& value) {
  if (value.is_string()) return value.get<std::string>();
  return Part(value, config.file(), "a special token").text("content");
}

// The tokens that decoding leaves out: those named by the "..._token" keys and by the lists.
std::set<std::string> special_tokens(const Part& config) {
  std::set<std::string> names;
  for (const auto& [key, value] : config.json().items()) {
    if (key.ends_with("_token") && (value.is_string() || value.is_object()))
      names.insert(named_token(config, value));
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!config.has(key)) continue;
    for (const auto& [name, value] : config.json()[key].items()) names.insert(named_token(config, value));
  }
  return names;
}

AddedToken added_token(const Part& one, const std::string& key) {
  AddedToken token{-1, one.text("content")};
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
  constexpr std::int32_t kMost = 1 << 24;
  const bool is_id = error == std::errc() && end == key.data() + key.size();
  if (!is_id || token.id < 0 || token.id >= kMost) throw one.refusal("has an id that is none");
  if (token.text.empty()) throw one.refusal("is empty");
  if (one.flag("single_word", false)) throw one.refusal("single_word is not supported");
  token.left = one.flag("lstrip", false);
  token.right = one.flag("rstrip", false);
  return token;
}

// All that is found by its name in a text; their ids are put to the others.
std::vector<AddedToken> read_marian_added(const Part& config, std::set<std::string> special, TokenIds& ids) {
  std::vector<AddedToken> added;
  if (config.has(kMarianAdded)) {
    const Part listed = config.at(kMarianAdded);
    for (const auto& [key, value] : listed.json().items()) {
      const Part one(value, config.file(), fmt::format("{}: {}", kMarianAdded, shown(key)));
      added.push_back(added_token(one, key));
      const auto [known, is_new] = ids.emplace(added.back().text, added.back().id);
      if (known->second != added.back().id)
        throw one.refusal(fmt::format("has the id {} too", known->second));
      added.back().special = special.erase(added.back().text) > 0;
    }
  }
  for (const std::string& name : special) {
    const auto known = ids.find(name);
    if (known == ids.end()) {
      throw config.refusal(fmt::format("the special token {} is not in {}", shown(name), kMarianFiles[2]));
    }
    added.push_back({known->second, name, true});
  }
  for (AddedToken& token : added) token.normalized = false;
  std::ranges::sort(added, {}, &AddedToken::id);
  return added;
}

// Tokens by id. Throws where ids are not 0 and up, each once.
std::vector<std::string> by_id(const TokenIds& ids, const std::string& path) {
  std::vector<std::string> tokens(ids.size());
  std::vector<bool> taken(ids.size());
  for (const auto& [token, id] : ids) {
    const auto at = static_cast<std::size_t>(id);
    if (at >= ids.size() || taken[at]) {
      throw RunError(fmt::format("{}: the token {} has the id {}; {} tokens have the ids 0 to {}, each once",
                                 path, shown(token), id, ids.size(), ids.size() - 1));
    }
    taken[at] = true;
    tokens[at] = token;
  }
  return tokens;
}

std::uint32_t crc_after(std::uint32_t crc, const std::string& text) {
  return crc32(std::as_bytes(std::span(text)), crc);
}

Marian read_marian(const std::string& folder) {
  for (const std::string_view name : kMarianFiles) {
    if (is_there(folder, name)) continue;
    throw RunError(fmt::format("{}: there is no such file; a Marian's tokenizer is {}, {} and {}",
                               path_in(folder, name), kMarianFiles[0], kMarianFiles[1], kMarianFiles[2]));
  }
  constexpr std::uint64_t kMost = 64 << 20;
  SortedJson settings = read_marian_config(folder);
  for (const auto& [key, usual] :
       {std::pair{"unk_token", "<unk>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}}) {
    if (!settings.contains(key) || settings[key].is_null()) settings[key] = usual;
  }
  const Part config(settings, path_in(folder, kMarianConfig), "");
  refuse_unsupported(config);
  const std::string vocabulary = path_in(folder, kMarianFiles[2]);
  SortedJson wrapped = {{"vocab", read_sorted_json(vocabulary)}};
  TokenIds ids = read_vocabulary(Part(wrapped, vocabulary, ""));
  by_id(ids, vocabulary);
  if (const std::string name = named_token(config, settings["unk_token"]); !ids.contains(name))
    throw RunError(fmt::format("{}: has no token {}", vocabulary, shown(name)));
  std::uint32_t checksum = crc_after(0, wrapped.dump());
  AddedTokens added(read_marian_added(config, special_tokens(config), ids), {});
  by_id(ids, config.file());
  const auto id_of = [&](const char* key) { return ids.at(named_token(config, settings[key])); };
  const std::int32_t unknown = id_of("unk_token"), end = id_of("eos_token"), pad = id_of("pad_token");
  const bool cleans = config.flag("clean_up_tokenization_spaces", false);
  checksum = crc_after(checksum, fmt::format("{} {} {} {}", unknown, end, pad, cleans));
  for (const AddedToken& t : added.all())
    checksum = crc_after(checksum, fmt::format("{} {} {} {} {}", t.id, t.text, t.special, t.left, t.right));
  std::unique_ptr<SentencePieces> sides[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string path = path_in(folder, kMarianFiles[i]), file = read_text(path, kMost);
    sides[i] = read_sentence_pieces(path, file);
    checksum = crc_after(checksum, file);
  }
  return {std::move(sides[0]),
          std::move(sides[1]),
          std::move(ids),
          std::move(added),
          unknown,
          end,
          pad,
          cleans,
          checksum};
}

// The text of each token within a text: a piece as the target's model has it, nothing for a special token.
std::vector<std::string> within_texts(const Marian& marian) {
  std::vector<std::string> tokens = by_id(marian.ids, "");
  for (std::string& token : tokens) token = marian.target->within_text(token);
  for (const AddedToken& token : marian.added.all()) {
    if (token.special) tokens[static_cast<std::size_t>(token.id)].clear();
  }
  return tokens;
}

// Strips white space from the ends, as Python's strip().
std::string stripped(std::string_view text) {
  std::size_t begin = text.size(), end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = first_character(text.substr(at));
    const bool is_space = c.state == Character::kGood && is_python_space(c.code);
    if (!is_space) begin = std::min(begin, at);
    at += c.bytes;
    if (!is_space) end = at;
  }
  return std::string(text.substr(std::min(begin, end), end - std::min(begin, end)));
}

// The tokenizer of one of the two languages.
class MarianTokenizer : public Tokenizer {
 public:
  MarianTokenizer(std::shared_ptr<const Marian> marian, const SentencePieces& pieces,
                  std::unique_ptr<Tokenizer> target)
      : Tokenizer(within_texts(*marian)),
        marian_(std::move(marian)),
        pieces_(pieces),
        target_(std::move(target)) {}

  std::size_t encode_from(std::string_view text, std::size_t first, std::size_t until,
                          std::vector<std::int32_t>& ids) const override {
    if (first >= text.size()) return first;
    const auto stretch = [&](std::string_view part) {
      const auto at = static_cast<std::size_t>(part.data() - text.data());
      check_utf8(text, at, at + part.size());
      return encode_whole(part);
    };
    const std::size_t end = until < text.size() ? find_cut(text, first, until, stretch) : text.size();
    const std::vector<std::int32_t> found = encode_stretch(text, first, end, stretch);
    ids.insert(ids.end(), found.begin(), found.end());
    return end;
  }
  nlohmann::ordered_json describe() const override {
    return {{"kind", kMarianTokenizer},
            {"vocabulary", vocabulary()},
            {"checksum", fmt::format("{:08x}", marian_->checksum)}};
  }
  std::optional<std::int32_t> end_of_text() const override { return marian_->end; }
  std::optional<std::int32_t> before_translation() const override { return marian_->pad; }
  const Tokenizer& target() const override {
    return target_ == nullptr ? static_cast<const Tokenizer&>(*this) : *target_;
  }

 private:
  std::string finished(std::string text) const override {
    text = stripped(text);
    return marian_->cleans ? cleaned_up(std::move(text)) : text;
  }
  void append(const std::string& piece, std::vector<std::int32_t>& ids) const {
    const auto found = marian_->ids.find(piece);
    ids.push_back(found == marian_->ids.end() ? marian_->unknown : found->second);
  }
  std::vector<std::int32_t> encode_whole(std::string_view text) const {
    std::vector<std::int32_t> ids;
    for (const TextPart& part : marian_->added.raw().split(text)) {
      if (part.token) {
        ids.push_back(*part.token);
        continue;
      }
      std::string_view rest = part.text;
      const std::size_t end = rest.starts_with(">>") ? rest.find("<<") : std::string_view::npos;
      if (end != std::string_view::npos) {  // the language to translate to
        append(std::string(rest.substr(0, end + 2)), ids);
        rest.remove_prefix(end + 2);
      }
      for (const std::string& piece : pieces_.cut(rest)) append(piece, ids);
    }
    return ids;
  }

  std::shared_ptr<const Marian> marian_;
  const SentencePieces& pieces_;
  std::unique_ptr<Tokenizer> target_;  // of the source's alone
};

}  // namespace

bool has_marian_tokenizer(const std::string& folder) {
  return is_there(folder, kMarianFiles[0]) || is_there(folder, kMarianFiles[1]);
}

std::vector<std::string> marian_tokenizer_paths(const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string_view name : kMarianFiles) paths.push_back(path_in(folder, name));
  for (const char* name : {kMarianConfig, kMarianSpecial}) {
    if (is_there(folder, name)) paths.push_back(path_in(folder, name));
  }
  return paths;
}

Languages marian_languages(const std::string& folder) {
  const SortedJson settings = read_marian_config(folder);
  const Part config(settings, path_in(folder, kMarianConfig), "");
  const auto language = [&](const char* key) {  // which files are named by
    std::string name = config.text(key, "");
    if (name.find('/') == std::string::npos) return name;
    throw RunError(fmt::format("{}: {} is \"{}\", no name of a language", path_in(folder, kMarianConfig), key,
                               printable(name)));
  };
  return {language("source_lang"), language("target_lang")};
}

std::unique_ptr<Tokenizer> load_marian_tokenizer(const std::string& folder) {
  const auto marian = std::make_shared<const Marian>(read_marian(folder));
  auto target = std::make_unique<MarianTokenizer>(marian, *marian->target, nullptr);
  return std::make_unique<MarianTokenizer>(marian, *marian->source, std::move(target));
}

}  // namespace lpmm
