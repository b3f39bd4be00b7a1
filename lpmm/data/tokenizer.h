// Text to token ids and back: bytes, characters, words, GPT-2's byte-level BPE (Radford et al. 2019), and
// what others publish as tokenizer.json, vocab.txt, a SentencePiece model, or Marian's two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lpmm/base/progress.h"

namespace lpmm {

// GPT-2's tokenizer: its name in data.tokenizer, the names of its files at OpenAI and at Hugging Face, and
// the number of OpenAI's tokens.
inline constexpr std::string_view kGpt2Tokenizer = "gpt2", kGpt2Tokens = "encoder.json",
                                  kGpt2Merges = "vocab.bpe", kHuggingFaceTokens = "vocab.json",
                                  kHuggingFaceMerges = "merges.txt";
inline constexpr int kGpt2Vocabulary = 50257;
inline constexpr std::string_view kWords = "words";
// Files that hold a whole tokenizer, under the names that others give them.
inline constexpr std::string_view kTokenizerJson = "tokenizer.json", kVocabTxt = "vocab.txt",
                                  kSentencePiece = "sentencepiece", kSentencePieceFile = "tokenizer.model";
inline constexpr std::string_view kMarianTokenizer = "marian";  // a folder of several

// Never changes after it is made and fit() was called, so any number of threads may use one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Ids are 0 to vocabulary() - 1.
  std::int64_t vocabulary() const { return vocabulary_; }
  // Fits a model that has rows for so many tokens only: the rest, which must all be added ones, are left out,
  // and encode() refuses a text that has one. Call it before others use the tokenizer. Returns the first few,
  // for a message; empty, and nothing is left out: there is a row for each, or other tokens lack one too.
  std::string fit(std::int64_t rows);
  // Throws UsageError naming the byte offset of what is not UTF-8 (bytes takes all) or has no id. `progress`
  // counts bytes.
  std::vector<std::int32_t> encode(std::string_view text, const ProgressCall& progress = {}) const;
  // The same in pieces, to bound memory: appends the ids of the words of `text` from byte `first` on, up to
  // the first word end at or after byte `until`, and returns that. `first` is 0 or what was returned before.
  // One of GPT-2's words takes about 50 bytes per byte meanwhile.
  virtual std::size_t encode_from(std::string_view text, std::size_t first, std::size_t until,
                                  std::vector<std::int32_t>& ids) const = 0;
  // Returns bytes, which need not be UTF-8 for ids that were not encoded from a text. `begins`: the ids begin
  // a text, where some tokenizers leave out a space; otherwise they continue one. Throws UsageError for an id
  // past the vocabulary.
  std::string decode(std::span<const std::int32_t> ids, bool begins = true) const;
  // The description for make_tokenizer: {"kind": "bytes"}, {"kind": "characters", "characters": all in order
  // of id}, {"kind": "words", "words": all in order of id}, or of tokenizers in files {"kind": "gpt2" or what
  // the file is, "vocabulary": n, "checksum": CRC-32 of what the file says}.
  virtual nlohmann::ordered_json describe() const = 0;
  // The id that ends a document, where there is one. For gpt2 its name in a text is text; a tokenizer.json
  // takes its special tokens out of a text.
  virtual std::optional<std::int32_t> end_of_text() const { return std::nullopt; }
  // The tokens that its models expect before a text, such as a Llama's <s>. encode() does not add them.
  virtual std::vector<std::int32_t> before_text() const { return {}; }
  // The tokenizer of the language that a translator writes, where it is another; ids mean the same.
  virtual const Tokenizer& target() const { return *this; }
  // The token that its translators begin with, where that is not the end of a text.
  virtual std::optional<std::int32_t> before_translation() const { return std::nullopt; }

 protected:
  explicit Tokenizer(std::vector<std::string> tokens)
      : tokens_(std::move(tokens)), vocabulary_(static_cast<std::int64_t>(tokens_.size())) {}
  const std::vector<std::string>& tokens() const { return tokens_; }  // their bytes within a text, by id

 private:
  virtual std::string first_bytes(std::int32_t id) const { return tokens_[static_cast<std::size_t>(id)]; }
  // The final form of a text that was decoded from its beginning.
  virtual std::string finished(std::string text) const { return text; }

  // Returns how many tokens must have a row: all but the last ones that were added.
  virtual std::int64_t least_rows() const { return static_cast<std::int64_t>(tokens_.size()); }

  std::vector<std::string> tokens_;
  std::int64_t vocabulary_;
};

// 256 ids, one per byte.
std::unique_ptr<Tokenizer> make_byte_tokenizer();
// One id for each distinct character (code point) of `text`, in code point order. Throws UsageError where the
// text is empty or not UTF-8.
std::unique_ptr<Tokenizer> make_character_tokenizer(std::string_view text);
// A word is what lies between white space. Keeps the `most` most frequent (0: all), the earlier of equals
// first; a line end is <eos>, the rest <unk>. Decoded words are followed by a space. Throws UsageError where
// the text is empty or not UTF-8.
std::unique_ptr<Tokenizer> make_word_tokenizer(std::string_view text, std::int64_t most);
// The same of words as describe() lists them. Throws RunError where they are not such a list.
std::unique_ptr<Tokenizer> make_word_tokenizer(std::string_view listed);
// GPT-2's, or one like it, from `folder`/encoder.json and `folder`/vocab.bpe as OpenAI wrote them, or under
// Hugging Face's names. Throws RunError naming the file and what is wrong with it.
std::unique_ptr<Tokenizer> load_gpt2_tokenizer(const std::string& folder);
// How runs of a version read a SentencePiece model. kSpaced: its texts, and what follows added tokens, begin
// with a space, whatever the files beside say. kAsked: as these say. kControls: <s> in a text is that token.
enum class SentencePieceAge { kSpaced, kAsked, kControls };
// Loads a tokenizer.json, BERT's vocab.txt, a vocab.json with its merges.txt or a SentencePiece model, or a
// folder that holds one of them or Marian's files. Throws RunError naming the file and the part of it that is
// wrong or not supported.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path,
                                          SentencePieceAge age = SentencePieceAge::kControls);
// Returns true if GPT-2's files in a folder, with Hugging Face's names, are read as OpenAI's: nothing there
// adds a token but <|endoftext|>.
bool is_plain_gpt2(const std::string& folder);
// The path that load_tokenizer takes for a folder: the file, or the folder itself where it holds Marian's
// files; empty where there is none.
std::string tokenizer_in(const std::string& folder);
// The files that load_tokenizer reads of it; empty where there are none.
std::vector<std::string> tokenizer_paths(const std::string& path);
// The name by which such a file of a tokenizer is found in a folder. `kind`: as describe() has it.
std::string standard_tokenizer_name(std::string_view kind, const std::string& file);
// Copies a tokenizer's files, and those beside it, into `folder`, which load_tokenizer then takes.
void copy_tokenizer(const std::string& path, std::string_view kind, const std::string& folder);
// The tokenizer that describe() described; `files` is where those that lie in files are, gpt2's folder or
// what load_tokenizer takes. Throws RunError where the description is none, or the files are not those it was
// made from.
std::unique_ptr<Tokenizer> make_tokenizer(const nlohmann::ordered_json& description,
                                          const std::string& files);

// Returns the end of the word that starts at byte `at` < text.size(), as GPT-2 splits a text before merges:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// \s is Unicode's White_Space. Letters and numbers are those of the installed utf8proc: characters that a
// later Unicode assigns may split otherwise there. Throws UsageError naming the offset of what is not UTF-8.
std::size_t gpt2_word_end(std::string_view text, std::size_t at);

// Makes whole characters of bytes that come in pieces of any size, as decoded tokens do. Each longest part of
// no character becomes one U+FFFD, as Unicode recommends.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);  // the complete characters; at most 3 bytes are held back
  std::string finish();                      // U+FFFD where bytes were held back; ready for another text

 private:
  std::string held_;
};

}  // namespace lpmm
