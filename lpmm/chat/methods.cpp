#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <tuple>

#include "lpmm/chat/characters.h"
#include "lpmm/chat/renderer.h"
#include "lpmm/data/utf8.h"

namespace lpmm::chat {
namespace {

const std::string& text_of(const Value& value, const char* what) {
  if (!value.is_text()) throw Problem(fmt::format("{} is {}, expected a text", what, value.type()));
  return value.text();
}

// A separator, or nothing where it is none.
std::optional<std::string> text_or_none(const Bound& bound, std::size_t at) {
  if (bound.at(at) == nullptr || bound.at(at)->is_none()) return {};
  return text_of(*bound.at(at), "the argument");
}

Value strip(Renderer& renderer, const std::string& text, const std::string& name, const Given& given) {
  const std::optional<std::string> set = text_or_none(Bound(name, given, {"chars"}), 0);
  return renderer.charged(std::string(stripped(text, name != "rstrip", name != "lstrip", set)));
}

// Returns the offset of the first or the last white space, and its bytes; npos: there is none.
std::pair<std::size_t, std::size_t> find_space(std::string_view text, bool from_end) {
  for (std::size_t i = 0; i < text.size();) {
    std::size_t at = from_end ? text.size() - 1 - i : i;
    while (from_end && at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
    const Character one = character_at(text, at);
    if (is_space(one.code)) return {at, one.bytes};
    i += one.bytes;
  }
  return {text.npos, 0};
}

Value split(Renderer& renderer, const std::string& text, const std::string& name, const Given& given) {
  const Bound bound(name, given, {"sep", "maxsplit"});
  const std::optional<std::string> separator = text_or_none(bound, 0);
  const std::int64_t most = bound.integer(1, -1);
  const bool from_end = name == "rsplit";
  if (separator && separator->empty()) throw Problem("split is given an empty separator");
  std::vector<Value> parts;
  std::string_view rest = text;
  const auto add = [&](std::string_view part) { parts.emplace_back(std::string(part)); };
  if (!separator) rest = stripped(rest, !from_end, from_end);
  while (most < 0 || std::ssize(parts) < most) {
    std::size_t at = rest.npos, bytes = 0;
    if (separator) {
      at = from_end ? rest.rfind(*separator) : rest.find(*separator);
      bytes = separator->size();
    } else {
      std::tie(at, bytes) = find_space(rest, from_end);
    }
    if (at == rest.npos) break;
    renderer.spend(1);
    add(from_end ? rest.substr(at + bytes) : rest.substr(0, at));
    rest = from_end ? rest.substr(0, at) : rest.substr(at + bytes);
    if (!separator) rest = stripped(rest, !from_end, from_end);
  }
  if (separator || !rest.empty()) add(rest);
  if (from_end) std::ranges::reverse(parts);
  return renderer.charged(std::move(parts));
}

// startswith and endswith
Value has_end(Renderer&, const std::string& text, const std::string& name, const Given& given) {
  const Bound bound(name, given, {"prefix"});
  const auto holds = [&](const Value& part) {
    const std::string& end = text_of(part, name.c_str());
    return name == "startswith" ? text.starts_with(end) : text.ends_with(end);
  };
  const List* tuple = bound.needed(0).list();
  return tuple != nullptr ? std::ranges::any_of(tuple->items, holds) : holds(bound.needed(0));
}

Value without_end(Renderer& renderer, const std::string& text, const std::string& name, const Given& given) {
  const std::string& end = text_of(Bound(name, given, {"prefix"}).needed(0), name.c_str());
  const bool is_prefix = name == "removeprefix";
  if (is_prefix ? !text.starts_with(end) : !text.ends_with(end)) return text;
  return renderer.charged(is_prefix ? text.substr(end.size()) : text.substr(0, text.size() - end.size()));
}

// find, rfind, index, count
Value find(Renderer& renderer, const std::string& text, const std::string& name, const Given& given) {
  const std::string& part = text_of(Bound(name, given, {"sub"}).needed(0), name.c_str());
  renderer.spend(1 + text.size() / 64);
  if (name == "count") {
    if (part.empty()) return static_cast<std::int64_t>(count_characters(text) + 1);
    std::int64_t count = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
    return count;
  }
  const std::size_t at = name == "rfind" ? text.rfind(part) : text.find(part);
  if (at == text.npos && name == "index") throw Problem("index: the text does not hold this part");
  return at == text.npos ? std::int64_t{-1}
                         : static_cast<std::int64_t>(count_characters(std::string_view(text).substr(0, at)));
}

Value partition(Renderer& renderer, const std::string& text, const std::string& name, const Given& given) {
  const std::string& sign = text_of(Bound(name, given, {"sep"}).needed(0), "the separator");
  if (sign.empty()) throw Problem(fmt::format("{} is given an empty separator", name));
  const std::size_t at = name == "partition" ? text.find(sign) : text.rfind(sign);
  std::vector<Value> parts;
  if (at == text.npos) {
    parts = name == "partition" ? std::vector<Value>{text, "", ""} : std::vector<Value>{"", "", text};
  } else {
    parts = {text.substr(0, at), sign, text.substr(at + sign.size())};
  }
  return renderer.charged(std::move(parts), List::kTuple);
}

Value join(Renderer& renderer, const std::string& text, const std::string& name, const Given& given) {
  std::string out;
  bool is_first = true;
  for (const Value& part : renderer.items(Bound(name, given, {"iterable"}).needed(0))) {
    if (!is_first) out += text;
    is_first = false;
    out += text_of(part, "what is joined");
    renderer.spend(1 + text.size() / 64);
  }
  return renderer.charged(std::move(out));
}

// ljust, rjust, center, zfill
Value padded(Renderer& renderer, const std::string& text, const std::string& name, const Given& given) {
  const Bound bound(name, given, {"width", "fillchar"});
  constexpr std::int64_t kWidest = 1 << 20;
  const std::int64_t width = bound.needed(0).integer("the width");
  if (width > kWidest) throw Problem(fmt::format("{} to more than {} characters", name, kWidest));
  const std::string fill = name == "zfill" ? "0" : bound.text(1, " ");
  if (count_characters(fill) != 1) throw Problem(fmt::format("{} fills with more than one character", name));
  const auto size = static_cast<std::int64_t>(count_characters(text));
  const std::int64_t missing = std::max<std::int64_t>(0, width - size);
  // As Python: of an odd number, the left side gets more where the width is odd.
  const std::int64_t half = missing / 2 + (missing & width & 1);
  const std::int64_t left = name == "ljust" ? 0 : name == "center" ? half : missing;
  std::string before, after;
  for (std::int64_t i = 0; i < missing; ++i) (i < left ? before : after) += fill;
  const bool is_signed = name == "zfill" && (text.starts_with('-') || text.starts_with('+'));
  return renderer.charged(is_signed ? text.substr(0, 1) + before + text.substr(1) : before + text + after);
}

// "{} {0} {name}".format(...)
Value format(Renderer& renderer, const std::string& text, const std::string&, const Given& given) {
  std::string out;
  std::size_t next = 0;
  bool has_places = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c != '{' && c != '}') {
      out += c;
    } else if (at + 1 < text.size() && text[at + 1] == c) {
      out += c;
      ++at;
    } else {
      const std::size_t end = c == '{' ? text.find('}', at) : text.npos;
      if (end == text.npos) throw Problem("format: a brace has no other one");
      const std::string name = text.substr(at + 1, end - at - 1);
      if (name.find_first_of(".[:!{") != name.npos) {
        throw Problem(fmt::format("format: {{{}}} is not supported here", lpmm::shown(name)));
      }
      const bool is_place = name.find_first_not_of("0123456789") == name.npos;
      has_places = has_places || (is_place && !name.empty());
      if (has_places && (name.empty() || next > 0) && is_place) {
        throw Problem("format: {} and {0} stand in one text");
      }
      const std::size_t place = name.empty()                  ? next++
                                : is_place && name.size() < 6 ? std::stoul(name)
                                                              : given.values.size();
      const auto named =
          std::ranges::find_if(given.named, [&](const auto& one) { return one.first == name; });
      if (is_place ? place >= given.values.size() : named == given.named.end()) {
        throw Problem(fmt::format("format: nothing is given for {{{}}}", lpmm::shown(name)));
      }
      out += to_text(is_place ? given.values[place] : named->second);
      renderer.spend(1);
      at = end;
    }
  }
  return renderer.charged(std::move(out));
}

Value changed_case(Renderer& renderer, const std::string& text, const std::string& name, const Given& given) {
  const Bound none(name, given, {});
  return renderer.charged(name == "upper"        ? upper(text)
                          : name == "capitalize" ? capitalized(text)
                          : name == "title"      ? titled(text, false)
                                                 : lower(text));
}

Value is_kind(Renderer& renderer, const std::string& text, const std::string& name, const Given& given) {
  const Bound none(name, given, {});
  renderer.spend(1 + text.size() / 64);
  return is_all(text, name).value_or(false);
}

Value split_lines(Renderer& renderer, const std::string& text, const std::string& name, const Given& given) {
  if (Bound(name, given, {"keepends"}).is_true(0)) throw Problem("splitlines(true) is not supported here");
  std::vector<Value> lines;
  for (std::string& line : lines_of(text)) lines.emplace_back(std::move(line));
  return renderer.charged(std::move(lines));
}

Value replace(Renderer& renderer, const std::string& text, const std::string& name, const Given& given) {
  const Bound bound(name, given, {"old", "new", "count"});
  return renderer.charged(replaced(text, text_of(bound.needed(0), "what is replaced"),
                                   text_of(bound.needed(1), "what replaces it"), bound.integer(2, -1)));
}

using TextMethod = Value (*)(Renderer&, const std::string&, const std::string&, const Given&);
const std::map<std::string, TextMethod>& text_methods() {
  static const std::map<std::string, TextMethod> kMethods = {{"strip", strip},
                                                             {"lstrip", strip},
                                                             {"rstrip", strip},
                                                             {"split", split},
                                                             {"rsplit", split},
                                                             {"startswith", has_end},
                                                             {"endswith", has_end},
                                                             {"removeprefix", without_end},
                                                             {"removesuffix", without_end},
                                                             {"find", find},
                                                             {"rfind", find},
                                                             {"index", find},
                                                             {"count", find},
                                                             {"partition", partition},
                                                             {"rpartition", partition},
                                                             {"join", join},
                                                             {"ljust", padded},
                                                             {"rjust", padded},
                                                             {"center", padded},
                                                             {"zfill", padded},
                                                             {"format", format},
                                                             {"upper", changed_case},
                                                             {"lower", changed_case},
                                                             {"capitalize", changed_case},
                                                             {"title", changed_case},
                                                             {"isdigit", is_kind},
                                                             {"isnumeric", is_kind},
                                                             {"isdecimal", is_kind},
                                                             {"isalpha", is_kind},
                                                             {"isalnum", is_kind},
                                                             {"isspace", is_kind},
                                                             {"isupper", is_kind},
                                                             {"islower", is_kind},
                                                             {"splitlines", split_lines},
                                                             {"replace", replace}};
  return kMethods;
}

Value call_dict(Renderer& renderer, const Dict& dict, const std::string& name, const Given& given) {
  if (name == "get") {
    const Bound bound(name, given, {"key", "default"});
    renderer.spend(dict.items.size() / 16);
    if (const Value* value = dict.find(bound.needed(0))) return *value;
    return bound.at(1) == nullptr ? Value() : *bound.at(1);
  }
  const Bound none(name, given, {});
  if (name == "copy") return make_dict(dict.items);
  std::vector<Value> all;
  renderer.spend(dict.items.size());
  for (const auto& [key, value] : dict.items) {
    all.push_back(name == "keys" ? key : name == "values" ? value : make_list({key, value}, List::kTuple));
  }
  return renderer.charged(std::move(all), List::kView);
}

Value call_list(Renderer& renderer, const List& list, const std::string& name, const Given& given) {
  if (name == "copy") return renderer.charged(list.items);
  const Value& wanted = Bound(name, given, {"value"}).needed(0);
  renderer.spend(list.items.size());
  const auto same = [&](const Value& one) { return equal(one, wanted); };
  if (name == "count") return static_cast<std::int64_t>(std::ranges::count_if(list.items, same));
  const auto at = std::ranges::find_if(list.items, same);
  if (at == list.items.end()) throw Problem("index: the list does not hold this");
  return static_cast<std::int64_t>(at - list.items.begin());
}

}  // namespace

std::string replaced(const std::string& text, const std::string& part, const std::string& with,
                     std::int64_t most) {
  std::string out;
  std::size_t at = 0;
  const std::vector<std::size_t> places = part.empty() ? character_places(text) : std::vector<std::size_t>();
  for (std::size_t i = 0; most < 0 || std::cmp_less(i, most); ++i) {
    const std::size_t found = !part.empty() ? text.find(part, at) : i < places.size() ? places[i] : text.npos;
    if (found == text.npos) break;
    constexpr std::size_t kMost = std::size_t{1} << 28;
    if (out.size() > kMost) throw Problem("replace makes too long a text");
    out.append(text, at, found - at).append(with);
    at = found + part.size();
  }
  return out.append(text, at);
}

bool has_method(const Value& object, const std::string& name) {
  const auto is_one = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
  };
  if (object.is_text()) return text_methods().contains(name);
  if (object.dict() != nullptr) return is_one({"items", "keys", "values", "get", "copy"});
  const List* list = object.list();
  if (list == nullptr || list->kind > List::kTuple) return false;
  return is_one({"index", "count"}) || (name == "copy" && list->kind == List::kList);
}

Value call_method(Renderer& renderer, const Value& object, const std::string& name, const Given& given) {
  if (object.is_text()) {
    renderer.spend(1 + object.text().size() / 256);
    return text_methods().at(name)(renderer, object.text(), name, given);
  }
  if (const Dict* dict = object.dict()) return call_dict(renderer, *dict, name, given);
  return call_list(renderer, *object.list(), name, given);
}

}  // namespace lpmm::chat
