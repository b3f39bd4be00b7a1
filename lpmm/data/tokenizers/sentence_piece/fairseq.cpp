#include "lpmm/data/tokenizers/sentence_piece/fairseq.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizers/sentence_piece/charsmap.h"
#include "lpmm/data/tokenizers/sentence_piece/message.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

using nlohmann::json;

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (unsigned k = 0; k < 4; ++k) out += k <= count ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

json entry_of(const Piece& piece) {
  return json::array({std::string(piece.text), piece.score});
}

json special_token(const char* text, std::size_t id) {
  // As published: what is masked is a word with the space before it.
  return {{"id", id},
          {"content", text},
          {"special", true},
          {"lstrip", std::string_view(text) == "<mask>"},
          {"normalized", false}};
}

}  // namespace

json fairseq_document(const std::string& path, bool is_camembert) {
  constexpr std::uint64_t kMost = 64 << 20;
  constexpr std::size_t kControls = 3;  // <unk>, <s>, </s>
  constexpr std::uint32_t kNormalizer = 3, kCharsmap = 2;
  const std::string model = read_text(path, kMost);
  check_charsmaps(path, model);
  const std::vector<Piece> pieces = read_pieces(model, path);
  if (pieces.size() <= kControls) throw RunError(fmt::format("{}: has no pieces", path));
  // CamemBERT has the controls of both, of which those of the model count.
  const std::vector<const char*> controls =
      is_camembert ? std::vector{"<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"}
                   : std::vector{"<s>", "<pad>", "</s>", "<unk>"};
  json vocabulary = json::array();
  for (const char* control : controls) vocabulary.push_back(json::array({control, 0.0}));
  const std::size_t first = is_camembert ? vocabulary.size() : 0, last = is_camembert ? first + 1 : 2;
  if (is_camembert) {
    constexpr double kNever = -100;
    vocabulary.back()[1] = kNever;
    for (std::size_t i = 1; i < kControls; ++i) vocabulary.push_back(entry_of(pieces[i]));
  }
  for (std::size_t i = kControls; i < pieces.size(); ++i) vocabulary.push_back(entry_of(pieces[i]));
  vocabulary.push_back(json::array({"<mask>", 0.0}));
  const json added = {special_token("<s>", first), special_token("<pad>", 1), special_token("</s>", last),
                      special_token("<unk>", 3), special_token("<mask>", vocabulary.size() - 1)};
  json document = {
      {"model", {{"type", "Unigram"}, {"unk_id", 3}, {"vocab", std::move(vocabulary)}}},
      {"added_tokens", added},
      {"pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", {{{"type", "WhitespaceSplit"}}, {{"type", "Metaspace"}}}}}},
      {"decoder", {{"type", "Metaspace"}}},
      {"post_processor", {{"type", "RobertaProcessing"}, {"cls", {"<s>", first}}, {"sep", {"</s>", last}}}}};
  std::vector<std::string_view> specs, maps;
  find_fields(model, kNormalizer, FieldKind::kBytes, specs);
  for (const std::string_view spec : specs) find_fields(spec, kCharsmap, FieldKind::kBytes, maps);
  if (!maps.empty() && !maps.back().empty())
    document["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", base64(maps.back())}};
  return document;
}

}  // namespace lpmm
