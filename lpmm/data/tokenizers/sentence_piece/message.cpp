#include "lpmm/data/tokenizers/sentence_piece/message.h"

#include <fmt/format.h>

#include <bit>
#include <optional>

#include "lpmm/base/error.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

// Takes a number off the start of a protobuf message; nothing where there is none.
std::optional<std::uint64_t> take_varint(std::string_view& rest) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

enum Kind { kNumber = 0, kEightBytes = 1, kBytes = 2, kFourBytes = 5 };  // others no model has

// Takes a field off the start of a message: its number, as the library reads it, from 32 bits of the key, its
// kind, and its value or bytes. Nothing where there is none.
struct Field {
  std::uint32_t number = 0;
  int kind = 0;
  std::uint64_t value = 0;
  std::string_view bytes;
};
std::optional<Field> take_field(std::string_view& message) {
  const auto key = take_varint(message);
  if (!key) return std::nullopt;
  Field field;
  field.number = static_cast<std::uint32_t>(*key) >> 3;
  field.kind = static_cast<int>(*key & 7);
  if (field.kind == kNumber) {
    const auto value = take_varint(message);
    field.value = value.value_or(0);
    return value ? std::optional(field) : std::nullopt;
  }
  std::optional<std::uint64_t> bytes;
  if (field.kind == kEightBytes) bytes = 8;
  if (field.kind == kBytes) bytes = take_varint(message);
  if (field.kind == kFourBytes) bytes = 4;
  if (!bytes || *bytes > message.size()) return std::nullopt;
  field.bytes = message.substr(0, *bytes);
  message.remove_prefix(*bytes);
  return field;
}

}  // namespace

bool find_fields(std::string_view message, std::uint32_t number, FieldKind wanted,
                 std::vector<std::string_view>& found) {
  while (!message.empty()) {
    const auto field = take_field(message);
    if (!field) return false;
    if (field->kind == static_cast<int>(wanted) && field->number == number) found.push_back(field->bytes);
  }
  return true;
}

std::optional<std::uint64_t> find_number(std::string_view message, std::uint32_t number) {
  while (!message.empty()) {
    const auto field = take_field(message);
    if (!field) return std::nullopt;
    if (field->kind == kNumber && field->number == number) return field->value;
  }
  return std::nullopt;
}

std::uint32_t uint32_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) value |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << 8 * i;
  return value;
}

std::vector<Piece> read_pieces(std::string_view model, const std::string& path) {
  constexpr std::uint32_t kPieces = 1, kText = 1, kScore = 2, kType = 3;
  std::vector<std::string_view> messages;
  const bool is_model = find_fields(model, kPieces, FieldKind::kBytes, messages);
  std::vector<Piece> pieces;
  for (const std::string_view message : messages) {
    std::vector<std::string_view> texts, scores;
    const bool good = find_fields(message, kText, FieldKind::kBytes, texts) &&
                      find_fields(message, kScore, FieldKind::kFourBytes, scores);
    if (!good || texts.size() != 1 || scores.size() > 1 || first_bad_byte(texts[0]) != std::string::npos) {
      throw RunError(fmt::format("{}: piece {} of the SentencePiece model is damaged", path, pieces.size()));
    }
    pieces.push_back({texts[0], scores.empty() ? 0 : std::bit_cast<float>(uint32_at(scores[0], 0)),
                      find_number(message, kType).value_or(Piece::kNormal)});
  }
  if (!is_model) throw RunError(fmt::format("{}: is no SentencePiece model", path));
  return pieces;
}

}  // namespace lpmm
