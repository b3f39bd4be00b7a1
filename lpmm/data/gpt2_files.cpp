#include "lpmm/data/gpt2_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/data/tokenizers/characters.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

std::string read_part(const std::string& path) {
  constexpr std::uint64_t kMost = 64 << 20;
  try {
    return read_text(path, kMost);
  } catch (const RunError& e) {
    throw RunError(fmt::format(
        "{}; encoder.json and vocab.bpe as OpenAI published them for GPT-2 are expected in one folder "
        "(`lpmm data get gpt2-bpe` downloads them)",
        e.what()));
  }
}

// Returns the file by its first name, unless it is there by the second alone.
std::string file_of(const std::string& folder, std::string_view name, std::string_view other) {
  std::error_code error;
  const std::filesystem::path first = std::filesystem::path(folder) / name;
  const std::filesystem::path second = std::filesystem::path(folder) / other;
  return (!std::filesystem::exists(first, error) && std::filesystem::exists(second, error) ? second : first)
      .string();
}

void read_tokens(const std::string& path, Gpt2Files& files) {
  const std::string text = read_part(path);
  nlohmann::json object;  // not ordered: its search for a name is linear
  try {
    object = nlohmann::json::parse(text, [&](int depth, auto, auto&) {
      if (depth > 1) throw RunError(fmt::format("{}: is nested: tokens and their ids were expected", path));
      return true;
    });
  } catch (const nlohmann::json::exception&) {
    throw RunError(fmt::format("{}: is no JSON; it may be cut off", path));
  }
  // The parser takes a zero byte for the end.
  if (text.find('\0') != std::string::npos) throw RunError(fmt::format("{}: is no JSON", path));
  if (!object.is_object()) throw RunError(fmt::format("{}: is no JSON object of tokens and ids", path));
  files.tokens.resize(object.size());
  for (const auto& [spelling, id] : object.items()) {
    const std::optional<std::string> bytes = unspelled_bytes(spelling);
    if (!bytes || bytes->empty()) {
      throw RunError(fmt::format("{}: the token {} is not spelled in the characters that stand for bytes",
                                 path, shown(spelling)));
    }
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= object.size() ||
        !files.tokens[id.get<std::size_t>()].empty()) {
      throw RunError(fmt::format("{}: the token {} has the id {}; {} tokens have the ids 0 to {}, each once",
                                 path, shown(spelling), shown(id.dump()), object.size(), object.size() - 1));
    }
    files.tokens[id.get<std::size_t>()] = *bytes;
  }
  for (std::size_t i = 0; i < files.tokens.size(); ++i) {
    files.ids[files.tokens[i]] = static_cast<std::int32_t>(i);
  }
  for (std::size_t b = 0; b < 256; ++b) {
    if (!files.ids.contains(std::string(1, static_cast<char>(b)))) {
      throw RunError(fmt::format("{}: has no token for the byte 0x{:02X}", path, b));
    }
  }
}

// A line of vocab.bpe, its number in the file for errors.
void add_merge(const std::string& path, std::size_t number, std::string_view line, Gpt2Files& files) {
  const auto refuse = [&](std::string_view what) {
    return RunError(fmt::format("{}:{}: the merge {} {}", path, number, shown(line), what));
  };
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) throw refuse("is not two tokens with a space between");
  const auto left = unspelled_bytes(line.substr(0, space)), right = unspelled_bytes(line.substr(space + 1));
  if (!left || !right || !files.ids.contains(*left) || !files.ids.contains(*right)) {
    throw refuse("has a part that is no token of encoder.json");
  }
  const auto whole = files.ids.find(*left + *right);
  if (whole == files.ids.end()) throw refuse("gives what is no token of encoder.json");
  if (whole->first == kEndOfText) throw refuse("gives the token that ends a text");
  const auto rank = static_cast<std::uint32_t>(files.merged.size());
  if (!files.ranks.emplace(pair(files.ids[*left], files.ids[*right]), rank).second)
    throw refuse("comes twice");
  files.merged.push_back(whole->second);
}

void read_merges(const std::string& path, Gpt2Files& files) {
  const std::string text = read_part(path);
  if (!text.starts_with("#version")) {
    throw RunError(fmt::format("{}: does not start with #version and merges after it", path));
  }
  if (!text.ends_with('\n')) throw RunError(fmt::format("{}: its last line is cut off", path));
  std::size_t number = 2;
  for (std::size_t at = text.find('\n') + 1; at < text.size(); ++number) {
    const std::size_t end = text.find('\n', at);
    add_merge(path, number, std::string_view(text).substr(at, end - at), files);
    at = end + 1;
  }
  // Every token is a byte, the end of a text, or merged: a file that lost merges does not pass.
  std::vector<bool> made(files.tokens.size());
  for (const std::int32_t id : files.merged) made[static_cast<std::size_t>(id)] = true;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const std::string& token = files.tokens[i];
    if (made[i] || token.size() == 1 || token == kEndOfText) continue;
    throw RunError(
        fmt::format("{}: no merge gives the token {} (id {}) of encoder.json: the file is cut off, or the "
                    "two do not belong together",
                    path, shown(token), i));
  }
}

// The checksum of what the files say, however their JSON is spelled.
std::uint32_t checksum(const Gpt2Files& files) {
  std::string text;
  for (const std::string& token : files.tokens) text += fmt::format("{}:{}", token.size(), token);
  std::vector<std::uint64_t> pairs(files.merged.size());
  for (const auto& [both, rank] : files.ranks) pairs[rank] = both;
  for (const std::uint64_t both : pairs) text += fmt::format(" {}", both);
  return crc32(text);
}

}  // namespace

Gpt2Files read_gpt2_files(const std::string& folder) {
  if (folder.empty()) throw RunError("GPT-2's tokenizer needs a folder with its encoder.json and vocab.bpe");
  Gpt2Files files;
  read_tokens(file_of(folder, kGpt2Tokens, kHuggingFaceTokens), files);
  read_merges(file_of(folder, kGpt2Merges, kHuggingFaceMerges), files);
  files.checksum = checksum(files);
  return files;
}

}  // namespace lpmm
