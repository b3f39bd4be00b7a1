#include "lpmm/chat/renderer.h"

#include <fmt/format.h>

#include <algorithm>

#include "lpmm/data/utf8.h"

namespace lpmm::chat {
namespace {

bool mentions(const Node& node, const std::string& name) {
  if (node.kind == Node::kName && node.text == name) return true;
  const auto in = [&](const NodePointer& part) { return part && mentions(*part, name); };
  return std::ranges::any_of(node.parts, in) || std::ranges::any_of(node.body, in) ||
         std::ranges::any_of(node.arguments.given, in) || in(node.arguments.all_given) ||
         in(node.arguments.all_named) ||
         std::ranges::any_of(node.arguments.named, [&](const auto& one) { return in(one.second); });
}

}  // namespace

Bound::Bound(std::string_view function, const Given& given,
             std::initializer_list<std::string_view> parameters)
    : function_(function), parameters_(parameters), places_(parameters.size()) {
  if (given.values.size() > places_.size()) {
    throw Problem(fmt::format("{} takes at most {} arguments", function, places_.size()));
  }
  for (std::size_t i = 0; i < given.values.size(); ++i) places_[i] = &given.values[i];
  for (const auto& [name, value] : given.named) {
    const auto at = std::ranges::find(parameters_, name);
    if (at == parameters_.end()) throw Problem(fmt::format("{} takes no argument {}", function, shown(name)));
    const Value*& place = places_[static_cast<std::size_t>(at - parameters_.begin())];
    if (place != nullptr) throw Problem(fmt::format("{} is given {} twice", function, name));
    place = &value;
  }
}

const Value& Bound::needed(std::size_t parameter) const {
  if (const Value* value = at(parameter)) return *value;
  throw Problem(fmt::format("{} lacks its argument {}", function_, parameters_[parameter]));
}

bool Bound::is_true(std::size_t parameter, bool otherwise) const {
  return at(parameter) == nullptr ? otherwise : at(parameter)->is_true();
}

std::int64_t Bound::integer(std::size_t parameter, std::int64_t otherwise) const {
  if (at(parameter) == nullptr) return otherwise;
  return at(parameter)->integer(fmt::format("{} of {}", parameters_[parameter], function_).c_str());
}

std::string Bound::text(std::size_t parameter, const char* otherwise) const {
  return at(parameter) == nullptr ? otherwise : to_text(*at(parameter));
}

Renderer::Deeper::Deeper(Renderer& renderer) : renderer_(renderer) {
  constexpr std::size_t kMost = 800;
  if (renderer_.depth_ >= kMost) throw Problem("calls itself without end");
  ++renderer_.depth_;
}

Renderer::Renderer(const Nodes& program, const RenderLimits& limits)
    : program_(program), limits_(limits), scope_(std::make_shared<Scope>()) {}

Renderer::~Renderer() {
  // Scopes and namespaces that refer to themselves would never be freed otherwise.
  for (const auto& scope : kept_scopes_) scope->names.clear();
  for (const auto& one : namespaces_) one->items.clear();
}

Rendered Renderer::run() {
  run(program_);
  line_ = 0;
  return {std::move(text_), std::move(generated_)};
}

void Renderer::spend(std::size_t steps) {
  steps_ += steps;
  if (steps_ > limits_.steps) throw Problem(fmt::format("takes more than {} steps", limits_.steps));
}

Value Renderer::charged(std::string text) {
  bytes_ += text.size();
  spend(1 + text.size() / 256);
  if (bytes_ > limits_.bytes) throw Problem(fmt::format("makes more than {} bytes of texts", limits_.bytes));
  return text;
}

Value Renderer::charged(std::vector<Value> items, List::Kind kind) {
  spend(1 + items.size());
  bytes_ += items.size() * sizeof(Value);
  if (bytes_ > limits_.bytes) throw Problem(fmt::format("makes more than {} bytes of lists", limits_.bytes));
  return make_list(std::move(items), kind);
}

void Renderer::write(const Value& value) {
  const std::string other = value.is_text() ? std::string() : to_text(value);
  const std::string& text = value.is_text() ? value.text() : other;
  bytes_ += text.size();
  spend(1 + text.size() / 256);
  if (bytes_ > limits_.bytes) throw Problem(fmt::format("writes more than {} bytes", limits_.bytes));
  *out_ += text;
}

template <class Run>
std::string Renderer::captured(const Run& run) {
  std::string text;
  std::string* before = std::exchange(out_, &text);
  const struct Back {
    std::string*& out;
    std::string* before;
    ~Back() { out = before; }
  } back{out_, before};
  run();
  return text;
}

template <class Run>
Renderer::Next Renderer::within(const std::shared_ptr<Scope>& around, const Run& run) {
  auto inner = std::make_shared<Scope>();
  inner->around = around;
  const struct Back {
    std::shared_ptr<Scope>& scope;
    std::shared_ptr<Scope> before;
    ~Back() { scope = std::move(before); }
  } back{scope_, std::exchange(scope_, std::move(inner))};
  return run();
}

Renderer::Next Renderer::run(const Nodes& body) {
  for (const NodePointer& node : body) {
    if (const Next next = run(*node); next != Next::kOn) return next;
  }
  return Next::kOn;
}

Renderer::Next Renderer::run(const Node& node) {
  const Deeper deeper(*this);
  spend(1);
  line_ = node.line;
  switch (node.kind) {
    case Node::kOutput:
      for (const NodePointer& part : node.parts) write(evaluate(*part));
      return Next::kOn;
    case Node::kIf:
      return run_if(node);
    case Node::kFor:
      return run_for(node);
    case Node::kSet:
      assign(*node.parts[0], evaluate(*node.parts[1]));
      return Next::kOn;
    case Node::kSetBlock:
      run_set_block(node);
      return Next::kOn;
    case Node::kMacro:
      scope_->set(node.text, defined(node, node.text));
      return Next::kOn;
    case Node::kCallBlock: {
      const Node& called = *node.parts.back();
      const Value function = evaluate(*called.parts[0]);
      Given given = evaluate(called.arguments);
      given.named.emplace_back("caller", defined(node, "caller"));
      line_ = node.line;
      write(call(function, std::move(given)));
      return Next::kOn;
    }
    case Node::kFilterBlock: {
      std::string text = captured([&] { within(scope_, [&] { return run(node.body); }); });
      write(filtered(*node.parts[0], charged(std::move(text))));
      return Next::kOn;
    }
    case Node::kWith:
      return run_with(node);
    case Node::kGeneration:
      run_generation(node);
      return Next::kOn;
    case Node::kBlock:
      return run(node.body);
    case Node::kBreak:
      return Next::kBreak;
    case Node::kContinue:
      return Next::kContinue;
    default:
      throw Problem("an expression stands where a block should");
  }
}

Renderer::Next Renderer::run_if(const Node& node) {
  for (std::size_t i = 0; i < node.parts.size(); ++i) {
    if (evaluate(*node.parts[i]).is_true()) return run(*node.body[i]);
  }
  return node.body.size() > node.parts.size() ? run(*node.body.back()) : Next::kOn;
}

std::vector<Value> Renderer::loop_items(const Node& node) {
  std::vector<Value> all = items(evaluate(*node.parts[1]));
  if (node.parts.size() < 3) return all;
  std::vector<Value> some;
  for (Value& one : all) {
    within(scope_, [&] {
      assign(*node.parts[0], one);
      if (evaluate(*node.parts[2]).is_true()) some.push_back(std::move(one));
      return Next::kOn;
    });
  }
  return some;
}

Renderer::Next Renderer::run_for(const Node& node) {
  const auto loop = std::make_shared<Loop>(Loop{loop_items(node)});
  if (loop->items.empty()) {
    if (node.body.size() < 2) return Next::kOn;
    return within(scope_, [&] { return run(*node.body[1]); });
  }
  const struct Over {
    Loop& loop;
    ~Over() {
      loop.is_over = true;
      loop.last.clear();
    }
  } over{*loop};
  for (; loop->at < loop->items.size(); ++loop->at) {
    const Next next = within(scope_, [&] {
      scope_->set("loop", loop);
      assign(*node.parts[0], loop->items[loop->at]);
      return run(*node.body[0]);
    });
    if (next == Next::kBreak) break;
  }
  return Next::kOn;
}

Renderer::Next Renderer::run_with(const Node& node) {
  std::vector<Value> values;
  for (std::size_t i = 1; i < node.parts.size(); i += 2) values.push_back(evaluate(*node.parts[i]));
  return within(scope_, [&] {
    for (std::size_t i = 0; i < values.size(); ++i) assign(*node.parts[2 * i], values[i]);
    return run(node.body);
  });
}

void Renderer::run_set_block(const Node& node) {
  Value value = charged(captured([&] { within(scope_, [&] { return run(node.body); }); }));
  if (node.parts.size() > 1) value = filtered(*node.parts[1], std::move(value));
  assign(*node.parts[0], value);
}

void Renderer::run_generation(const Node& node) {
  const std::string text = captured([&] { within(scope_, [&] { return run(node.body); }); });
  // Within what is captured itself, transformers counts from what has been written so far, too.
  generated_.emplace_back(text_.size(), text_.size() + text.size());
  *out_ += text;
}

Value Renderer::filtered(const Node& node, Value operand) {
  if (const Node* inner = node.parts[0].get()) {
    operand = inner->kind == Node::kFilter ? filtered(*inner, std::move(operand)) : evaluate(*inner);
  }
  const Given given = evaluate(node.arguments);
  line_ = node.line;
  return filter(node.text, operand, given);
}

void Renderer::assign(const Node& target, const Value& value) {
  if (target.kind == Node::kName) {
    scope_->set(target.text, value);
  } else if (target.kind == Node::kNamespaceItem) {
    const Value object = evaluate_name(target.text);
    Namespace* space = object.name_space();
    const std::string& name = target.names[0];
    if (space == nullptr) {
      throw Problem(
          fmt::format("{} is {}; only a namespace's members can be set", target.text, object.type()));
    }
    if (name.starts_with('_')) throw Problem(fmt::format("{} begins with _, which no member may", name));
    const auto at = std::ranges::find_if(space->items, [&](const auto& item) { return item.first == name; });
    if (at == space->items.end()) {
      space->items.emplace_back(name, value);
    } else {
      at->second = value;
    }
  } else {
    const std::vector<Value> parts = items(value);
    if (parts.size() != target.parts.size()) {
      throw Problem(fmt::format("{} names are set to {} values", target.parts.size(), parts.size()));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) assign(*target.parts[i], parts[i]);
  }
}

Value Renderer::defined(const Node& node, const std::string& name) {
  if (kept_scopes_.empty() || kept_scopes_.back() != scope_) kept_scopes_.push_back(scope_);
  return std::make_shared<Callable>(Callable{Callable::kMacro, name, {}, &node, scope_});
}

Value Renderer::call_macro(const Callable& macro, Given given) {
  const Node& node = *macro.node;
  const bool is_block = node.kind == Node::kCallBlock;
  const std::size_t defaults = node.parts.size() - (is_block ? 1 : 0), wanted = node.names.size();
  std::string text = captured([&] {
    within(macro.scope, [&] {
      for (std::size_t i = 0; i < wanted; ++i) {
        const std::string& name = node.names[i];
        const auto at = std::ranges::find_if(given.named, [&](const auto& one) { return one.first == name; });
        if (i < given.values.size()) {
          scope_->set(name, given.values[i]);
        } else if (at != given.named.end()) {
          scope_->set(name, at->second);
          given.named.erase(at);
        } else if (i + defaults >= wanted) {
          scope_->set(name, evaluate(*node.parts[i + defaults - wanted]));
        } else {
          const auto why = fmt::format("the argument {} of {} was not given", name, macro.name);
          scope_->set(name, Undefined(why));
        }
      }
      set_rest(macro, given);
      return run(node.body);
    });
  });
  return charged(std::move(text));
}

void Renderer::set_rest(const Callable& macro, Given& given) {
  const std::size_t wanted = macro.node->names.size();
  std::vector<Value> more;
  for (std::size_t i = wanted; i < given.values.size(); ++i) more.push_back(given.values[i]);
  Value caller = Undefined("caller");
  Dict::Items named;
  for (auto& [name, value] : given.named) {
    if (name == "caller") {
      caller = value;
    } else {
      named.emplace_back(name, value);
    }
  }
  const auto needs = [&](const char* name) {
    if (mentions(*macro.node, name)) return;
    throw Problem(fmt::format("{} is given more arguments than it takes", macro.name));
  };
  if (!more.empty()) needs("varargs");
  if (!named.empty()) needs("kwargs");
  if (!caller.is_undefined()) needs("caller");
  scope_->set("varargs", make_list(std::move(more), List::kTuple));
  scope_->set("kwargs", make_dict(std::move(named)));
  scope_->set("caller", std::move(caller));
}

}  // namespace lpmm::chat
