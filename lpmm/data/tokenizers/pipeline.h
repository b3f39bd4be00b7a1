// The general tokenizer: takes added tokens out, normalises, splits into words, and words into subwords. Made
// from Hugging Face's tokenizer.json, from BERT's vocab.txt, or from vocab.json and merges.txt.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/data/tokenizer.h"
#include "lpmm/data/tokenizers/added_tokens.h"
#include "lpmm/data/tokenizers/decoder.h"
#include "lpmm/data/tokenizers/normalizer.h"
#include "lpmm/data/tokenizers/pre_tokenizer.h"
#include "lpmm/data/tokenizers/subwords.h"
#include "lpmm/data/tokenizers/template.h"

namespace lpmm {

struct Pipeline {
  AddedTokens added;
  Normalizer normalize;
  PreTokenizer split;
  std::unique_ptr<Subwords> subwords;
  Decoder decode;
  SentenceTemplate around;
  std::string file = {};  // in messages
  std::string kind = {};  // of the file: tokenizer.json, vocab.txt or vocab.json
  std::uint32_t checksum = 0;
  std::optional<std::int32_t> end_of_text = {};
};

// Never cuts a text but at a line end where that changes nothing, so that a tokenizer whose words go on over
// line ends takes the whole text at once. Throws RunError naming the stage that makes far too much of a text.
// Unlike GPT-2's, finds special tokens by their names in a text, as the `tokenizers` library does.
class PipelineTokenizer : public Tokenizer {
 public:
  // Throws RunError naming the file where ids are not 0 and up, each once, or decoding makes too much of
  // them.
  explicit PipelineTokenizer(Pipeline parts);

  std::size_t encode_from(std::string_view text, std::size_t first, std::size_t until,
                          std::vector<std::int32_t>& ids) const override;
  nlohmann::ordered_json describe() const override;
  std::optional<std::int32_t> end_of_text() const override;
  std::int64_t least_rows() const override;
  std::vector<std::int32_t> before_text() const override { return parts_.around.before(); }
  // A sentence, or two, within what the model was trained with around them; `longest` 0: of any length.
  // Throws what encode() throws, and UsageError where `longest` has no room for what is around.
  Sentences encode_sentences(std::string_view first, std::optional<std::string_view> second = {},
                             std::size_t longest = 0) const;

  // The same of a sentence whose words are given, each tokenized alone with a space before it. `starts` gets
  // where the ids of each word begin, kNoStart for one that has none or was cut.
  static constexpr std::size_t kNoStart = static_cast<std::size_t>(-1);
  Sentences encode_words(std::span<const std::string> words, std::size_t longest,
                         std::vector<std::size_t>& starts) const;

 private:
  std::string first_bytes(std::int32_t id) const override;
  struct Known;
  void encode_whole(std::string_view text, bool begins, Known& known, std::vector<std::int32_t>& ids) const;
  void encode_part(std::string_view text, bool begins, Known& known, std::size_t& room,
                   std::vector<std::int32_t>& ids) const;

  Pipeline parts_;
  std::vector<std::string> spellings_;  // of tokens, by id
};

// Loads a tokenizer.json, BERT's vocab.txt, a vocab.json with its merges.txt, or a folder that holds one of
// them. Throws RunError naming the file and the part of it that is wrong or not supported.
std::unique_ptr<PipelineTokenizer> load_pipeline_tokenizer(const std::string& path);

}  // namespace lpmm
