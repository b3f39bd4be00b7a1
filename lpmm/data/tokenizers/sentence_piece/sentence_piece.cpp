#include "lpmm/data/tokenizers/sentence_piece/sentence_piece.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/data/tokenizers/cuts.h"
#include "lpmm/data/tokenizers/sentence_piece/charsmap.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"
#include "lpmm/files/gz_file.h"

namespace lpmm {
namespace {

using sentencepiece::SentencePieceProcessor;

constexpr std::string_view kSpace = "\u2581";

std::string byte_of(const std::string& piece) {  // <0x0A>
  return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};
}

// What a piece is within a text; another than that of `id` where the model does not have it.
std::string bytes_of(const SentencePieceProcessor& model, int id, std::string piece) {
  if (model.IsControl(id)) return "";
  if (model.IsByte(id)) return byte_of(piece);
  if (model.IsUnknown(id) && piece == model.IdToPiece(id)) return " \u2047 ";  // as the library shows it
  for (std::size_t at = piece.find(kSpace); at != std::string::npos; at = piece.find(kSpace, at)) {
    piece.replace(at, kSpace.size(), " ");
  }
  return piece;
}

std::vector<std::string> pieces_of(const SentencePieceProcessor& model) {
  std::vector<std::string> tokens;
  for (int id = 0; id < model.GetPieceSize(); ++id) {
    tokens.push_back(bytes_of(model, id, model.IdToPiece(id)));
  }
  return tokens;
}

constexpr std::size_t kLongestLine = 1 << 21, kLongestStretch = 1 << 23;

// The ids or the pieces of at most `most` bytes; the library takes 230 times as much memory for each.
template <class Pieces>
void encode_at_once(const SentencePieceProcessor& model, std::string_view text, std::size_t most,
                    Pieces& pieces) {
  if (text.size() > most) {
    throw UsageError(fmt::format(
        "{} bytes without a line end, of which SentencePiece can take {}: break the text into lines",
        text.size(), most));
  }
  if (!model.Encode({text.data(), text.size()}, &pieces).ok()) {
    throw UsageError("SentencePiece refuses the text");
  }
}

// What SentencePiece says behind the line of its source; empty where that is all.
std::string said_by(const sentencepiece::util::Status& status) {
  std::string told = printable(status.message());
  if (const std::size_t end = told.rfind("] "); end != std::string::npos) told.erase(0, end + 2);
  const bool is_code = told.find(".cc(") != std::string::npos || told.ends_with(']');
  return is_code ? "" : told;
}

std::unique_ptr<SentencePieceProcessor> read_model(const std::string& path, const std::string& file) {
  check_charsmaps(path, file);  // before the library runs the tests that a model brings along
  auto model = std::make_unique<SentencePieceProcessor>();
  const auto status = model->LoadFromSerializedProto(file);
  if (!status.ok() || model->GetPieceSize() < 1) {
    const std::string why = status.ok() ? "it has no pieces" : said_by(status);
    throw RunError(fmt::format("{}: is no SentencePiece model{}{}", path, why.empty() ? "" : ": ", why));
  }
  return model;
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(std::unique_ptr<SentencePieceProcessor> model, std::uint32_t checksum)
      : Tokenizer(pieces_of(*model)), model_(std::move(model)), checksum_(checksum) {
    // Most models put a space before a text, which they take away again.
    std::vector<int> a, b, both;
    const bool ok =
        model_->Encode("a", &a).ok() && model_->Encode("b", &b).ok() && model_->Encode("a\nb", &both).ok();
    spaced_ = ok && !a.empty() && model_->IdToPiece(a[0]).starts_with(kSpace);
    a.insert(a.end(), b.begin(), b.end());
    lines_apart_ = ok && a == both;
  }

  std::size_t encode_from(std::string_view text, std::size_t first, std::size_t until,
                          std::vector<std::int32_t>& ids) const override {
    const auto stretch = [&](std::string_view part) {
      const auto at = static_cast<std::size_t>(part.data() - text.data());
      check_utf8(text, at, at + part.size());
      std::vector<int> out;
      encode_at_once(*model_, part, lines_apart_ ? kLongestLine : kLongestStretch, out);
      return std::vector<std::int32_t>(out.begin(), out.end());
    };
    const auto append = [&](const std::vector<std::int32_t>& found) {
      ids.insert(ids.end(), found.begin(), found.end());
    };
    std::size_t at = first;
    while (lines_apart_ && at < std::min(until, text.size())) {
      const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
      append(stretch(text.substr(at, end - at)));
      at = end;
    }
    if (lines_apart_ || first >= text.size()) return at;
    const std::size_t end = until < text.size() ? find_cut(text, first, until, stretch) : text.size();
    append(encode_stretch(text, first, end, stretch));
    return end;
  }
  nlohmann::ordered_json describe() const override {
    return {{"kind", kSentencePiece},
            {"vocabulary", vocabulary()},
            {"checksum", fmt::format("{:08x}", checksum_)}};
  }
  std::optional<std::int32_t> end_of_text() const override {
    return model_->eos_id() < 0 ? std::nullopt : std::optional<std::int32_t>(model_->eos_id());
  }

 private:
  std::string first_bytes(std::int32_t id) const override {
    const std::string& token = tokens()[static_cast<std::size_t>(id)];
    return spaced_ && token.starts_with(' ') && !model_->IsUnknown(id) ? token.substr(1) : token;
  }

  std::unique_ptr<SentencePieceProcessor> model_;
  std::uint32_t checksum_;
  bool spaced_ = false;
  // Line ends are spaces to it. Lines one by one then: its sums over a long text are too coarse to find the
  // best pieces.
  bool lines_apart_ = false;
};

class LibraryPieces : public SentencePieces {
 public:
  explicit LibraryPieces(std::unique_ptr<SentencePieceProcessor> model) : model_(std::move(model)) {}
  std::vector<std::string> cut(std::string_view text) const override {
    std::vector<std::string> pieces;
    encode_at_once(*model_, text, kLongestLine, pieces);
    return pieces;
  }
  std::string within_text(const std::string& piece) const override {
    return bytes_of(*model_, model_->PieceToId(piece), piece);
  }

 private:
  std::unique_ptr<SentencePieceProcessor> model_;
};

// What SentencePiece said, in this program's words.
std::string why_not_trained(const SentencePieceOptions& options, std::string told) {
  const std::pair<std::string_view, std::string_view> words[] = {
      {"vocab_size", "--vocabulary"}, {"character_coverage", "--coverage"}, {"----", "--"}};
  for (const auto& [theirs, ours] : words) {
    for (std::size_t at; (at = told.find(theirs)) != std::string::npos;)
      told.replace(at, theirs.size(), ours);
  }
  return fmt::format("no {} tokenizer of {} pieces can be made of these texts{}", options.type,
                     options.vocabulary,
                     told.empty() ? "; more text, or a smaller --vocabulary, may help" : ": " + told);
}

}  // namespace

std::unique_ptr<Tokenizer> load_sentence_piece(const std::string& path, bool spaced) {
  constexpr std::uint64_t kMost = 64 << 20;
  // normalizer_spec { add_dummy_prefix: false }: of a message's fields the last one counts.
  constexpr std::string_view kUnspaced("\x1A\x02\x18\x00", 4);
  std::string file = read_text(path, kMost);
  if (!spaced) file += kUnspaced;
  return std::make_unique<SentencePieceTokenizer>(read_model(path, file),
                                                  crc32(std::as_bytes(std::span(file))));
}

std::unique_ptr<SentencePieces> read_sentence_pieces(const std::string& path, const std::string& file) {
  return std::make_unique<LibraryPieces>(read_model(path, file));
}

namespace {

// The lines of texts, one after another.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::vector<std::string> texts) : texts_(std::move(texts)) { Next(); }
  bool done() const override { return text_ == texts_.size(); }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }
  void Next() override {
    while (!done() && at_ >= texts_[text_].size()) {
      ++text_;
      at_ = 0;
    }
    if (done()) return;
    const std::string& text = texts_[text_];
    const std::size_t end = std::min(text.find('\n', at_), text.size());
    line_ = text.substr(at_, end - at_);
    at_ = end + 1;
  }

 private:
  std::vector<std::string> texts_;
  std::size_t text_ = 0, at_ = 0;
  std::string line_;
};

}  // namespace

std::string train_sentence_piece(const SentencePieceOptions& options, const std::vector<std::string>& files) {
  std::vector<std::string> texts;
  for (const std::string& file : files) {
    const std::string found = find_plain_or_gz(file);
    if (found.empty()) throw RunError(fmt::format("{}: is no file", file));
    texts.push_back(read_plain_or_gz(found));
  }
  Lines lines(std::move(texts));
  const std::unordered_map<std::string, std::string> settings = {
      {"model_type", options.type},
      {"vocab_size", std::to_string(options.vocabulary)},
      {"character_coverage", fmt::format("{}", options.coverage)},
      {"max_sentence_length", "1000000"},
      {"num_threads", "4"},  // sums depend on how many there are
      {"minloglevel", "2"}};
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &lines, &model);
  if (!status.ok()) throw UsageError(why_not_trained(options, said_by(status)));
  return model;
}

}  // namespace lpmm
