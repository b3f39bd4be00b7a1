// The values of a chat template, as Python has them where a template can tell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lpmm/files/json.h"

namespace lpmm::chat {

// An error of a template, or a limit that it passed; render() adds the template's name and line.
class Problem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Value;
struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Callable;

struct Undefined {
  std::shared_ptr<const std::string> name;  // of what was looked for

  explicit Undefined(std::string of) : name(std::make_shared<const std::string>(std::move(of))) {}
};
struct None {};

// Values share what they hold; only a namespace, and how much of an iterator is left, ever changes.
class Value {
 public:
  using Text = std::shared_ptr<const std::string>;

  Value() = default;  // None
  // NOLINTBEGIN(google-explicit-constructor): what C++ has is what a template has
  Value(bool value) : held_(value) {}
  Value(std::int64_t value) : held_(value) {}
  Value(double value) : held_(value) {}
  Value(std::string text) : held_(std::make_shared<const std::string>(std::move(text))) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(Undefined value) : held_(std::move(value)) {}
  template <class Held>
  requires std::is_same_v<Held, List> || std::is_same_v<Held, Dict> || std::is_same_v<Held, Namespace> ||
      std::is_same_v<Held, Loop> || std::is_same_v<Held, Callable>
      Value(std::shared_ptr<Held> held) : held_(std::move(held)) {}
  // NOLINTEND(google-explicit-constructor)

  bool is_undefined() const { return std::holds_alternative<Undefined>(held_); }
  bool is_none() const { return std::holds_alternative<None>(held_); }
  bool is_bool() const { return std::holds_alternative<bool>(held_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(held_); }
  bool is_float() const { return std::holds_alternative<double>(held_); }
  bool is_number() const { return is_bool() || is_integer() || is_float(); }
  bool is_text() const { return std::holds_alternative<Text>(held_); }

  bool boolean() const { return std::get<bool>(held_); }
  double number() const;  // of any number
  // Returns an integer or a bool as a number. Throws Problem("WHAT is ...") for anything else.
  std::int64_t integer(const char* what) const;
  const std::string& text() const { return *std::get<Text>(held_); }
  const Undefined& undefined() const { return std::get<Undefined>(held_); }
  // Null where it is something else.
  List* list() const { return get<List>(); }
  Dict* dict() const { return get<Dict>(); }
  Namespace* name_space() const { return get<Namespace>(); }
  Loop* loop() const { return get<Loop>(); }
  Callable* callable() const { return get<Callable>(); }

  const char* type() const;  // for messages: "a text"
  bool is_true() const;
  // Objects and lists within one another; at most kDeepest, so that walks over a value end.
  std::size_t depth() const;
  // The same object, or the same small value.
  bool is_same(const Value& other) const;

 private:
  template <class Held>
  Held* get() const {
    const auto* held = std::get_if<std::shared_ptr<Held>>(&held_);
    return held == nullptr ? nullptr : held->get();
  }
  std::variant<None, Undefined, bool, std::int64_t, double, Text, std::shared_ptr<List>,
               std::shared_ptr<Dict>, std::shared_ptr<Namespace>, std::shared_ptr<Loop>,
               std::shared_ptr<Callable>>
      held_;
};

inline constexpr std::size_t kDeepest = 100;

struct List {
  // kView: the items of an object, which have no places; kIterator: what filters give, gone once it is read.
  enum Kind { kList, kTuple, kRange, kView, kIterator };
  List(Kind kind, std::vector<Value> items);  // throws Problem where it is too deep

  Kind kind;
  std::vector<Value> items;
  std::size_t depth, taken = 0;  // taken: of an iterator
};
Value make_list(std::vector<Value> items, List::Kind kind = List::kList);

// Names keep the order in which they came. They are texts, or numbers, booleans and none.
struct Dict {
  using Items = std::vector<std::pair<Value, Value>>;
  explicit Dict(Items items);  // of a name that comes twice the last counts; throws Problem as List does

  const Value* find(const Value& name) const;

  Items items;
  std::size_t depth;
};
Value make_dict(Dict::Items items);

struct Namespace {
  std::vector<std::pair<std::string, Value>> items;
};

// Python's ==.
bool equal(const Value& a, const Value& b);
// < 0, 0, > 0. Throws Problem where Python has no order for them.
int compare(const Value& a, const Value& b);
// Python's str() and repr(). Throws Problem for what has no text that is the same each time.
std::string to_text(const Value& value);
std::string to_repr(const Value& value);

struct JsonLayout {
  bool ascii = false, sorted = false;
  int indent = -1;  // spaces; -1: all on one line
  std::string indent_text = {}, between = ", ", after_name = ": ";
};
// Python's json.dumps(). Throws Problem for what is no JSON.
std::string to_json(const Value& value, const JsonLayout& layout);

// Throws Problem for numbers that may be whole ones beyond 64 bits.
Value from_json(const Json& json);

}  // namespace lpmm::chat
