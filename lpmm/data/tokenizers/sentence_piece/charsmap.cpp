#include "lpmm/data/tokenizers/sentence_piece/charsmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizers/sentence_piece/message.h"

namespace lpmm {
namespace {

using Views = std::vector<std::string_view>;

// A double array as Darts-clone searches it: a node's base is its place ^ its offset, the node that a byte
// leads to has that label and lies at base ^ byte, and a value lies at the base.
constexpr std::uint32_t kValue = 1U << 31;
std::uint32_t base_of(std::uint32_t at, std::uint32_t unit) {
  return at ^ (unit >> 10 << ((unit & 1U << 9) >> 6));
}
bool has_value(std::uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}

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
  static constexpr std::uint32_t kNone = ~0U;

  std::uint32_t unit(std::uint32_t at) const { return uint32_at(units_, std::size_t{4} * at); }
  bool ends(std::uint32_t at) const { return at != 0 && has_value(unit(at)); }

  void find_children() {
    children_.assign(states_.size(), kNone);
    others_.assign(states_.size(), kNone);
    for (std::uint32_t at = 0; at < states_.size(); ++at) {
      if ((unit(at) & kValue) == 0) others_[at] = std::exchange(children_[at ^ (unit(at) & 0xFF)], at);
    }
  }
  std::string_view enter(std::uint32_t at) {
    constexpr std::size_t kLongest = 1 << 10;  // real ones have 33 bytes; a text must not explode
    const std::uint32_t to = base_of(at, unit(at));
    if (to >= states_.size()) return "its tree leads out of it";
    if (ends(at)) {
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
    const int values = node.below + (ends(node.at) ? 1 : 0);
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

}  // namespace

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

std::optional<std::string_view> find_in_charsmap(std::string_view map, std::string_view text) {
  const std::string_view tree = map.substr(4, uint32_at(map, 0)), texts = map.substr(4 + tree.size());
  const auto unit = [&](std::uint32_t at) { return uint32_at(tree, std::size_t{4} * at); };
  std::uint32_t base = base_of(0, unit(0));
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const std::uint32_t at = base ^ byte;
    // A node whose byte is 0 stands for the end.
    if (byte == 0 || std::size_t{4} * at >= tree.size() || (unit(at) & (kValue | 0xFF)) != byte) break;
    base = base_of(at, unit(at));
    if (!has_value(unit(at))) continue;
    const std::string_view found = texts.substr(unit(base) & ~kValue);
    return found.substr(0, found.find('\0'));
  }
  return std::nullopt;
}

void check_charsmaps(const std::string& path, std::string_view file) {
  constexpr std::uint32_t kNormalizer = 3, kDenormalizer = 5, kCharsmap = 2;
  constexpr auto kBytes = FieldKind::kBytes;
  Views specs, maps;
  bool good =
      find_fields(file, kNormalizer, kBytes, specs) && find_fields(file, kDenormalizer, kBytes, specs);
  for (const std::string_view spec : specs) good = good && find_fields(spec, kCharsmap, kBytes, maps);
  if (!good) throw RunError(fmt::format("{}: is no SentencePiece model", path));
  for (const std::string_view map : maps) {
    if (const std::string_view why = charsmap_damage(map); !why.empty()) {
      throw RunError(fmt::format(
          "{}: its charsmap (precompiled_charsmap) is damaged: {}; get the model again", path, why));
    }
  }
}

}  // namespace lpmm
