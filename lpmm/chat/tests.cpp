#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "lpmm/chat/characters.h"
#include "lpmm/chat/renderer.h"

namespace lpmm::chat {
namespace {

using Test = std::function<bool(Renderer&, const Value&, const Given&)>;
using OfValue = bool (*)(const Value&);

bool is_iterable(const Value& v) {
  return v.is_text() || v.list() != nullptr || v.dict() != nullptr || v.is_undefined() || v.loop() != nullptr;
}
bool is_sequence(const Value& v) {
  const List* list = v.list();
  return v.is_text() || v.dict() != nullptr || v.is_undefined() ||
         (list != nullptr && list->kind <= List::kRange);
}

std::int64_t rest(const Value& value, std::int64_t by) {
  if (by == 0) throw Problem("a division by zero");
  const std::int64_t left = value.integer("what is tested");
  return by == -1 ? 0 : left % by;
}

const std::map<std::string, Test>& all_tests() {
  static const std::map<std::string, Test> kTests = [] {
    std::map<std::string, Test> all;
    const auto plain = [&](const char* name, OfValue holds) {
      all.emplace(name, [name, holds](Renderer&, const Value& value, const Given& given) {
        const Bound none(name, given, {});
        return holds(value);
      });
    };
    plain("defined", [](const Value& v) { return !v.is_undefined(); });
    plain("undefined", [](const Value& v) { return v.is_undefined(); });
    plain("none", [](const Value& v) { return v.is_none(); });
    plain("boolean", [](const Value& v) { return v.is_bool(); });
    plain("true", [](const Value& v) { return v.is_bool() && v.boolean(); });
    plain("false", [](const Value& v) { return v.is_bool() && !v.boolean(); });
    plain("integer", [](const Value& v) { return v.is_integer(); });
    plain("float", [](const Value& v) { return v.is_float(); });
    plain("number", [](const Value& v) { return v.is_number(); });
    plain("string", [](const Value& v) { return v.is_text(); });
    plain("mapping", [](const Value& v) { return v.dict() != nullptr; });
    plain("iterable", is_iterable);
    plain("sequence", is_sequence);
    plain("callable", [](const Value& v) { return v.callable() != nullptr; });
    plain("odd", [](const Value& v) { return rest(v, 2) != 0; });
    plain("even", [](const Value& v) { return rest(v, 2) == 0; });
    plain("lower", [](const Value& v) { return is_all(to_text(v), "islower").value_or(false); });
    plain("upper", [](const Value& v) { return is_all(to_text(v), "isupper").value_or(false); });
    plain("filter", [](const Value& v) { return is_filter(to_text(v)); });
    plain("test", [](const Value& v) { return is_test(to_text(v)); });
    const auto pair = [&](std::initializer_list<const char*> names,
                          bool (*holds)(Renderer&, const Value&, const Value&)) {
      for (const char* name : names) {
        all.emplace(name, [name, holds](Renderer& renderer, const Value& value, const Given& given) {
          return holds(renderer, value, Bound(name, given, {"other"}).needed(0));
        });
      }
    };
    pair({"==", "eq", "equalto"}, [](Renderer&, const Value& a, const Value& b) { return equal(a, b); });
    pair({"!=", "ne"}, [](Renderer&, const Value& a, const Value& b) { return !equal(a, b); });
    pair({">", "gt", "greaterthan"},
         [](Renderer&, const Value& a, const Value& b) { return compare(a, b) > 0; });
    pair({">=", "ge"}, [](Renderer&, const Value& a, const Value& b) { return compare(a, b) >= 0; });
    pair({"<", "lt", "lessthan"},
         [](Renderer&, const Value& a, const Value& b) { return compare(a, b) < 0; });
    pair({"<=", "le"}, [](Renderer&, const Value& a, const Value& b) { return compare(a, b) <= 0; });
    pair({"in"}, [](Renderer& renderer, const Value& a, const Value& b) { return renderer.contains(b, a); });
    pair({"sameas"}, [](Renderer&, const Value& a, const Value& b) { return a.is_same(b); });
    pair({"divisibleby"},
         [](Renderer&, const Value& a, const Value& b) { return rest(a, b.integer("the divisor")) == 0; });
    return all;
  }();
  return kTests;
}

}  // namespace

bool is_test(const std::string& name) {
  return all_tests().contains(name);
}

bool test_value(Renderer& renderer, const std::string& name, const Value& operand, const Given& given) {
  return all_tests().at(name)(renderer, operand, given);
}

}  // namespace lpmm::chat
