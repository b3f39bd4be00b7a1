// WordPiece: the longest token that a word starts with, then the longest that goes on.
#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/tokenizers/subwords.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

class WordPiece : public Subwords {
 public:
  WordPiece(TokenIds ids, std::int32_t unknown, std::string prefix, std::size_t longest)
      : Subwords(std::move(ids)), unknown_(unknown), prefix_(std::move(prefix)), longest_(longest) {}

  void encode(std::string_view word, std::vector<std::int32_t>& ids) const override {
    std::vector<std::size_t> ends;  // of its characters
    for (std::size_t at = 0; at < word.size(); ends.push_back(at))
      at += first_character(word.substr(at)).bytes;
    if (ends.size() > longest_) return ids.push_back(unknown_);
    const std::size_t before = ids.size();
    std::string token;
    for (std::size_t first = 0; first < ends.size();) {
      const std::size_t begin = first == 0 ? 0 : ends[first - 1];
      std::size_t last = ends.size();
      std::int32_t id = -1;
      for (; last > first && id < 0; --last) {
        token = first == 0 ? "" : prefix_;
        token += word.substr(begin, ends[last - 1] - begin);
        id = find(token);
      }
      if (id < 0) {  // one part is unknown: so is the word
        ids.resize(before);
        return ids.push_back(unknown_);
      }
      ids.push_back(id);
      first = last + 1;
    }
  }

 private:
  std::int32_t unknown_;
  std::string prefix_;
  std::size_t longest_;
};

}  // namespace

std::unique_ptr<Subwords> make_word_piece(TokenIds ids, const std::string& unknown, const std::string& prefix,
                                          std::size_t longest) {
  const auto found = ids.find(unknown);
  if (found == ids.end()) throw RunError("the token of unknown words is none of its vocabulary");
  const std::int32_t id = found->second;
  return std::make_unique<WordPiece>(std::move(ids), id, prefix, longest);
}

std::unique_ptr<Subwords> make_word_piece(const Part& model) {
  const auto longest = model.integer("max_input_chars_per_word", 1, 1000, 100);
  try {
    return make_word_piece(read_vocabulary(model), model.text("unk_token", "[UNK]"),
                           model.text("continuing_subword_prefix", "##"), static_cast<std::size_t>(longest));
  } catch (const RunError& e) {
    const std::string what = e.what();
    throw what.starts_with(model.file()) ? e : model.refusal(what);
  }
}

}  // namespace lpmm
