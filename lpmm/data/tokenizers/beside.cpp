#include "lpmm/data/tokenizers/beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "lpmm/data/utf8.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr const char* kDecoder = "added_tokens_decoder";
constexpr const char* kLists[] = {"additional_special_tokens", "extra_special_tokens"};

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

json read_settings(const fs::path& folder) {
  json settings = json::object();
  for (const char* name : {kTokenizerConfig, kSpecialTokensMap}) {
    const fs::path path = folder / name;
    if (!is_there(path)) continue;
    const json read = read_sorted_json(path.string());
    for (const auto& [key, value] : Part(read, path.string(), "").json().items()) {
      if (!settings.contains(key) || settings[key].is_null()) settings[key] = value;
    }
  }
  return settings;
}

std::int32_t id_of(const Part& where, std::string_view text) {
  constexpr std::int32_t kMost = 1 << 24;
  std::int32_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id < 0 || id >= kMost) {
    throw where.refusal(fmt::format("the id {} is none of a token", shown(text)));
  }
  return id;
}

}  // namespace

TokensBeside::TokensBeside(const std::string& path)
    : json_(read_settings(fs::path(path).parent_path())),
      path_((fs::path(path).parent_path() / kTokenizerConfig).string()),
      added_path_((fs::path(path).parent_path() / kAddedTokens).string()),
      settings_(json_, path_, "") {}

std::string TokensBeside::name(const char* key) const {
  const auto named = json_.find(key);
  if (named == json_.end()) return "";
  const json& name = named->is_object() && named->contains("content") ? (*named)["content"] : *named;
  return name.is_string() ? name.get<std::string>() : "";
}

std::optional<std::int32_t> TokensBeside::end_of_text(const std::vector<AddedToken>& added) const {
  std::vector<std::string> names = {"<|endoftext|>", "<|end_of_text|>", "</s>"};
  if (const std::string named = name("eos_token"); !named.empty()) names = {named};
  for (const std::string& one : names) {
    const auto token = std::ranges::find(added, one, &AddedToken::text);
    if (token != added.end()) return token->id;
  }
  return std::nullopt;
}

std::vector<AddedToken> TokensBeside::added() const {
  std::vector<AddedToken> tokens;
  if (settings_.has(kDecoder)) {
    const Part decoder = settings_.at(kDecoder);
    for (const auto& [id, value] : decoder.json().items()) {
      const Part one(value, path_, fmt::format("{}: {}", kDecoder, shown(id)));
      tokens.push_back(read_added_token(one, id_of(decoder, id)));
    }
  } else if (is_there(added_path_)) {
    const json listed = read_sorted_json(added_path_);
    const std::vector<AddedToken> named = special();
    for (const auto& [text, id] : Part(listed, added_path_, "").json().items()) {
      AddedToken token{id_of(Part(listed, added_path_, ""), id.dump()), text};
      token.special = std::ranges::find(named, text, &AddedToken::text) != named.end();
      token.normalized = !token.special;
      tokens.push_back(std::move(token));
    }
  }
  std::ranges::sort(tokens, {}, &AddedToken::id);
  return tokens;
}

std::vector<AddedToken> TokensBeside::special() const {
  std::vector<AddedToken> tokens;
  const auto add = [&](const json& said) {
    AddedToken token{-1, said.is_string() ? said.get<std::string>() : "", true};
    token.normalized = false;
    if (said.is_object()) token = read_added_token(Part(said, path_, "a special token"), -1);
    if (!token.text.empty() && std::ranges::find(tokens, token.text, &AddedToken::text) == tokens.end()) {
      token.special = true;
      tokens.push_back(std::move(token));
    }
  };
  for (const char* key : kNamedTokens) {
    if (settings_.has(key)) add(json_[key]);
  }
  for (const char* key : kLists) {
    if (!settings_.has(key)) continue;
    for (const auto& [at, said] : json_[key].items()) add(said);
  }
  return tokens;
}

std::string TokensBeside::complete(const TokenIds& ids, std::vector<AddedToken>& tokens) const {
  std::string said;
  std::int32_t next = 0;
  for (const auto& [token, id] : ids) next = std::max(next, id + 1);
  for (const AddedToken& token : tokens) next = std::max(next, token.id + 1);
  const auto add = [&](AddedToken token) {
    if (std::ranges::find(tokens, token.text, &AddedToken::text) != tokens.end()) return;
    const auto known = ids.find(token.text);
    if (token.id < 0) token.id = known == ids.end() ? next : known->second;
    next = std::max(next, token.id + 1);
    said += fmt::format("{} {} {} {} {} {} {}\n", token.id, token.text, token.special, token.single_word,
                        token.left, token.right, token.normalized);
    tokens.push_back(std::move(token));
  };
  for (AddedToken& token : added()) add(std::move(token));
  for (AddedToken& token : special()) add(std::move(token));
  return said;
}

}  // namespace lpmm
