#include "lpmm/data/tokenizers/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizers/cuts.h"
#include "lpmm/data/tokenizers/growth.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

// The spellings of the model's tokens and of the added ones, by id.
std::vector<std::string> spellings_of(const Pipeline& parts) {
  std::size_t count = parts.subwords->tokens().size();
  for (const AddedToken& token : parts.added.all())
    count += parts.subwords->tokens().contains(token.text) ? 0 : 1;
  std::vector<std::string> spellings(count);
  std::vector<bool> taken(count);
  const auto place = [&](const std::string& token, std::int32_t id) {
    const auto at = static_cast<std::size_t>(id);
    if (at < count && taken[at] && spellings[at] == token) return;
    if (at >= count || taken[at]) {
      throw RunError(fmt::format("{}: the token {} has the id {}; {} tokens have the ids 0 to {}, each once",
                                 parts.file, shown(token), id, count, count - 1));
    }
    taken[at] = true;
    spellings[at] = token;
  };
  for (const auto& [token, id] : parts.subwords->tokens()) place(token, id);
  for (const AddedToken& token : parts.added.all()) place(token.text, token.id);
  if (parts.around.largest() >= static_cast<std::int32_t>(count)) {
    throw RunError(fmt::format("{}: its template puts in the id {}; there are {} tokens", parts.file,
                               parts.around.largest(), count));
  }
  return spellings;
}

std::vector<std::string> decoded(const Pipeline& parts) {
  std::vector<std::string> tokens = spellings_of(parts);
  std::size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  std::size_t room = room_for(bytes);
  for (std::string& token : tokens) {
    token = parts.decode(std::move(token), false, room);
    room -= std::min(room, token.size());
  }
  return tokens;
}

}  // namespace

// Words that were seen, so that each is looked at once.
struct PipelineTokenizer::Known {
  static constexpr std::size_t kMost = 1 << 16;
  std::unordered_map<std::string, std::vector<std::int32_t>> words;
};

PipelineTokenizer::PipelineTokenizer(Pipeline parts)
    : Tokenizer(decoded(parts)), parts_(std::move(parts)), spellings_(spellings_of(parts_)) {}

std::string PipelineTokenizer::first_bytes(std::int32_t id) const {
  const std::string& token = spellings_[static_cast<std::size_t>(id)];
  return parts_.decode(token, true, room_for(token.size()));
}

nlohmann::ordered_json PipelineTokenizer::describe() const {
  return {{"kind", parts_.kind},
          {"vocabulary", tokens().size()},
          {"checksum", fmt::format("{:08x}", parts_.checksum)}};
}

std::optional<std::int32_t> PipelineTokenizer::end_of_text() const {
  return parts_.end_of_text.value_or(0) < vocabulary() ? parts_.end_of_text : std::nullopt;
}

std::int64_t PipelineTokenizer::least_rows() const {
  std::int32_t last = parts_.around.largest();
  for (const auto& [token, id] : parts_.subwords->tokens()) last = std::max(last, id);
  return std::int64_t{last} + 1;
}

void PipelineTokenizer::encode_part(std::string_view text, bool begins, Known& known, std::size_t& room,
                                    std::vector<std::int32_t>& ids) const {
  std::vector<Word> words;
  if (!text.empty()) words = parts_.split({{std::string(text), begins}}, room);
  room -= std::min(room, bytes_of(words));
  for (Word& word : words) {
    const auto found = known.words.find(word.text);
    if (found != known.words.end()) {
      ids.insert(ids.end(), found->second.begin(), found->second.end());
      continue;
    }
    const std::size_t before = ids.size();
    parts_.subwords->encode(word.text, ids);
    if (known.words.size() < Known::kMost) {
      known.words.emplace(std::move(word.text),
                          std::vector(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end()));
    }
  }
}

void PipelineTokenizer::encode_whole(std::string_view text, bool begins, Known& known,
                                     std::vector<std::int32_t>& ids) const {
  std::size_t room = room_for(text.size()), room_for_words = room;
  for (const TextPart& raw : parts_.added.raw().split(text)) {
    if (raw.token) {
      ids.push_back(*raw.token);
    } else {
      const std::string normal = parts_.normalize(std::string(raw.text), room);
      room -= std::min(room, normal.size());
      for (const TextPart& part : parts_.added.normalized().split(normal)) {
        if (part.token) {
          ids.push_back(*part.token);
        } else {
          encode_part(part.text, begins, known, room_for_words, ids);
        }
        begins = false;
      }
    }
    begins = false;
  }
}

std::size_t PipelineTokenizer::encode_from(std::string_view text, std::size_t first, std::size_t until,
                                           std::vector<std::int32_t>& ids) const {
  if (first >= text.size()) return first;
  Known known;
  const auto stretch = [&](std::string_view part) {
    const auto at = static_cast<std::size_t>(part.data() - text.data());
    check_utf8(text, at, at + part.size());
    std::vector<std::int32_t> out;
    encode_whole(part, at == 0, known, out);
    return out;
  };
  const std::size_t end = until < text.size() ? find_cut(text, first, until, stretch) : text.size();
  const std::vector<std::int32_t> found = encode_stretch(text, first, end, stretch);
  ids.insert(ids.end(), found.begin(), found.end());
  return end;
}

Sentences PipelineTokenizer::encode_sentences(std::string_view first, std::optional<std::string_view> second,
                                              std::size_t longest) const {
  std::optional<std::vector<std::int32_t>> other;
  if (second) other = encode(*second);
  return parts_.around.fill(encode(first), std::move(other), longest);
}

Sentences PipelineTokenizer::encode_words(std::span<const std::string> words, std::size_t longest,
                                          std::vector<std::size_t>& starts) const {
  std::vector<std::int32_t> ids;
  starts.clear();
  for (const std::string& word : words) {
    const std::vector<std::int32_t> of_word = encode(" " + word);
    starts.push_back(of_word.empty() ? kNoStart : ids.size());
    ids.insert(ids.end(), of_word.begin(), of_word.end());
  }
  Sentences put = parts_.around.fill(ids, {}, longest);
  const std::size_t around = parts_.around.fill({}, {}, 0).ids.size(), kept = put.ids.size() - around,
                    before = parts_.around.before().size();
  for (std::size_t& start : starts) {
    if (start != kNoStart) start = start < kept ? start + before : kNoStart;
  }
  return put;
}

}  // namespace lpmm
