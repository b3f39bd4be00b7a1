// The tokens that a tokenizer.json puts around a sentence, or around a pair of them: [CLS] A [SEP] B [SEP].
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lpmm {

class Part;

// The input of models of sentences: ids, and for each the sentence that it belongs to.
struct Sentences {
  std::vector<std::int32_t> ids, types;
  bool is_cut = false;  // they were longer
};

class SentenceTemplate {
 public:
  struct Item {
    std::vector<std::int32_t> ids;  // of a special token; none: sentence
    int sentence = 0;               // 0 or 1
    std::int32_t type = 0;
  };
  SentenceTemplate();  // the sentences alone
  // The member "post_processor". Throws RunError for what is not supported.
  explicit SentenceTemplate(const Part& file);
  // [CLS] A [SEP] B [SEP], as BERT has it.
  static SentenceTemplate bert(std::int32_t cls, std::int32_t sep);

  // Fills in at most `longest` ids in all, if that is not 0: the longer sentence is cut first, at its end.
  // Throws UsageError where not even the template fits.
  Sentences fill(std::vector<std::int32_t> first, std::optional<std::vector<std::int32_t>> second,
                 std::size_t longest) const;
  std::vector<std::int32_t> before() const;  // ids that it puts before a sentence alone
  // The largest id that it puts in; -1: none.
  std::int32_t largest() const;

 private:
  void read(const Part& part);
  std::vector<Item> single_, pair_;
};

}  // namespace lpmm
