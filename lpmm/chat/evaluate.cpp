#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "lpmm/chat/characters.h"
#include "lpmm/chat/renderer.h"
#include "lpmm/data/utf8.h"

namespace lpmm::chat {
namespace {

Value undefined(std::string why) {
  return Undefined(std::move(why));
}

[[noreturn]] void refuse(const std::string& sign, const Value& left, const Value& right) {
  const auto named = [](const Value& value) {
    return value.is_undefined() ? *value.undefined().name + " (undefined)" : std::string(value.type());
  };
  throw Problem(fmt::format("{} {} {} cannot be computed", named(left), sign, named(right)));
}

std::int64_t whole_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  constexpr std::int64_t kMost = 64;  // larger powers of 2 do not fit
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (std::int64_t i = 0; i < std::min(exponent, kMost); ++i) {
    if (__builtin_mul_overflow(result, base, &result)) throw Problem("a number does not fit 64 bits");
  }
  return result;
}

Value whole(const std::string& sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflows = false;
  if (sign == "+") overflows = __builtin_add_overflow(a, b, &result);
  if (sign == "-") overflows = __builtin_sub_overflow(a, b, &result);
  if (sign == "*") overflows = __builtin_mul_overflow(a, b, &result);
  if (sign == "**") result = whole_power(a, b);
  if (sign == "//" || sign == "%") {
    if (b == 0) throw Problem("a division by zero");
    overflows = b == -1 && a == std::numeric_limits<std::int64_t>::min();
    if (!overflows) {
      const std::int64_t rest = a % b;
      const bool is_below = rest != 0 && (rest < 0) != (b < 0);  // Python rounds down
      result = sign == "%" ? rest + (is_below ? b : 0) : a / b - (is_below ? 1 : 0);
    }
  }
  if (overflows) throw Problem("a number does not fit 64 bits");
  return result;
}

// The places that a slice takes of `size`, as Python counts them.
std::vector<std::size_t> sliced(std::optional<std::int64_t> from, std::optional<std::int64_t> to,
                                std::int64_t step, std::size_t size) {
  if (step == 0) throw Problem("a slice has the step 0");
  const auto count = static_cast<std::int64_t>(size);
  const auto bound = [&](std::optional<std::int64_t> at, std::int64_t otherwise) {
    if (!at) return otherwise;
    const std::int64_t place = *at < 0 ? std::max(*at, -count) + count : *at;
    const bool is_before = *at < -count;
    if (step > 0) return std::min(is_before ? 0 : place, count);
    return is_before ? -1 : std::min(place, count - 1);
  };
  std::vector<std::size_t> places;
  const std::int64_t end = bound(to, step > 0 ? count : -1);
  std::int64_t at = bound(from, step > 0 ? 0 : count - 1);
  while (step > 0 ? at < end : at > end) {
    places.push_back(static_cast<std::size_t>(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return places;
}

}  // namespace

Value Renderer::evaluate(const Node& node) {
  const Deeper deeper(*this);
  spend(1);
  line_ = node.line;
  const auto part = [&](std::size_t i) { return evaluate(*node.parts[i]); };
  switch (node.kind) {
    case Node::kConstant:
      return node.value;
    case Node::kName:
      return evaluate_name(node.text);
    case Node::kList:
      return charged(evaluate(node.parts));
    case Node::kTuple:
      return charged(evaluate(node.parts), List::kTuple);
    case Node::kDict:
      return made_dict(node);
    case Node::kAttribute:
      return attribute(part(0), node.text);
    case Node::kItem: {
      const Value object = part(0);
      return node.parts[1]->kind == Node::kSlice ? slice(object, *node.parts[1]) : item(object, part(1));
    }
    case Node::kCall: {
      const Value function = part(0);
      Given given = evaluate(node.arguments);
      line_ = node.line;
      return call(function, std::move(given));
    }
    case Node::kFilter:
      return filtered(node, {});
    case Node::kTest: {
      const Value operand = part(0);
      const Given given = evaluate(node.arguments);
      line_ = node.line;
      return test(node.text, operand, given);
    }
    case Node::kNot:
      return !part(0).is_true();
    case Node::kMinus:
    case Node::kPlus:
      return signed_value(node);
    case Node::kBinary:
      return binary(node);
    case Node::kConcat:
      return concatenated(node);
    case Node::kAnd:
    case Node::kOr: {
      Value left = part(0);
      return left.is_true() == (node.kind == Node::kAnd) ? part(1) : left;
    }
    case Node::kCompare:
      return compared(node);
    case Node::kChoice:
      if (part(0).is_true()) return part(1);
      return node.parts.size() > 2 ? part(2) : undefined("an inline if that is false has no else, and so");
    default:
      throw Problem("a block stands where an expression should");
  }
}

Value Renderer::concatenated(const Node& node) {
  std::string text;
  for (const Value& one : evaluate(node.parts)) text += to_text(one);
  return charged(std::move(text));
}

std::vector<Value> Renderer::evaluate(const Nodes& parts) {
  std::vector<Value> values;
  for (const NodePointer& part : parts) values.push_back(evaluate(*part));
  return values;
}

Given Renderer::evaluate(const Arguments& arguments) {
  Given given{evaluate(arguments.given)};
  for (const auto& [name, node] : arguments.named) given.named.emplace_back(name, evaluate(*node));
  if (arguments.all_given) {
    for (Value& value : items(evaluate(*arguments.all_given))) given.values.push_back(std::move(value));
  }
  if (arguments.all_named) {
    const Value all = evaluate(*arguments.all_named);
    if (all.dict() == nullptr) throw Problem(fmt::format("** is given {}, expected an object", all.type()));
    for (const auto& [name, value] : all.dict()->items) given.named.emplace_back(to_text(name), value);
  }
  return given;
}

Value Renderer::evaluate_name(const std::string& name) {
  if (const Value* value = scope_->find(name)) return *value;
  return undefined(name);
}

Value Renderer::made_dict(const Node& node) {
  std::vector<Value> all = evaluate(node.parts);
  Dict::Items members;
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) members.emplace_back(all[i], all[i + 1]);
  spend(all.size());
  return make_dict(std::move(members));
}

Value Renderer::signed_value(const Node& node) {
  const Value value = evaluate(*node.parts[0]);
  if (!value.is_number()) throw Problem(fmt::format("a sign stands before {}", value.type()));
  const bool is_minus = node.kind == Node::kMinus;
  if (value.is_float()) return is_minus ? -value.number() : value.number();
  return is_minus ? whole("-", 0, value.integer("")) : Value(value.integer(""));
}

bool Renderer::compared(const Node& node) {
  Value left = evaluate(*node.parts[0]);
  for (std::size_t i = 0; i < node.names.size(); ++i) {
    Value right = evaluate(*node.parts[i + 1]);
    line_ = node.line;
    const std::string& sign = node.names[i];
    bool holds = false;
    if (sign == "==" || sign == "!=") {
      spend(1);
      holds = equal(left, right) == (sign == "==");
    } else if (sign == "in" || sign == "not in") {
      holds = contains(right, left) == (sign == "in");
    } else {
      const int order = compare(left, right);
      holds = sign == "<" ? order < 0 : sign == "<=" ? order <= 0 : sign == ">" ? order > 0 : order >= 0;
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

bool Renderer::contains(const Value& whole, const Value& part) {
  if (whole.is_text()) {
    spend(1 + whole.text().size() / 256);
    if (part.is_text()) return whole.text().find(part.text()) != std::string::npos;
    throw Problem(fmt::format("a text is asked whether it holds {}", part.type()));
  }
  if (const Dict* dict = whole.dict()) {
    spend(1 + dict->items.size() / 16);
    return dict->find(part) != nullptr;
  }
  const std::vector<Value> all = items(whole);
  return std::ranges::any_of(all, [&](const Value& one) { return equal(one, part); });
}

Value Renderer::binary(const Node& node) {
  const std::string& sign = node.text;
  const Value left = evaluate(*node.parts[0]), right = evaluate(*node.parts[1]);
  line_ = node.line;
  if (sign == "+") return add(left, right);
  if (sign == "%" && left.is_text()) return formatted(left.text(), right);
  if (sign == "*") {
    const bool is_left = left.is_text() || left.list() != nullptr;
    const Value &what = is_left ? left : right, &times = is_left ? right : left;
    if ((what.is_text() || what.list() != nullptr) && (times.is_integer() || times.is_bool())) {
      return repeated(what, times.integer(""));
    }
  }
  return arithmetic(sign, left, right);
}

Value Renderer::add(const Value& left, const Value& right) {
  if (left.is_text() && right.is_text()) return charged(left.text() + right.text());
  const List *a = left.list(), *b = right.list();
  if (a != nullptr && b != nullptr && a->kind == b->kind && a->kind <= List::kTuple) {
    std::vector<Value> all = a->items;
    all.insert(all.end(), b->items.begin(), b->items.end());
    return charged(std::move(all), a->kind);
  }
  return arithmetic("+", left, right);
}

Value Renderer::repeated(const Value& what, std::int64_t times) {
  const std::size_t count = times < 0 ? 0 : static_cast<std::size_t>(times);
  const std::size_t size = what.is_text() ? what.text().size() : what.list()->items.size();
  constexpr std::size_t kMost = std::size_t{1} << 24;
  if (count > kMost || count * size > kMost) {
    throw Problem(fmt::format("repeats a value to more than {} parts", kMost));
  }
  if (what.is_text()) {
    std::string text;
    for (std::size_t i = 0; i < count && size > 0; ++i) text += what.text();
    return charged(std::move(text));
  }
  if (what.list()->kind > List::kTuple) refuse("*", what, times);
  spend(count * size);
  std::vector<Value> all;
  for (std::size_t i = 0; i < count && size > 0; ++i) {
    all.insert(all.end(), what.list()->items.begin(), what.list()->items.end());
  }
  return charged(std::move(all), what.list()->kind);
}

Value Renderer::arithmetic(const std::string& sign, const Value& left, const Value& right) {
  if (!left.is_number() || !right.is_number()) refuse(sign, left, right);
  const bool is_whole = !left.is_float() && !right.is_float() && sign != "/";
  const double a = left.number(), b = right.number();
  if (is_whole && (sign != "**" || right.integer("") >= 0)) {
    return whole(sign, left.integer(""), right.integer(""));
  }
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") return std::pow(a, b);
  if (b == 0) throw Problem("a division by zero");
  if (sign == "/") return a / b;
  const double rest = std::fmod(a, b);
  const bool is_below = rest != 0 && (rest < 0) != (b < 0);
  return sign == "%" ? rest + (is_below ? b : 0) : std::floor(a / b);
}

std::vector<Value> Renderer::items(const Value& value) {
  std::vector<Value> all;
  if (value.is_undefined()) return all;
  if (value.is_text()) {
    const std::vector<std::size_t> places = character_places(value.text());
    spend(places.size());
    for (std::size_t i = 0; i + 1 < places.size(); ++i) {
      all.emplace_back(value.text().substr(places[i], places[i + 1] - places[i]));
    }
  } else if (List* list = value.list()) {
    spend(list->items.size());
    if (list->kind != List::kIterator) return list->items;
    all.assign(list->items.begin() + static_cast<std::ptrdiff_t>(list->taken), list->items.end());
    list->taken = list->items.size();
  } else if (const Dict* dict = value.dict()) {
    spend(dict->items.size());
    for (const auto& [name, held] : dict->items) all.push_back(name);
  } else {
    throw Problem(fmt::format("a list is expected, not {}", value.type()));
  }
  return all;
}

Value Renderer::slice(const Value& object, const Node& node) {
  std::optional<std::int64_t> at[3];
  for (std::size_t i = 0; i < node.parts.size(); ++i) {
    const Value value = node.parts[i] ? evaluate(*node.parts[i]) : Value();
    if (!value.is_none()) at[i] = value.integer("the place of a slice");
  }
  if (object.is_undefined()) throw Problem(fmt::format("{} is undefined", *object.undefined().name));
  const bool has_places = object.list() != nullptr && object.list()->kind <= List::kRange;
  if (!object.is_text() && !has_places) return undefined("a slice of " + std::string(object.type()));
  const std::vector<std::size_t> characters =
      object.is_text() ? character_places(object.text()) : std::vector<std::size_t>();
  const std::size_t size = object.is_text() ? characters.size() - 1 : object.list()->items.size();
  spend(object.is_text() ? object.text().size() / 64 : 1);
  const std::vector<std::size_t> places = sliced(at[0], at[1], at[2].value_or(1), size);
  if (object.is_text()) {
    std::string text;
    for (const std::size_t i : places) {
      text.append(object.text(), characters[i], characters[i + 1] - characters[i]);
    }
    return charged(std::move(text));
  }
  std::vector<Value> some;
  for (const std::size_t i : places) some.push_back(object.list()->items[i]);
  return charged(std::move(some), object.list()->kind);
}

Value Renderer::filter(const std::string& name, const Value& operand, const Given& given) {
  if (!is_filter(name)) throw Problem(fmt::format("the filter {} is not supported here", lpmm::shown(name)));
  spend(1);
  return filter_value(*this, name, operand, given);
}

bool Renderer::test(const std::string& name, const Value& operand, const Given& given) {
  if (!is_test(name)) throw Problem(fmt::format("the test {} is not supported here", lpmm::shown(name)));
  return test_value(*this, name, operand, given);
}

}  // namespace lpmm::chat
