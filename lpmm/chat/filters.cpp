#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>

#include "lpmm/chat/characters.h"
#include "lpmm/chat/renderer.h"
#include "lpmm/data/utf8.h"

namespace lpmm::chat {
namespace {

// One part of a value after the other: those of "function.name".
Value part_of(Renderer& renderer, Value value, const Value& path) {
  if (!path.is_text()) return renderer.item(value, path);
  const std::string& text = path.text();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('.', at), text.size());
    const std::string name = text.substr(at, end - at);
    const bool is_place =
        !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == name.npos;
    value = renderer.item(value, is_place ? Value(static_cast<std::int64_t>(std::stol(name))) : Value(name));
    at = end + 1;
  }
  return value;
}

Value folded(const Value& value, bool by_case) {
  return by_case || !value.is_text() ? value : lower(value.text());
}

Value trim(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound bound(name, given, {"chars"});
  const bool has_set = bound.at(0) != nullptr && !bound.at(0)->is_none();
  const std::string set = bound.text(0, ""), text = to_text(value);
  return renderer.charged(
      std::string(stripped(text, true, true, has_set ? std::optional<std::string_view>(set) : std::nullopt)));
}

Value change_case(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound none(name, given, {});
  const std::string text = to_text(value);
  return renderer.charged(name == "upper"        ? upper(text)
                          : name == "capitalize" ? capitalized(text)
                          : name == "title"      ? titled(text, true)
                          : name == "lower"      ? lower(text)
                                                 : text);
}

Value length(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound none(name, given, {});
  const List* list = value.list();
  std::size_t size = 0;
  if (value.is_text()) {
    renderer.spend(value.text().size() / 256);
    size = count_characters(value.text());
  } else if (list != nullptr && list->kind != List::kIterator) {
    size = list->items.size();
  } else if (value.dict() != nullptr) {
    size = value.dict()->items.size();
  } else if (!value.is_undefined()) {
    throw Problem(fmt::format("{} has no length", value.type()));
  }
  return static_cast<std::int64_t>(size);
}

Value default_value(Renderer&, const std::string& name, const Value& value, const Given& given) {
  const Bound bound(name, given, {"default_value", "boolean"});
  const bool is_kept = !value.is_undefined() && (value.is_true() || !bound.is_true(1));
  return is_kept ? value : bound.at(0) == nullptr ? Value("") : *bound.at(0);
}

Value json(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound bound(name, given, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonLayout layout;
  layout.ascii = bound.is_true(0);
  layout.sorted = bound.is_true(3);
  constexpr std::int64_t kMostIndent = 64;
  if (const Value* indent = bound.at(1); indent != nullptr && indent->is_text()) {
    layout.indent_text = indent->text();
    layout.indent = 0;
  } else if (indent != nullptr && !indent->is_none()) {
    layout.indent = static_cast<int>(std::clamp<std::int64_t>(indent->integer("the indent"), 0, kMostIndent));
  }
  if (layout.indent >= 0) layout.between = ",";
  if (const Value* separators = bound.at(2); separators != nullptr && !separators->is_none()) {
    const std::vector<Value> both = renderer.items(*separators);
    if (both.size() != 2 || !both[0].is_text() || !both[1].is_text()) {
      throw Problem("tojson: separators are two texts");
    }
    layout.between = both[0].text();
    layout.after_name = both[1].text();
  }
  return renderer.charged(to_json(value, layout));
}

Value join(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound bound(name, given, {"d", "attribute"});
  const std::string between = bound.text(0, "");
  std::string out;
  bool is_first = true;
  for (const Value& one : renderer.items(value)) {
    if (!is_first) out += between;
    is_first = false;
    const bool has_path = bound.at(1) != nullptr && !bound.at(1)->is_none();
    out += to_text(has_path ? part_of(renderer, one, *bound.at(1)) : one);
    renderer.spend(1 + between.size() / 64);
  }
  return renderer.charged(std::move(out));
}

Value first_or_last(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound none(name, given, {});
  List* list = value.list();
  if (list != nullptr && list->kind == List::kIterator && name == "first") {
    return list->taken < list->items.size() ? list->items[list->taken++]
                                            : Value(Undefined("first of nothing"));
  }
  if (name == "last" && list != nullptr && list->kind == List::kIterator)
    throw Problem("last of an iterator");
  const std::vector<Value> all = renderer.items(value);
  if (!all.empty()) return name == "first" ? all.front() : all.back();
  return Undefined(name + " of nothing");
}

// map, and select, reject, selectattr, rejectattr
Value map(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  std::vector<Value> out;
  if (!value.is_true()) {
    // An empty or undefined value gives an empty list.
  } else if (given.values.empty()) {
    const Bound bound(name, given, {"attribute", "default"});
    const Value& path = bound.needed(0);
    for (const Value& one : renderer.items(value)) {
      Value part = part_of(renderer, one, path);
      if (part.is_undefined() && bound.at(1) != nullptr) part = *bound.at(1);
      out.push_back(std::move(part));
    }
  } else {
    const Given rest{{given.values.begin() + 1, given.values.end()}, given.named};
    for (const Value& one : renderer.items(value)) {
      out.push_back(renderer.filter(to_text(given.values[0]), one, rest));
    }
  }
  return renderer.charged(std::move(out), List::kIterator);
}

Value select(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const bool by_part = name.ends_with("attr"), wanted = name.starts_with("select");
  const std::size_t used = by_part ? 1 : 0;
  if (given.values.size() < used) throw Problem(fmt::format("{} lacks the name of a part", name));
  Given rest{{}, given.named};
  for (std::size_t i = used + 1; i < given.values.size(); ++i) rest.values.push_back(given.values[i]);
  std::vector<Value> out;
  for (Value& one : value.is_true() ? renderer.items(value) : std::vector<Value>()) {
    const Value part = by_part ? part_of(renderer, one, given.values[0]) : one;
    const bool holds =
        given.values.size() > used ? renderer.test(to_text(given.values[used]), part, rest) : part.is_true();
    if (holds == wanted) out.push_back(std::move(one));
  }
  return renderer.charged(std::move(out), List::kIterator);
}

Value list(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound none(name, given, {});
  return renderer.charged(renderer.items(value));
}

Value items(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound none(name, given, {});
  if (value.is_undefined()) return renderer.charged(std::vector<Value>(), List::kIterator);
  if (value.dict() == nullptr) throw Problem(fmt::format("items of {}", value.type()));
  std::vector<Value> all;
  for (const auto& [key, held] : value.dict()->items) all.push_back(make_list({key, held}, List::kTuple));
  return renderer.charged(std::move(all), List::kIterator);
}

Value reverse(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound none(name, given, {});
  std::vector<Value> all = renderer.items(value);
  std::ranges::reverse(all);
  if (!value.is_text()) return renderer.charged(std::move(all), List::kIterator);
  std::string text;
  for (const Value& one : all) text += one.text();
  return renderer.charged(std::move(text));
}

// Sorts by the key of each, which is found once.
std::vector<Value> sorted(Renderer& renderer, std::vector<Value> all, std::vector<Value> keys,
                          bool reversed) {
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  renderer.spend(1 + all.size() * 4);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return reversed ? compare(keys[b], keys[a]) < 0 : compare(keys[a], keys[b]) < 0;
  });
  std::vector<Value> out;
  for (const std::size_t i : order) out.push_back(std::move(all[i]));
  return out;
}

Value dict_sort(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound bound(name, given, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.text(1, "key");
  if (value.dict() == nullptr || (by != "key" && by != "value")) {
    throw Problem(fmt::format("dictsort of {} by {}", value.type(), lpmm::shown(by)));
  }
  std::vector<Value> all, keys;
  for (const auto& [key, held] : value.dict()->items) {
    keys.push_back(folded(by == "key" ? key : held, bound.is_true(0)));
    all.push_back(make_list({key, held}, List::kTuple));
  }
  return renderer.charged(sorted(renderer, std::move(all), std::move(keys), bound.is_true(2)));
}

// sort, unique, min, max
Value by_order(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound bound = name == "sort" ? Bound(name, given, {"reverse", "case_sensitive", "attribute"})
                                     : Bound(name, given, {"case_sensitive", "attribute"});
  const std::size_t at = name == "sort" ? 1 : 0;
  const bool has_path = bound.at(at + 1) != nullptr && !bound.at(at + 1)->is_none();
  std::vector<Value> all = renderer.items(value), keys, out;
  for (const Value& one : all) {
    keys.push_back(folded(has_path ? part_of(renderer, one, *bound.at(at + 1)) : one, bound.is_true(at)));
  }
  if (name == "sort") {
    return renderer.charged(sorted(renderer, std::move(all), std::move(keys), bound.is_true(0)));
  }
  if (name == "unique") {
    renderer.spend(all.size() * all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto end = keys.begin() + static_cast<std::ptrdiff_t>(i);
      if (std::none_of(keys.begin(), end, [&](const Value& key) { return equal(key, keys[i]); })) {
        out.push_back(all[i]);
      }
    }
    return renderer.charged(std::move(out), List::kIterator);
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const int order = compare(keys[i], keys[best]);
    if (name == "min" ? order < 0 : order > 0) best = i;
  }
  return all.empty() ? Value(Undefined(name + " of nothing")) : all[best];
}

Value sum(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound bound(name, given, {"attribute", "start"});
  Value total = bound.at(1) == nullptr ? Value(std::int64_t{0}) : *bound.at(1);
  const bool has_path = bound.at(0) != nullptr && !bound.at(0)->is_none();
  for (const Value& one : renderer.items(value)) {
    total = renderer.add(total, has_path ? part_of(renderer, one, *bound.at(0)) : one);
  }
  return total;
}

std::optional<double> parsed_float(std::string_view text) {
  const std::string plain(stripped(text, true, true));
  if (plain.empty() || plain.find_first_not_of("0123456789+-.eE") != plain.npos) return {};
  char* end = nullptr;
  const double value = std::strtod(plain.c_str(), &end);
  if (*end != '\0') return {};
  return value;
}

Value whole_number(Renderer&, const std::string& name, const Value& value, const Given& given) {
  const Bound bound(name, given, {"default", "base"});
  if (bound.integer(1, 10) != 10) throw Problem("int with another base than 10 is not supported here");
  Value otherwise = bound.at(0) == nullptr ? Value(std::int64_t{0}) : *bound.at(0);
  constexpr double kMost = 9.2e18;
  if (value.is_integer() || value.is_bool()) return value.integer("");
  std::optional<double> number = value.is_float() ? std::optional<double>(value.number()) : std::nullopt;
  if (value.is_text()) {
    std::string_view text = stripped(value.text(), true, true);
    if (text.starts_with('+')) text.remove_prefix(1);
    std::int64_t whole = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (error == std::errc() && end == text.data() + text.size()) return whole;
    number = parsed_float(value.text());
  }
  if (!number || !std::isfinite(*number)) return otherwise;
  if (std::abs(*number) > kMost) throw Problem("int: the number does not fit 64 bits");
  return static_cast<std::int64_t>(*number);
}

Value float_number(Renderer&, const std::string& name, const Value& value, const Given& given) {
  const Bound bound(name, given, {"default"});
  if (value.is_number()) return value.number();
  const std::optional<double> number = value.is_text() ? parsed_float(value.text()) : std::nullopt;
  return number ? Value(*number) : bound.at(0) == nullptr ? Value(0.0) : *bound.at(0);
}

Value absolute(Renderer&, const std::string& name, const Value& value, const Given& given) {
  const Bound none(name, given, {});
  if (value.is_float()) return std::abs(value.number());
  const std::int64_t whole = value.integer("what abs is given");
  if (whole == std::numeric_limits<std::int64_t>::min()) throw Problem("a number does not fit 64 bits");
  return whole < 0 ? -whole : whole;
}

Value rounded(Renderer&, const std::string& name, const Value& value, const Given& given) {
  const Bound bound(name, given, {"precision", "method"});
  constexpr std::int64_t kMostDigits = 15;
  const std::int64_t digits = bound.integer(0, 0);
  const std::string method = bound.text(1, "common");
  if (digits < 0 || digits > kMostDigits) throw Problem(fmt::format("round to {} digits", digits));
  if (method == "common" && !value.is_float()) return value.integer("what round is given");
  if (!value.is_number()) throw Problem(fmt::format("round of {}", value.type()));
  const double number = value.number(), scale = std::pow(10.0, static_cast<double>(digits));
  if (method == "ceil" || method == "floor") {
    return (method == "ceil" ? std::ceil(number * scale) : std::floor(number * scale)) / scale;
  }
  if (method != "common") throw Problem(fmt::format("round by {}", lpmm::shown(method)));
  return std::strtod(fmt::format("{:.{}f}", number, digits).c_str(), nullptr);  // correct, to even
}

Value indented(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound bound(name, given, {"width", "first", "blank"});
  constexpr std::int64_t kWidest = 1000;
  std::string space(4, ' ');
  if (const Value* width = bound.at(0)) {
    space = width->is_text() ? width->text()
                             : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(
                                               width->integer("the width"), 0, kWidest)),
                                           ' ');
  }
  const std::vector<std::string> lines = lines_of(to_text(value) + "\n");
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    renderer.spend(1 + space.size() / 64);
    const bool is_moved = i == 0 ? bound.is_true(1) : !lines[i].empty() || bound.is_true(2);
    out.append(i == 0 ? "" : "\n").append(is_moved ? space : "").append(lines[i]);
  }
  return renderer.charged(std::move(out));
}

Value replace(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const Bound bound(name, given, {"old", "new", "count"});
  const bool has_count = bound.at(2) != nullptr && !bound.at(2)->is_none();
  return renderer.charged(replaced(to_text(value), to_text(bound.needed(0)), to_text(bound.needed(1)),
                                   has_count ? bound.integer(2, -1) : -1));
}

Value formatted(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  if (!given.named.empty()) throw Problem(fmt::format("{} by names is not supported here", name));
  return renderer.formatted(to_text(value), make_list(given.values, List::kTuple));
}

Value attribute(Renderer& renderer, const std::string& name, const Value& value, const Given& given) {
  const std::string path = Bound(name, given, {"name"}).text(0, "");
  if (value.dict() != nullptr && !has_method(value, path)) return Undefined(path);
  return renderer.attribute(value, path);
}

// batch and slice by filters, wordcount, and what makes HTML are not among them: no known template has them.
using Filter = Value (*)(Renderer&, const std::string&, const Value&, const Given&);
const std::map<std::string, Filter>& all_filters() {
  static const std::map<std::string, Filter> kFilters = {{"trim", trim},
                                                         {"upper", change_case},
                                                         {"lower", change_case},
                                                         {"capitalize", change_case},
                                                         {"title", change_case},
                                                         {"string", change_case},
                                                         {"length", length},
                                                         {"count", length},
                                                         {"default", default_value},
                                                         {"d", default_value},
                                                         {"tojson", json},
                                                         {"join", join},
                                                         {"first", first_or_last},
                                                         {"last", first_or_last},
                                                         {"map", map},
                                                         {"select", select},
                                                         {"reject", select},
                                                         {"selectattr", select},
                                                         {"rejectattr", select},
                                                         {"list", list},
                                                         {"items", items},
                                                         {"reverse", reverse},
                                                         {"dictsort", dict_sort},
                                                         {"sort", by_order},
                                                         {"unique", by_order},
                                                         {"min", by_order},
                                                         {"max", by_order},
                                                         {"sum", sum},
                                                         {"int", whole_number},
                                                         {"float", float_number},
                                                         {"abs", absolute},
                                                         {"round", rounded},
                                                         {"indent", indented},
                                                         {"replace", replace},
                                                         {"format", formatted},
                                                         {"attr", attribute}};
  return kFilters;
}

}  // namespace

bool is_filter(const std::string& name) {
  return all_filters().contains(name);
}

Value filter_value(Renderer& renderer, const std::string& name, const Value& operand, const Given& given) {
  return all_filters().at(name)(renderer, name, operand, given);
}

}  // namespace lpmm::chat
