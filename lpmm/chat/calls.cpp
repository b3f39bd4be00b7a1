#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "lpmm/chat/characters.h"
#include "lpmm/chat/renderer.h"
#include "lpmm/data/utf8.h"

namespace lpmm::chat {
namespace {

Value missing(std::string what) {
  return Undefined(std::move(what));
}

Value member_of(const Loop& loop, const std::string& name) {
  const auto number = [](std::size_t value) { return Value(static_cast<std::int64_t>(value)); };
  const std::size_t size = loop.items.size(), at = std::min(loop.at, size - 1);
  if (name == "index") return number(at + 1);
  if (name == "index0") return number(at);
  if (name == "revindex") return number(size - at);
  if (name == "revindex0") return number(size - at - 1);
  if (name == "first") return at == 0;
  if (name == "last") return at + 1 == size;
  if (name == "length") return number(size);
  if (name == "depth" || name == "depth0") return number(name == "depth" ? 1 : 0);  // of recursive loops
  if (name == "previtem") return at > 0 ? loop.items[at - 1] : missing("loop.previtem");
  if (name == "nextitem") return at + 1 < size ? loop.items[at + 1] : missing("loop.nextitem");
  return missing("loop." + name);
}

Value call_loop(Loop& loop, const std::string& name, Given given) {
  if (loop.is_over || !given.named.empty()) throw Problem(fmt::format("loop.{} is called outside", name));
  if (name == "cycle") {
    if (given.values.empty()) throw Problem("loop.cycle is given nothing");
    return given.values[loop.at % given.values.size()];
  }
  const bool is_same = loop.has_last && loop.last.size() == given.values.size() &&
                       std::ranges::equal(loop.last, given.values, equal);
  loop.has_last = true;
  if (!is_same) loop.last = std::move(given.values);
  return !is_same;
}

Value range(Renderer& renderer, const Given& given) {
  const Bound bound("range", given, {"start", "stop", "step"});
  const bool has_start = bound.at(1) != nullptr;
  std::int64_t at = has_start ? bound.integer(0, 0) : 0;
  const std::int64_t end = bound.needed(has_start ? 1 : 0).integer("the end of range"),
                     step = bound.integer(2, 1);
  constexpr std::size_t kMost = 100000;
  if (step == 0) throw Problem("range has the step 0");
  std::vector<Value> all;
  while (step > 0 ? at < end : at > end) {
    if (all.size() >= kMost) throw Problem(fmt::format("range has more than {} numbers", kMost));
    all.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return renderer.charged(std::move(all), List::kRange);
}

Dict::Items members(Renderer& renderer, const char* what, Given& given) {
  Dict::Items all;
  if (given.values.size() > 1) throw Problem(fmt::format("{} takes one object, and names", what));
  if (!given.values.empty()) {
    if (const Dict* dict = given.values[0].dict()) {
      all = dict->items;
    } else {
      for (const Value& pair : renderer.items(given.values[0])) {
        const std::vector<Value> two = renderer.items(pair);
        if (two.size() != 2) throw Problem(fmt::format("{} is given what is no list of pairs", what));
        all.emplace_back(two[0], two[1]);
      }
    }
  }
  for (auto& [name, value] : given.named) all.emplace_back(name, std::move(value));
  renderer.spend(all.size());
  return all;
}

std::string date_text(std::int64_t seconds, const std::string& format) {
  constexpr std::size_t kLongest = 256;
  if (format.size() > kLongest || format.find('\0') != format.npos) {
    throw Problem("strftime_now: the format is too long");
  }
  const std::time_t time = seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 16384> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), format.c_str(), &parts);
  return {text.data(), size};
}

// One part of Python's % formatting after the %, to `out`; moves `at` behind it.
void format_one(const std::string& pattern, std::size_t& at, const Value& value, std::string& out) {
  const std::size_t end = pattern.find_first_not_of("0123456789.-+ #", at);
  const std::string flags = pattern.substr(at, end == pattern.npos ? end : end - at);
  const char kind = end == pattern.npos ? ' ' : pattern[end];
  constexpr std::size_t kMostFlags = 6;
  at = end + 1;
  if (kind == 's' || kind == 'r') {
    if (!flags.empty()) throw Problem(fmt::format("%{}{} is not supported here", flags, kind));
    out += kind == 's' ? to_text(value) : to_repr(value);
    return;
  }
  const bool is_whole = kind == 'd' || kind == 'i' || kind == 'x',
             is_float = kind == 'f' || kind == 'g' || kind == 'e';
  if ((!is_whole && !is_float) || flags.size() > kMostFlags) {
    throw Problem(fmt::format("%{}{} is not supported here", flags, kind));
  }
  if (!value.is_number()) throw Problem(fmt::format("%{} is given {}", kind, value.type()));
  std::array<char, 2048> text{};
  int size = 0;
  if (is_float) {
    size = std::snprintf(text.data(), text.size(), ("%" + flags + kind).c_str(), value.number());
  } else {
    constexpr double kMost = 9e18;
    if (value.is_float() && !(std::abs(value.number()) < kMost))
      throw Problem("%d is given too large a number");
    const std::int64_t whole =
        value.is_float() ? static_cast<std::int64_t>(value.number()) : value.integer("");
    size = std::snprintf(text.data(), text.size(), ("%" + flags + "l" + kind).c_str(), whole);
  }
  if (size < 0 || static_cast<std::size_t>(size) >= text.size()) throw Problem("% makes too long a number");
  out += text.data();
}

}  // namespace

Value Renderer::attribute(const Value& object, const std::string& name) {
  spend(1);
  if (object.is_undefined()) {
    throw Problem(fmt::format("{} is undefined, and so has no {}", *object.undefined().name, name));
  }
  if (const Loop* loop = object.loop(); loop != nullptr && name != "cycle" && name != "changed") {
    return member_of(*loop, name);
  }
  if (const Namespace* space = object.name_space()) {
    for (const auto& [known, value] : space->items) {
      if (known == name) return value;
    }
    return missing(name);
  }
  if (object.loop() != nullptr || has_method(object, name)) {
    return std::make_shared<Callable>(Callable{Callable::kMethod, name, object});
  }
  if (const Callable* function = object.callable(); function != nullptr && name == "name")
    return function->name;
  if (const Dict* dict = object.dict()) {
    spend(dict->items.size() / 16);
    if (const Value* value = dict->find(name)) return *value;
  }
  return missing(name);
}

Value Renderer::item(const Value& object, const Value& place) {
  spend(1);
  if (object.is_undefined()) {
    throw Problem(fmt::format("{} is undefined, and so has no {}", *object.undefined().name, to_repr(place)));
  }
  if (const Dict* dict = object.dict()) {
    spend(dict->items.size() / 16);
    if (const Value* value = dict->find(place)) return *value;
  }
  if (place.is_text()) {
    return object.dict() == nullptr || has_method(object, place.text()) ? attribute(object, place.text())
                                                                        : missing(place.text());
  }
  const List* list = object.list();
  const bool has_places = object.is_text() || (list != nullptr && list->kind <= List::kRange);
  if (!has_places || !(place.is_integer() || place.is_bool()))
    return missing("a part of " + std::string(object.type()));
  const std::vector<std::size_t> characters =
      object.is_text() ? character_places(object.text()) : std::vector<std::size_t>();
  spend(object.is_text() ? object.text().size() / 64 : 0);
  const auto size = static_cast<std::int64_t>(object.is_text() ? characters.size() - 1 : list->items.size());
  const std::int64_t wanted = place.integer("a place"),
                     at = wanted < 0 && wanted >= -size ? wanted + size : wanted;
  if (at < 0 || at >= size) return missing(fmt::format("place {} of {}", wanted, object.type()));
  const auto i = static_cast<std::size_t>(at);
  if (!object.is_text()) return list->items[i];
  return object.text().substr(characters[i], characters[i + 1] - characters[i]);
}

Value Renderer::call(const Value& function, Given given) {
  spend(1);
  if (function.is_undefined()) {
    throw Problem(fmt::format("{} is undefined and cannot be called", *function.undefined().name));
  }
  const Callable* callable = function.callable();
  if (callable == nullptr) throw Problem(fmt::format("{} cannot be called", function.type()));
  const Callable held = *callable;  // stays while it runs
  if (held.kind == Callable::kMacro) return call_macro(held, std::move(given));
  if (held.kind == Callable::kFunction) return call_function(held.name, given);
  if (Loop* loop = held.self.loop()) return call_loop(*loop, held.name, std::move(given));
  return call_method(*this, held.self, held.name, given);
}

Value Renderer::call_function(const std::string& name, Given& given) {
  if (name == "range") return range(*this, given);
  if (name == "dict") return make_dict(members(*this, "dict", given));
  if (name == "namespace") {
    auto space = std::make_shared<Namespace>();
    for (const auto& [key, value] : Dict(members(*this, "namespace", given)).items) {
      if (to_text(key).starts_with('_')) throw Problem("a name in a namespace begins with _, which none may");
      space->items.emplace_back(to_text(key), value);
    }
    namespaces_.push_back(space);
    return space;
  }
  if (name == "raise_exception") {
    throw Problem(
        fmt::format("the template refuses this: {}", to_text(Bound(name, given, {"message"}).needed(0))));
  }
  return charged(date_text(now_, Bound(name, given, {"format"}).text(0, "")));
}

Value Renderer::formatted(const std::string& pattern, const Value& values) {
  const List* tuple = values.list();
  const bool is_tuple = tuple != nullptr && tuple->kind == List::kTuple;
  const std::vector<Value> all = is_tuple ? tuple->items : std::vector<Value>{values};
  std::string out;
  std::size_t used = 0;
  for (std::size_t at = 0; at < pattern.size();) {
    const std::size_t sign = std::min(pattern.find('%', at), pattern.size());
    out.append(pattern, at, sign - at);
    at = sign + 1;
    if (sign == pattern.size()) break;
    if (at < pattern.size() && pattern[at] == '%') {
      out += '%';
      ++at;
      continue;
    }
    if (used >= all.size()) throw Problem("% has fewer values than places for them");
    spend(1);
    format_one(pattern, at, all[used++], out);
  }
  if (used < all.size() && (is_tuple || values.dict() == nullptr))
    throw Problem("% has values that no place takes");
  return charged(std::move(out));
}

}  // namespace lpmm::chat
