// The protobuf message that a SentencePiece model is, as far as this program reads it without its library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lpmm {

// How fields are stored that are read here: texts and messages, and floats.
enum class FieldKind : std::uint8_t { kBytes = 2, kFourBytes = 5 };

// Appends what the fields `number` of that kind hold; false where it is no message.
bool find_fields(std::string_view message, std::uint32_t number, FieldKind kind,
                 std::vector<std::string_view>& found);
// The first number in a field; nothing where there is none, or no message.
std::optional<std::uint64_t> find_number(std::string_view message, std::uint32_t number);
// The first four of `bytes` from `at` on, the lowest first.
std::uint32_t uint32_at(std::string_view bytes, std::size_t at);

struct Piece {
  static constexpr std::uint64_t kNormal = 1, kUnknown = 2, kControl = 3;  // types
  std::string_view text;                                                   // within the model
  float score = 0;
  std::uint64_t type = kNormal;
};
// The pieces of a model, in the order of their ids. Throws RunError, with `path`, where one is damaged.
std::vector<Piece> read_pieces(std::string_view model, const std::string& path);

}  // namespace lpmm
