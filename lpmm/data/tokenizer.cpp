#include "lpmm/data/tokenizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

using Json = nlohmann::ordered_json;
constexpr char32_t kCodePoints = 0x110000;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// ---- UTF-8

struct Character {
  enum State { kGood, kBad, kCut };  // kCut: the bytes end within what may be a character
  State state;
  char32_t code;
  std::size_t bytes;  // where it is not good, those that count as one error
};

// The character at the start of `bytes`, which is not empty (Unicode, table 3-7).
Character first_character(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {Character::kGood, lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Character::kBad, 0, 1};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte tells overlong forms, surrogates and what is past U+10FFFF.
  unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {Character::kCut, 0, i};
    if (byte(i) < low || byte(i) > high) return {Character::kBad, 0, i};
    code = code << 6 | (byte(i) & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {Character::kGood, code, length};
}

Character character_at(std::string_view text, std::size_t at) {
  const Character c = first_character(text.substr(at));
  if (c.state != Character::kGood) {
    throw UsageError(fmt::format(
        "byte {} of the text, 0x{:02X}, is not UTF-8: save the text as UTF-8, or take the tokenizer "
        "of bytes",
        at, static_cast<unsigned char>(text[at])));
  }
  return c;
}

std::string utf8(char32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(n)};
}

// U+0041 "A"; what does not print, or would change how the rest prints, by its number alone.
std::string named(char32_t code) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  const bool prints = category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZL;
  return fmt::format("U+{:04X}{}", static_cast<std::uint32_t>(code),
                     prints ? fmt::format(" \"{}\"", utf8(code)) : "");
}

// The start of a text from outside, made safe to print.
std::string shown(std::string_view text) {
  return Json(text.substr(0, 60)).dump(-1, ' ', true, Json::error_handler_t::replace);
}

// ---- Bytes and characters

class ByteTokenizer : public Tokenizer {
 public:
  ByteTokenizer() : Tokenizer(all_bytes()) {}
  std::size_t encode_from(std::string_view text, std::size_t first, std::size_t until,
                          std::vector<std::int32_t>& ids) const override {
    const std::string_view part = text.substr(first, until - first);
    for (const char c : part) ids.push_back(static_cast<unsigned char>(c));
    return first + part.size();
  }
  Json describe() const override { return {{"kind", "bytes"}}; }

 private:
  static std::vector<std::string> all_bytes() {
    std::vector<std::string> tokens;
    for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
    return tokens;
  }
};

class CharacterTokenizer : public Tokenizer {
 public:
  explicit CharacterTokenizer(const std::vector<char32_t>& codes)
      : Tokenizer(spelled(codes)), ids_(codes.back() + 1, -1) {
    for (std::size_t i = 0; i < codes.size(); ++i) ids_[codes[i]] = static_cast<std::int32_t>(i);
  }
  std::size_t encode_from(std::string_view text, std::size_t first, std::size_t until,
                          std::vector<std::int32_t>& ids) const override {
    std::size_t at = first;
    while (at < std::min(until, text.size())) {
      const Character c = character_at(text, at);
      const std::int32_t id = c.code < ids_.size() ? ids_[c.code] : -1;
      if (id < 0) {
        throw UsageError(fmt::format(
            "byte {} of the text: the character {} is none of the {} that the tokenizer has: take it out, or "
            "make the tokenizer from a text that has it",
            at, named(c.code), vocabulary()));
      }
      ids.push_back(id);
      at += c.bytes;
    }
    return at;
  }
  Json describe() const override {
    std::string characters;
    for (const std::string& token : tokens()) characters += token;
    return {{"kind", "characters"}, {"characters", characters}};
  }

 private:
  static std::vector<std::string> spelled(const std::vector<char32_t>& codes) {
    std::vector<std::string> tokens;
    for (const char32_t code : codes) tokens.push_back(utf8(code));
    return tokens;
  }

  std::vector<std::int32_t> ids_;  // by code point
};

// ---- GPT-2: words

enum class Kind : std::uint8_t { kSpace, kLetter, kNumber, kOther };

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

Kind slow_kind(char32_t c) {
  if (is_white_space(c)) return Kind::kSpace;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return Kind::kLetter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return Kind::kNumber;
  return Kind::kOther;
}

Kind kind_of(char32_t c) {
  static const auto ascii = [] {
    std::array<Kind, 128> kinds;
    for (char32_t i = 0; i < 128; ++i) kinds[i] = slow_kind(i);
    return kinds;
  }();
  return c < 128 ? ascii[c] : slow_kind(c);
}

// Bytes of 's, 't, 're, 've, 'm, 'll or 'd at the start of `text`; 0: none of them.
std::size_t contraction(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  return 0;
}

// ---- GPT-2: its two files

// Each byte is written as a character that prints: itself where it does in Latin-1, else from U+0100 on.
constexpr auto kSpellings = [] {
  std::array<char32_t, 256> spellings{};
  char32_t next = 0x100;
  for (char32_t b = 0; b < 256; ++b) {
    const bool prints = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    spellings[b] = prints ? b : next++;
  }
  return spellings;
}();

// The bytes of a token as the files spell it; nothing where it has a character that stands for none.
std::optional<std::string> spelled_bytes(std::string_view spelling) {
  static const auto byte_of = [] {
    std::unordered_map<char32_t, char> bytes;
    for (std::size_t b = 0; b < 256; ++b) bytes[kSpellings[b]] = static_cast<char>(b);
    return bytes;
  }();
  std::string bytes;
  while (!spelling.empty()) {
    const Character c = first_character(spelling);
    const auto found = byte_of.find(c.code);
    if (c.state != Character::kGood || found == byte_of.end()) return std::nullopt;
    bytes.push_back(found->second);
    spelling.remove_prefix(c.bytes);
  }
  return bytes;
}

constexpr std::string_view kEndOfText = "<|endoftext|>";

struct Gpt2Files {
  std::vector<std::string> tokens;                         // bytes, by id
  std::unordered_map<std::string_view, std::int32_t> ids;  // of `tokens`
  std::unordered_map<std::uint64_t, std::uint32_t> ranks;  // of merges, by pair()
  std::vector<std::int32_t> merged;                        // what a merge gives, by its rank
  std::uint32_t checksum = 0;
};

std::uint64_t pair(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

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
    const std::optional<std::string> bytes = spelled_bytes(spelling);
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
  const auto left = spelled_bytes(line.substr(0, space)), right = spelled_bytes(line.substr(space + 1));
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

// Of what the files say, however their JSON is spelled.
std::uint32_t checksum(const Gpt2Files& files) {
  std::string text;
  for (const std::string& token : files.tokens) text += fmt::format("{}:{}", token.size(), token);
  std::vector<std::uint64_t> pairs(files.merged.size());
  for (const auto& [both, rank] : files.ranks) pairs[rank] = both;
  for (const std::uint64_t both : pairs) text += fmt::format(" {}", both);
  return crc32(std::as_bytes(std::span(text)));
}

// ---- GPT-2: merges

class Gpt2Tokenizer : public Tokenizer {
 public:
  explicit Gpt2Tokenizer(Gpt2Files files)
      : Tokenizer(std::move(files.tokens)),
        ranks_(std::move(files.ranks)),
        merged_(std::move(files.merged)),
        checksum_(files.checksum) {
    for (std::size_t b = 0; b < 256; ++b) byte_ids_[b] = files.ids.at(std::string(1, static_cast<char>(b)));
    const auto end = files.ids.find(kEndOfText);
    if (end != files.ids.end()) end_of_text_ = end->second;
  }

  std::size_t encode_from(std::string_view text, std::size_t first, std::size_t until,
                          std::vector<std::int32_t>& ids) const override;
  Json describe() const override {
    return {{"kind", "gpt2"}, {"vocabulary", vocabulary()}, {"checksum", fmt::format("{:08x}", checksum_)}};
  }
  std::optional<std::int32_t> end_of_text() const override { return end_of_text_; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  // A token of the word as far as it is merged, in a list. `rank` is of its merge with the next one.
  struct Part {
    std::int32_t id;
    std::uint32_t previous, next, rank;
  };
  struct Work {  // kept between words for its memory
    std::vector<Part> parts;
    std::vector<std::uint64_t> queue, fresh;  // rank << 32 | index of the left part
  };
  void encode_word(std::string_view word, Work& work, std::vector<std::int32_t>& ids) const;

  std::unordered_map<std::uint64_t, std::uint32_t> ranks_;
  std::vector<std::int32_t> merged_;
  std::uint32_t checksum_;
  std::array<std::int32_t, 256> byte_ids_{};
  std::optional<std::int32_t> end_of_text_;
};

// As OpenAI's: merge every occurrence of the pair of lowest rank, from the left, then look for the next pair.
// A queue of pairs makes that n log n.
void Gpt2Tokenizer::encode_word(std::string_view word, Work& work, std::vector<std::int32_t>& ids) const {
  if (word.size() >= kNone) throw UsageError(fmt::format("a word of {} bytes is too long", word.size()));
  const auto size = static_cast<std::uint32_t>(word.size());
  std::vector<Part>& parts = work.parts;
  std::vector<std::uint64_t>&queue = work.queue, &fresh = work.fresh;
  const auto look = [&](std::uint32_t i) {  // at the pair that starts at part i
    Part& part = parts[i];
    part.rank = kNone;
    if (part.next == kNone) return;
    const auto found = ranks_.find(pair(part.id, parts[part.next].id));
    if (found == ranks_.end()) return;
    part.rank = found->second;
    fresh.push_back(std::uint64_t{part.rank} << 32 | i);
  };
  parts.resize(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    parts[i] = {byte_ids_[static_cast<unsigned char>(word[i])], i - 1, i + 1 < size ? i + 1 : kNone, kNone};
  }
  for (std::uint32_t i = 0; i < size; ++i) look(i);
  while (true) {
    for (const std::uint64_t entry : fresh) {
      queue.push_back(entry);
      std::push_heap(queue.begin(), queue.end(), std::greater());
    }
    fresh.clear();
    if (queue.empty()) break;
    // Pairs that this rank's merges make wait in `fresh` until all of them are done.
    const auto rank = static_cast<std::uint32_t>(queue.front() >> 32);
    while (!queue.empty() && queue.front() >> 32 == rank) {
      const auto i = static_cast<std::uint32_t>(queue.front());
      std::pop_heap(queue.begin(), queue.end(), std::greater());
      queue.pop_back();
      Part& part = parts[i];
      if (part.rank != rank) continue;  // one of the two was merged with another part meanwhile
      parts[part.next].rank = kNone;
      part.id = merged_[rank];
      part.next = parts[part.next].next;
      if (part.next != kNone) parts[part.next].previous = i;
      look(i);
      if (part.previous != kNone) look(part.previous);
    }
  }
  for (std::uint32_t i = 0; i != kNone; i = parts[i].next) ids.push_back(parts[i].id);
}

std::size_t Gpt2Tokenizer::encode_from(std::string_view text, std::size_t first, std::size_t until,
                                       std::vector<std::int32_t>& ids) const {
  constexpr std::size_t kMostKnown = 1 << 16;
  struct Range {
    std::size_t begin, end;
  };
  std::unordered_map<std::string_view, Range> known;  // where in `ids` those of a word are
  Work work;
  std::size_t at = first;
  while (at < std::min(until, text.size())) {
    const std::string_view word = text.substr(at, gpt2_word_end(text, at) - at);
    const auto found = known.find(word);
    if (found != known.end()) {
      for (std::size_t i = found->second.begin; i < found->second.end; ++i) ids.push_back(ids[i]);
    } else {
      const std::size_t begin = ids.size();
      encode_word(word, work, ids);
      if (known.size() < kMostKnown) known.emplace(word, Range{begin, ids.size()});
    }
    at += word.size();
  }
  return at;
}

std::string member(const Json& description, const char* name) {
  if (!description.is_object() || !description.contains(name) || !description[name].is_string()) {
    throw RunError(fmt::format("the description of a tokenizer lacks the text \"{}\"", name));
  }
  return description[name].get<std::string>();
}

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const ProgressCall& progress) const {
  constexpr std::size_t kPiece = 1 << 20;
  std::vector<std::int32_t> ids;
  for (std::size_t at = 0; at < text.size();) {
    const bool first = at == 0;
    at = encode_from(text, at, at + std::min(kPiece, text.size() - at), ids);
    if (first && at < text.size()) {  // the first piece tells how many to expect
      const double share = static_cast<double>(at) / static_cast<double>(text.size());
      ids.reserve(static_cast<std::size_t>(1.1 * static_cast<double>(ids.size()) / share));
    }
    if (progress) progress(static_cast<std::int64_t>(at), static_cast<std::int64_t>(text.size()));
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocabulary()) {
      throw UsageError(
          fmt::format("the token id {} is outside the vocabulary of {}: were the ids made by "
                      "another tokenizer?",
                      id, vocabulary()));
    }
    bytes += tokens_[static_cast<std::size_t>(id)];
  }
  return bytes;
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

std::unique_ptr<Tokenizer> make_character_tokenizer(std::string_view text) {
  if (text.empty()) throw UsageError("a tokenizer of characters cannot be made from an empty text");
  std::vector<bool> seen(kCodePoints);
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    seen[c.code] = true;
    at += c.bytes;
  }
  std::vector<char32_t> codes;
  for (char32_t code = 0; code < kCodePoints; ++code) {
    if (seen[code]) codes.push_back(code);
  }
  return std::make_unique<CharacterTokenizer>(codes);
}

std::unique_ptr<Tokenizer> load_gpt2_tokenizer(const std::string& folder) {
  if (folder.empty()) throw RunError("GPT-2's tokenizer needs a folder with its encoder.json and vocab.bpe");
  Gpt2Files files;
  read_tokens(folder + "/encoder.json", files);
  read_merges(folder + "/vocab.bpe", files);
  files.checksum = checksum(files);
  return std::make_unique<Gpt2Tokenizer>(std::move(files));
}

std::unique_ptr<Tokenizer> make_tokenizer(const Json& description, const std::string& folder) {
  const std::string kind = member(description, "kind");
  if (kind == "bytes") return make_byte_tokenizer();
  if (kind == "characters") {
    const std::string characters = member(description, "characters");
    auto tokenizer = make_character_tokenizer(characters);
    if (member(tokenizer->describe(), "characters") != characters) {
      throw RunError("the description of a tokenizer has characters twice or not in code point order");
    }
    return tokenizer;
  }
  if (kind != "gpt2") {
    throw RunError(
        fmt::format("the description of a tokenizer has the kind {}; bytes, characters and gpt2 are "
                    "known",
                    shown(kind)));
  }
  const std::string expected = member(description, "checksum");
  auto tokenizer = load_gpt2_tokenizer(folder);
  const std::string found = member(tokenizer->describe(), "checksum");
  if (found != expected) {
    throw RunError(
        fmt::format("{}: its encoder.json and vocab.bpe have the checksum {}, {} was expected: give "
                    "the folder of those that the tokenizer was made from",
                    folder, found, shown(expected)));
  }
  return tokenizer;
}

std::size_t gpt2_word_end(std::string_view text, std::size_t at) {
  if (const std::size_t n = contraction(text.substr(at)); n > 0) return at + n;
  Character c = character_at(text, at);
  Kind kind = kind_of(c.code);
  std::size_t end = at + c.bytes;
  if (c.code == ' ' && end < text.size()) {  // a single one goes with the word after it
    const Character next = character_at(text, end);
    if (kind_of(next.code) != Kind::kSpace) {
      kind = kind_of(next.code);
      end += next.bytes;
    }
  }
  std::size_t last = at;  // start of the last character
  while (end < text.size()) {
    c = character_at(text, end);
    if (kind_of(c.code) != kind) break;
    last = end;
    end += c.bytes;
  }
  // White space leaves its last character to what follows, unless it has no other.
  return kind == Kind::kSpace && end < text.size() && last > at ? last : end;
}

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  std::size_t at = 0;
  while (at < held_.size()) {
    const std::string_view rest = std::string_view(held_).substr(at);
    const Character c = first_character(rest);
    if (c.state == Character::kCut) break;
    out += c.state == Character::kGood ? rest.substr(0, c.bytes) : kReplacement;
    at += c.bytes;
  }
  held_.erase(0, at);
  return out;
}

std::string Utf8Stream::finish() {
  std::string out(held_.empty() ? "" : kReplacement);
  held_.clear();
  return out;
}

}  // namespace lpmm
