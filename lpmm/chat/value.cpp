#include "lpmm/chat/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <nlohmann/json.hpp>

#include "lpmm/chat/scope.h"

namespace lpmm::chat {
namespace {

std::size_t deeper(std::size_t depth) {
  if (depth >= kDeepest) throw Problem(fmt::format("lists lie more than {} deep in one another", kDeepest));
  return depth + 1;
}

std::size_t deepest_of(const std::vector<Value>& items) {
  std::size_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return deeper(depth);
}

int sign_of(std::strong_ordering order) {
  return std::is_lt(order) ? -1 : std::is_gt(order) ? 1 : 0;
}

}  // namespace

double Value::number() const {
  if (const auto* value = std::get_if<double>(&held_)) return *value;
  return static_cast<double>(integer("the number"));
}

std::int64_t Value::integer(const char* what) const {
  if (is_bool()) return boolean() ? 1 : 0;
  if (const auto* value = std::get_if<std::int64_t>(&held_)) return *value;
  throw Problem(fmt::format("{} is {}, expected a whole number", what, type()));
}

const char* Value::type() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "none";
  if (is_bool()) return "a boolean";
  if (is_integer()) return "a whole number";
  if (is_float()) return "a number";
  if (is_text()) return "a text";
  if (dict() != nullptr) return "an object";
  if (name_space() != nullptr) return "a namespace";
  if (loop() != nullptr) return "the loop";
  if (callable() != nullptr) return "a function";
  switch (list()->kind) {
    case List::kTuple:
      return "a tuple";
    case List::kRange:
      return "a range";
    case List::kView:
      return "a view of an object";
    case List::kIterator:
      return "an iterator";
    case List::kList:
      break;
  }
  return "a list";
}

bool Value::is_true() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return number() != 0;
  if (is_text()) return !text().empty();
  if (const List* items = list()) return items->kind == List::kIterator || !items->items.empty();
  if (const Dict* members = dict()) return !members->items.empty();
  return true;
}

std::size_t Value::depth() const {
  if (const List* items = list()) return items->depth;
  if (const Dict* members = dict()) return members->depth;
  return 0;
}

bool Value::is_same(const Value& other) const {
  if (held_.index() != other.held_.index()) return false;
  if (is_none()) return true;
  if (is_bool() || is_integer()) return equal(*this, other);
  if (is_text()) return std::get<Text>(held_) == std::get<Text>(other.held_);
  return list() == other.list() && dict() == other.dict() && name_space() == other.name_space() &&
         callable() == other.callable() && !is_float() && !is_undefined();
}

List::List(Kind of, std::vector<Value> all) : kind(of), items(std::move(all)), depth(deepest_of(items)) {}

Value make_list(std::vector<Value> items, List::Kind kind) {
  return std::make_shared<List>(kind, std::move(items));
}

Dict::Dict(Items all) {
  std::size_t deepest = 0;
  items.reserve(all.size());
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  // Equal names stand together then; most objects are small, and some of a user's are not.
  const auto less = [&](std::size_t a, std::size_t b) {
    const Value &x = all[a].first, &y = all[b].first;
    if (x.is_text() != y.is_text()) return y.is_text();
    if (x.is_number() != y.is_number()) return y.is_number();
    const int order_of = x.is_text() || x.is_number() ? compare(x, y) : 0;
    return order_of != 0 ? order_of < 0 : a < b;
  };
  std::ranges::stable_sort(order, less);
  std::vector<std::size_t> last(all.size(), all.size());  // at a name's first place: its last place
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i + 1;
    while (end < order.size() && equal(all[order[i]].first, all[order[end]].first)) ++end;
    last[order[i]] = order[end - 1];
    i = end;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Value& name = all[i].first;
    if (!name.is_text() && !name.is_number() && !name.is_none()) {
      throw Problem(fmt::format("the name of a member is {}", name.type()));
    }
    if (last[i] == all.size()) continue;
    deepest = std::max(deepest, all[last[i]].second.depth());
    items.emplace_back(name, all[last[i]].second);
  }
  depth = deeper(deepest);
}

const Value* Dict::find(const Value& name) const {
  const auto at = std::ranges::find_if(items, [&](const auto& item) { return equal(item.first, name); });
  return at == items.end() ? nullptr : &at->second;
}

Value make_dict(Dict::Items items) {
  return std::make_shared<Dict>(std::move(items));
}

bool equal(const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) return a.text() == b.text();
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return a.number() == b.number();
    return a.integer("") == b.integer("");
  }
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (const List* x = a.list(), *y = b.list(); x != nullptr && y != nullptr) {
    if (x == y) return true;
    return x->kind == y->kind && x->kind != List::kIterator && x->kind != List::kView &&
           std::ranges::equal(x->items, y->items, equal);
  }
  if (const Dict* x = a.dict(), *y = b.dict(); x != nullptr && y != nullptr) {
    if (x == y) return true;
    return x->items.size() == y->items.size() && std::ranges::all_of(x->items, [&](const auto& item) {
             const Value* other = y->find(item.first);
             return other != nullptr && equal(item.second, *other);
           });
  }
  return a.is_same(b);
}

int compare(const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) return sign_of(a.text() <=> b.text());  // UTF-8 sorts as code points do
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) {
      return a.number() < b.number() ? -1 : a.number() > b.number() ? 1 : 0;
    }
    return sign_of(a.integer("") <=> b.integer(""));
  }
  const List *x = a.list(), *y = b.list();
  if (x == nullptr || y == nullptr || x->kind != y->kind || x->kind > List::kTuple) {
    throw Problem(fmt::format("{} and {} have no order", a.type(), b.type()));
  }
  for (std::size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
    if (!equal(x->items[i], y->items[i])) return compare(x->items[i], y->items[i]);
  }
  return sign_of(x->items.size() <=> y->items.size());
}

Value from_json(const Json& json) {
  switch (json.type()) {
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_unsigned:
    case Json::value_t::number_integer:
    case Json::value_t::number_float: {
      // The reader keeps whole numbers beyond 64 bits as rounded ones, which must not be written as if they
      // were.
      constexpr double kMost = 9.2e18, kNoLonger = 1e30;
      const double number = json.get<double>();
      if (std::abs(number) >= kMost && std::abs(number) < kNoLonger) {
        throw Problem(fmt::format("the number {} is too large", json.dump()));
      }
      if (json.is_number_float()) return number;
      return json.get<std::int64_t>();
    }
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(from_json(item));
      return make_list(std::move(items));
    }
    case Json::value_t::object: {
      Dict::Items items;
      items.reserve(json.size());
      for (const auto& [name, item] : json.items()) items.emplace_back(name, from_json(item));
      return make_dict(std::move(items));
    }
    case Json::value_t::null:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  return {};
}

}  // namespace lpmm::chat
