#include "lpmm/data/tokenizers/sentence_piece/charsmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

using Views = std::vector<std::string_view>;

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

// Appends what the fields `number` of a protobuf message hold; false where it is no message.
bool find_fields(std::string_view message, std::uint32_t number, Views& found) {
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
    if (kind == kBytes && static_cast<std::uint32_t>(*key) >> 3 == number) {
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

// A double array as Darts-clone searches it: a node's base is its place ^ its offset, the node that a byte
// leads to has that label and lies at base ^ byte, and a value lies at the base.
class CharsTrie {
 public:
  CharsTrie(std::string_view units, std::string_view texts)
      : units_(units), texts_(texts), states_(units.size() / 4, kNew) {}

  // What is wrong with all that can be reached; empty: nothing.
  std::string_view damage() {
    if (units_.empty() || units_.size() % 1024 != 0) return "it is cut off";  // 256 units by 256
    find_children();
    std::string_view why = enter(0);
    while (why.empty() && !open_.empty()) {
      Open& node = open_.back();
      const std::uint32_t child = node.next;
      if (child == kNone) {
        why = leave();
        continue;
      }
      node.next = others_[child];
      if (states_[child] >= kDone) {
        node.below = std::max(node.below, states_[child] - kDone);
      } else {
        why = states_[child] == kNew ? enter(child) : "its tree goes round in a circle";
      }
    }
    return why;
  }

 private:
  struct Open {
    std::uint32_t at, next;  // its next child
    int below = 0;           // most values on a way down from here
  };
  enum State : std::uint8_t { kNew, kOpen, kDone };  // and on: kDone + values on a way down
  static constexpr std::uint32_t kNone = ~0U, kValue = 1U << 31;

  std::uint32_t unit(std::uint32_t at) const { return uint32_at(units_, std::size_t{4} * at); }
  std::uint32_t base(std::uint32_t at) const {
    const std::uint32_t one = unit(at);
    return at ^ (one >> 10 << ((one & 1U << 9) >> 6));
  }
  bool has_value(std::uint32_t at) const { return at != 0 && (unit(at) >> 8 & 1) != 0; }

  void find_children() {
    children_.assign(states_.size(), kNone);
    others_.assign(states_.size(), kNone);
    for (std::uint32_t at = 0; at < states_.size(); ++at) {
      if ((unit(at) & kValue) == 0) others_[at] = std::exchange(children_[at ^ (unit(at) & 0xFF)], at);
    }
  }
  std::string_view enter(std::uint32_t at) {
    constexpr std::size_t kLongest = 1 << 10;  // real ones have 33 bytes; a text must not explode
    const std::uint32_t to = base(at);
    if (to >= states_.size()) return "its tree leads out of it";
    if (has_value(at)) {
      const std::size_t text = unit(to) & ~kValue;
      if (text >= texts_.size()) return "its tree leads to a text that is not there";
      if (texts_.substr(text, kLongest).find('\0') == std::string_view::npos)
        return "a text in it is too long";
    }
    states_[at] = kOpen;
    open_.push_back({at, children_[to]});
    return "";
  }
  std::string_view leave() {
    constexpr int kMost = 32;  // as many the library has room for
    const Open node = open_.back();
    const int values = node.below + (has_value(node.at) ? 1 : 0);
    if (values > kMost) return "its tree is too deep";
    states_[node.at] = static_cast<std::uint8_t>(kDone + values);
    open_.pop_back();
    if (!open_.empty()) open_.back().below = std::max(open_.back().below, values);
    return "";
  }

  std::string_view units_, texts_;
  std::vector<std::uint8_t> states_;     // by place
  std::vector<std::uint32_t> children_;  // by base: the last of them
  std::vector<std::uint32_t> others_;    // by child: another of the same base
  std::vector<Open> open_;               // the way to where the search is
};

// The bytes of the tree, the tree, and texts that end with a zero byte each.
std::string_view charsmap_damage(std::string_view map) {
  if (map.empty()) return "";  // nothing is mapped
  if (map.size() < 4) return "it is cut off";
  const std::uint32_t bytes = uint32_at(map, 0);
  map.remove_prefix(4);
  if (bytes >= map.size()) return "it is cut off";
  if (map.back() != '\0') return "its last text has no end";
  return CharsTrie(map.substr(0, bytes), map.substr(bytes)).damage();
}

}  // namespace

void check_charsmaps(const std::string& path, std::string_view file) {
  constexpr std::uint32_t kNormalizer = 3, kDenormalizer = 5, kCharsmap = 2;
  Views specs, maps;
  bool good = find_fields(file, kNormalizer, specs) && find_fields(file, kDenormalizer, specs);
  for (const std::string_view spec : specs) good = good && find_fields(spec, kCharsmap, maps);
  if (!good) throw RunError(fmt::format("{}: is no SentencePiece model", path));
  for (const std::string_view map : maps) {
    if (const std::string_view why = charsmap_damage(map); !why.empty()) {
      throw RunError(fmt::format(
          "{}: its charsmap (precompiled_charsmap) is damaged: {}; get the model again", path, why));
    }
  }
}

}  // namespace lpmm
