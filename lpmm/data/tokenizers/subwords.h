// The model of a tokenizer.json: a word to the ids of its parts. BPE (Sennrich et al. 2016), WordPiece
// (Schuster and Nakajima 2012), Unigram (Kudo 2018), and whole words.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lpmm {

class Part;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
using TokenIds = std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>>;

// Never changes after it is made.
class Subwords {
 public:
  virtual ~Subwords() = default;
  // Appends the ids of `word`, UTF-8.
  virtual void encode(std::string_view word, std::vector<std::int32_t>& ids) const = 0;
  const TokenIds& tokens() const { return ids_; }

 protected:
  explicit Subwords(TokenIds ids) : ids_(std::move(ids)) {}
  std::int32_t find(std::string_view token) const {  // -1: there is none
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }

 private:
  TokenIds ids_;
};

// The member "model". Throws RunError for what is not supported, for ids that are none, and for merges of
// tokens that are not there.
std::unique_ptr<Subwords> make_subwords(const Part& file);
std::unique_ptr<Subwords> make_bpe(const Part& model);
std::unique_ptr<Subwords> make_word_piece(const Part& model);
std::unique_ptr<Subwords> make_unigram(const Part& model);
std::unique_ptr<Subwords> make_word_piece(TokenIds ids, const std::string& unknown, const std::string& prefix,
                                          std::size_t longest);

// The member "vocab".
TokenIds read_vocabulary(const Part& model);
// The member "merges": "a b" or ["a", "b"].
std::vector<std::pair<std::string, std::string>> read_merges(const Part& model);

}  // namespace lpmm
