// Runs the tree of a chat template. Its effects, their order and its limits are those of jinja2's
// ImmutableSandboxedEnvironment as transformers sets it up.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lpmm/chat/scope.h"
#include "lpmm/chat/syntax.h"
#include "lpmm/chat/template.h"
#include "lpmm/chat/value.h"

namespace lpmm::chat {

// The arguments of a call.
struct Given {
  std::vector<Value> values = {};
  std::vector<std::pair<std::string, Value>> named = {};
};

// The arguments by the names of parameters. Throws Problem for one too many and for a name that is none.
class Bound {
 public:
  Bound(std::string_view function, const Given& given, std::initializer_list<std::string_view> parameters);

  const Value* at(std::size_t parameter) const { return places_[parameter]; }  // null: not given
  const Value& needed(std::size_t parameter) const;
  bool is_true(std::size_t parameter, bool otherwise = false) const;
  std::int64_t integer(std::size_t parameter, std::int64_t otherwise) const;
  std::string text(std::size_t parameter, const char* otherwise) const;  // any value as a text

 private:
  std::string_view function_;
  std::vector<std::string_view> parameters_;
  std::vector<const Value*> places_;
};

class Renderer {
 public:
  Renderer(const Nodes& program, const RenderLimits& limits);
  ~Renderer();
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;

  void set(const std::string& name, Value value) { scope_->set(name, std::move(value)); }
  void set_now(std::int64_t seconds) { now_ = seconds; }
  Rendered run();
  int line() const { return line_; }

  // For filters, tests and methods.
  void spend(std::size_t steps);    // throws Problem where a template takes too long
  Value charged(std::string text);  // a new text; throws Problem where there are too many
  Value charged(std::vector<Value> items, List::Kind kind = List::kList);
  std::vector<Value> items(
      const Value& value);  // what a loop over it has; throws Problem where there is none
  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& place);
  Value call(const Value& function, Given given);
  Value filter(const std::string& name, const Value& operand, const Given& given);
  bool test(const std::string& name, const Value& operand, const Given& given);
  Value add(const Value& left, const Value& right);
  Value formatted(const std::string& pattern, const Value& values);  // Python's %
  bool contains(const Value& whole, const Value& part);
  std::int64_t now() const { return now_; }

 private:
  enum class Next { kOn, kBreak, kContinue };
  // Counts what is open around.
  class Deeper {
   public:
    explicit Deeper(Renderer& renderer);
    ~Deeper() { --renderer_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Renderer& renderer_;
  };

  Next run(const Nodes& body);
  Next run(const Node& node);
  Next run_if(const Node& node);
  Next run_for(const Node& node);
  Next run_with(const Node& node);
  void run_set_block(const Node& node);
  void run_generation(const Node& node);
  std::vector<Value> loop_items(const Node& node);
  void assign(const Node& target, const Value& value);
  void write(const Value& value);
  template <class Run>
  std::string captured(const Run& run);
  // Runs in a scope of its own, whose names are set first.
  template <class Run>
  Next within(const std::shared_ptr<Scope>& around, const Run& run);
  Value filtered(const Node& filter, Value operand);

  Value evaluate(const Node& node);
  Value evaluate_name(const std::string& name);
  Value binary(const Node& node);
  Value concatenated(const Node& node);
  Value arithmetic(const std::string& sign, const Value& left, const Value& right);
  Value repeated(const Value& what, std::int64_t times);
  bool compared(const Node& node);
  Value signed_value(const Node& node);
  Value made_dict(const Node& node);
  Given evaluate(const Arguments& arguments);
  std::vector<Value> evaluate(const Nodes& parts);
  Value slice(const Value& object, const Node& slice);
  Value call_macro(const Callable& macro, Given given);
  void set_rest(const Callable& macro, Given& given);  // varargs, kwargs, caller
  Value call_function(const std::string& name, Given& given);
  Value defined(const Node& node, const std::string& name);  // a macro

  const Nodes& program_;
  RenderLimits limits_;
  std::shared_ptr<Scope> scope_;
  std::string text_;
  std::string* out_ = &text_;
  std::vector<std::pair<std::size_t, std::size_t>> generated_;
  std::vector<std::shared_ptr<Scope>> kept_scopes_;  // macros refer to them, and they to macros
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::size_t steps_ = 0, bytes_ = 0, depth_ = 0;
  int line_ = 0;
  std::int64_t now_ = 0;
};

// The methods of texts, objects and lists; filters_ and tests by name are in files of their own.
// Python's str.replace().
std::string replaced(const std::string& text, const std::string& part, const std::string& with,
                     std::int64_t most);
bool has_method(const Value& object, const std::string& name);
Value call_method(Renderer& renderer, const Value& object, const std::string& name, const Given& given);
bool is_filter(const std::string& name);
bool is_test(const std::string& name);
Value filter_value(Renderer& renderer, const std::string& name, const Value& operand, const Given& given);
bool test_value(Renderer& renderer, const std::string& name, const Value& operand, const Given& given);

}  // namespace lpmm::chat
