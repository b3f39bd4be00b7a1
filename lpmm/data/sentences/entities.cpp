// Entities that tags of words mark, as seqeval finds them where it is not strict: Nakayama 2018.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "lpmm/data/sentences/metrics.h"

namespace lpmm {
namespace {

// B, I, E or S before a kind, or O.
struct Tag {
  char place;
  std::string_view kind;
};
Tag parse_tag(std::string_view text) {
  const std::string_view behind = text.substr(std::min<std::size_t>(1, text.size()));
  const std::size_t dash = behind.find('-');
  const std::string_view kind = dash == std::string_view::npos ? behind : behind.substr(dash + 1);
  return {text.empty() ? 'O' : text[0], kind};
}

bool is_one_of(char c, std::string_view some) {
  return some.find(c) != std::string_view::npos;
}
bool ends_entity(const Tag& before, const Tag& at) {
  if (is_one_of(before.place, "ES")) return true;
  if (is_one_of(before.place, "BI") && is_one_of(at.place, "BSO")) return true;
  return !is_one_of(before.place, "O.") && before.kind != at.kind;
}
bool starts_entity(const Tag& before, const Tag& at) {
  if (is_one_of(at.place, "BS")) return true;
  if (is_one_of(before.place, "ESO") && is_one_of(at.place, "EI")) return true;
  return !is_one_of(at.place, "O.") && before.kind != at.kind;
}

// Sentence, kind, first word, last word.
using Entities = std::set<std::tuple<std::size_t, std::string_view, std::size_t, std::size_t>>;
Entities entities_of(const TagSequences& sentences) {
  Entities found;
  for (std::size_t s = 0; s < sentences.size(); ++s) {
    const auto& tags = sentences[s];
    Tag before{'O', ""};
    std::size_t first = 0;
    for (std::size_t i = 0; i <= tags.size(); ++i) {
      const Tag at = i < tags.size() ? parse_tag(tags[i]) : Tag{'O', ""};
      if (ends_entity(before, at)) found.emplace(s, before.kind, first, i - 1);
      if (starts_entity(before, at)) first = i;
      before = at;
    }
  }
  return found;
}

}  // namespace

double entity_f1(const TagSequences& told, const TagSequences& is) {
  const Entities a = entities_of(told), b = entities_of(is);
  const auto both =
      static_cast<double>(std::ranges::count_if(a, [&](const auto& entity) { return b.contains(entity); }));
  return both == 0 ? 0 : 2 * both / static_cast<double>(a.size() + b.size());
}

bool mark_entities(std::span<const std::string> tags) {
  constexpr std::string_view kPlaces = "BIESLU";
  return std::ranges::all_of(tags, [&](const std::string& tag) {
    return tag == "O" || (tag.size() > 2 && tag[1] == '-' && is_one_of(tag[0], kPlaces));
  });
}

}  // namespace lpmm
