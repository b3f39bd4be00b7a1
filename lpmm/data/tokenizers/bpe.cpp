// Byte pair encoding: merge the pair of lowest rank, the leftmost of equals, until none is left.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>

#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/tokenizers/subwords.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

struct Merge {
  std::uint32_t rank;
  std::int32_t id;
};
using Merges = std::unordered_map<std::uint64_t, Merge>;  // by key()

std::uint64_t key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

struct BpeOptions {
  std::string prefix, suffix;  // of parts that do not begin a word, of the part that ends it
  std::int32_t unknown = -1;   // -1: what has no token is left out
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
};

class Bpe : public Subwords {
 public:
  Bpe(TokenIds ids, Merges merges, BpeOptions options)
      : Subwords(std::move(ids)), merges_(std::move(merges)), options_(std::move(options)) {
    for (int b = 0; b < 256; ++b) byte_ids_[b] = find(fmt::format("<0x{:02X}>", b));
  }
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const override {
    const std::int32_t whole = options_.ignore_merges ? find(word) : -1;
    if (whole >= 0) return ids.push_back(whole);
    std::vector<std::int32_t> parts = letters(word);
    if (parts.size() > 1) merge(parts);
    ids.insert(ids.end(), parts.begin(), parts.end());
  }

 private:
  std::vector<std::int32_t> letters(std::string_view word) const;
  bool add_bytes(std::string_view letter, std::vector<std::int32_t>& parts) const;
  void merge(std::vector<std::int32_t>& parts) const;

  Merges merges_;
  BpeOptions options_;
  std::int32_t byte_ids_[256];
};

bool Bpe::add_bytes(std::string_view letter, std::vector<std::int32_t>& parts) const {
  const auto id = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  if (!std::ranges::all_of(letter, [&](char c) { return id(c) >= 0; })) return false;
  for (const char c : letter) parts.push_back(id(c));
  return true;
}

// Returns the ids of a word before any merge.
std::vector<std::int32_t> Bpe::letters(std::string_view word) const {
  std::vector<std::int32_t> parts;
  bool pending = false;  // an unknown one that may be fused with the next
  std::string spelled;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t bytes = first_character(word.substr(at)).bytes;
    std::string_view letter = word.substr(at, bytes);
    const bool first = at == 0, last = at + bytes == word.size();
    at += bytes;
    if ((!first && !options_.prefix.empty()) || (last && !options_.suffix.empty())) {
      spelled = (first ? "" : options_.prefix) + std::string(letter) + (last ? options_.suffix : "");
      letter = spelled;
    }
    const std::int32_t id = find(letter);
    if (id >= 0) {
      if (pending) parts.push_back(options_.unknown);
      pending = false;
      parts.push_back(id);
    } else if (!(options_.byte_fallback && add_bytes(letter, parts)) && options_.unknown >= 0) {
      if (pending && !options_.fuse_unknown) parts.push_back(options_.unknown);
      pending = true;
    }
  }
  if (pending) parts.push_back(options_.unknown);
  return parts;
}

void Bpe::merge(std::vector<std::int32_t>& parts) const {
  constexpr auto kNone = std::numeric_limits<std::uint32_t>::max();
  struct Symbol {
    std::int32_t id;  // -1: merged into the one before
    std::uint32_t previous, next;
  };
  struct Candidate {
    std::uint32_t rank, at;
    std::int32_t id;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  if (parts.size() >= kNone) throw UsageError(fmt::format("a word of {} parts is too long", parts.size()));
  const auto size = static_cast<std::uint32_t>(parts.size());
  std::vector<Symbol> symbols(size);
  for (std::uint32_t i = 0; i < size; ++i) symbols[i] = {parts[i], i - 1, i + 1 < size ? i + 1 : kNone};
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto enqueue_pair = [&](std::uint32_t i) {  // that starts at i
    if (i == kNone || symbols[i].next == kNone) return;
    const auto found = merges_.find(key(symbols[i].id, symbols[symbols[i].next].id));
    if (found != merges_.end()) queue.push({found->second.rank, i, found->second.id});
  };
  for (std::uint32_t i = 0; i < size; ++i) enqueue_pair(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& symbol = symbols[top.at];
    if (symbol.id < 0 || symbol.next == kNone) continue;
    // One of the two may have been merged with another part meanwhile.
    const auto found = merges_.find(key(symbol.id, symbols[symbol.next].id));
    if (found == merges_.end() || found->second.id != top.id) continue;
    symbols[symbol.next].id = -1;
    symbol.id = top.id;
    symbol.next = symbols[symbol.next].next;
    if (symbol.next != kNone) symbols[symbol.next].previous = top.at;
    enqueue_pair(symbol.previous);
    enqueue_pair(top.at);
  }
  parts.clear();
  for (std::uint32_t i = 0; i != kNone; i = symbols[i].next) parts.push_back(symbols[i].id);
}

Merges by_pair(const Part& model, const TokenIds& ids, const std::string& prefix) {
  Merges merges;
  for (const auto& merge : read_merges(model)) {
    const std::string &left = merge.first, &right = merge.second;
    const auto refuse = [&](std::string_view what) {
      return model.refusal(fmt::format("the merge of {} and {} {}", shown(left), shown(right), what));
    };
    const auto a = ids.find(left), b = ids.find(right);
    if (a == ids.end() || b == ids.end()) throw refuse("has a part that is no token");
    if (!right.starts_with(prefix)) throw refuse("has a second part without continuing_subword_prefix");
    const auto whole = ids.find(left + right.substr(prefix.size()));
    if (whole == ids.end()) throw refuse("gives what is no token");
    const Merge made{static_cast<std::uint32_t>(merges.size()), whole->second};
    if (!merges.emplace(key(a->second, b->second), made).second) throw refuse("comes twice");
  }
  return merges;
}

}  // namespace

std::unique_ptr<Subwords> make_bpe(const Part& model) {
  if (model.number("dropout", 0) != 0) {
    throw model.refusal("dropout of merges is not supported; take it out of the file");
  }
  TokenIds ids = read_vocabulary(model);
  BpeOptions options{model.text("continuing_subword_prefix", ""), model.text("end_of_word_suffix", "")};
  options.fuse_unknown = model.flag("fuse_unk", false);
  options.byte_fallback = model.flag("byte_fallback", false);
  options.ignore_merges = model.flag("ignore_merges", false);
  if (model.has("unk_token")) {
    const auto unknown = ids.find(model.text("unk_token"));
    if (unknown == ids.end()) throw model.refusal("its unk_token is no token of its vocabulary");
    options.unknown = unknown->second;
  }
  Merges merges = by_pair(model, ids, options.prefix);
  return std::make_unique<Bpe>(std::move(ids), std::move(merges), std::move(options));
}

}  // namespace lpmm
