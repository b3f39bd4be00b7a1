// GPT-2's byte-level BPE: words, merges.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/gpt2_files.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/data/tokenizers/characters.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

enum class Kind : std::uint8_t { kSpace, kLetter, kNumber, kOther };

Kind slow_kind(char32_t c) {
  if (is_white_space(c)) return Kind::kSpace;
  if (is_letter(c)) return Kind::kLetter;
  if (is_number(c)) return Kind::kNumber;
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
  nlohmann::ordered_json describe() const override {
    return {{"kind", kGpt2Tokenizer},
            {"vocabulary", vocabulary()},
            {"checksum", fmt::format("{:08x}", checksum_)}};
  }
  std::optional<std::int32_t> end_of_text() const override { return end_of_text_; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  // A token of the word as far as it is merged, in a list. `rank` is of its merge with the next one.
  struct Piece {
    std::int32_t id;
    std::uint32_t previous, next, rank;
  };
  struct Work {  // kept between words for its memory
    std::vector<Piece> parts;
    std::vector<std::uint64_t> queue, fresh;  // rank << 32 | index of the left part
  };
  void encode_word(std::string_view word, Work& work, std::vector<std::int32_t>& ids) const;

  std::unordered_map<std::uint64_t, std::uint32_t> ranks_;
  std::vector<std::int32_t> merged_;
  std::uint32_t checksum_;
  std::array<std::int32_t, 256> byte_ids_{};
  std::optional<std::int32_t> end_of_text_;
};

// Merges as OpenAI's does: every occurrence of the pair of lowest rank, from the left, then the next pair. A
// queue of pairs makes that n log n.
void Gpt2Tokenizer::encode_word(std::string_view word, Work& work, std::vector<std::int32_t>& ids) const {
  if (word.size() >= kNone) throw UsageError(fmt::format("a word of {} bytes is too long", word.size()));
  const auto size = static_cast<std::uint32_t>(word.size());
  std::vector<Piece>& parts = work.parts;
  std::vector<std::uint64_t>&queue = work.queue, &fresh = work.fresh;
  const auto enqueue_pair = [&](std::uint32_t i) {  // that starts at part i
    Piece& part = parts[i];
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
  for (std::uint32_t i = 0; i < size; ++i) enqueue_pair(i);
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
      Piece& part = parts[i];
      if (part.rank != rank) continue;  // one of the two was merged with another part meanwhile
      parts[part.next].rank = kNone;
      part.id = merged_[rank];
      part.next = parts[part.next].next;
      if (part.next != kNone) parts[part.next].previous = i;
      enqueue_pair(i);
      if (part.previous != kNone) enqueue_pair(part.previous);
    }
  }
  for (std::uint32_t i = 0; i != kNone; i = parts[i].next) ids.push_back(parts[i].id);
}

std::size_t Gpt2Tokenizer::encode_from(std::string_view text, std::size_t first, std::size_t until,
                                       std::vector<std::int32_t>& ids) const {
  constexpr std::size_t kMostKnown = 1 << 16;
  struct Place {
    std::size_t begin, end;
  };
  std::unordered_map<std::string_view, Place> known;  // the place in `ids` of a word's ids
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
      if (known.size() < kMostKnown) known.emplace(word, Place{begin, ids.size()});
    }
    at += word.size();
  }
  return at;
}

}  // namespace

std::unique_ptr<Tokenizer> load_gpt2_tokenizer(const std::string& folder) {
  return std::make_unique<Gpt2Tokenizer>(read_gpt2_files(folder));
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

}  // namespace lpmm
