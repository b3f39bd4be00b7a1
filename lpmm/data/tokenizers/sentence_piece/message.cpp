#include "lpmm/data/tokenizers/sentence_piece/message.h"

#include <optional>

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

}  // namespace

bool find_fields(std::string_view message, std::uint32_t number, FieldKind wanted,
                 std::vector<std::string_view>& found) {
  enum { kNumber = 0, kEightBytes = 1, kBytes = 2, kFourBytes = 5 };  // others no model has
  while (!message.empty()) {
    const auto key = take_varint(message);
    if (!key) return false;
    const auto kind = static_cast<int>(*key & 7);
    std::optional<std::uint64_t> bytes;
    if (kind == kNumber && take_varint(message)) bytes = 0;
    if (kind == kEightBytes) bytes = 8;
    if (kind == kBytes) bytes = take_varint(message);
    if (kind == kFourBytes) bytes = 4;
    if (!bytes || *bytes > message.size()) return false;
    // The library reads 32 bits of a key.
    if (kind == static_cast<int>(wanted) && static_cast<std::uint32_t>(*key) >> 3 == number) {
      found.push_back(message.substr(0, *bytes));
    }
    message.remove_prefix(*bytes);
  }
  return true;
}

std::uint32_t uint32_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) value |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << 8 * i;
  return value;
}

}  // namespace lpmm
