#include "lpmm/chat/template.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/chat/renderer.h"
#include "lpmm/chat/syntax.h"
#include "lpmm/data/utf8.h"

namespace lpmm::chat {
namespace {

bool has_generation(const Nodes& nodes) {
  return std::ranges::any_of(nodes, [](const NodePointer& node) {
    return node && (node->kind == Node::kGeneration || has_generation(node->body));
  });
}

Nodes parsed(const std::string& source, const std::string& name) {
  constexpr std::size_t kLongest = 1 << 20;
  if (source.size() > kLongest) {
    throw RunError(fmt::format("{}: a template of {} bytes; at most {}", name, source.size(), kLongest));
  }
  if (const std::size_t bad = first_bad_byte(source); bad != std::string::npos) {
    throw RunError(fmt::format("{}: byte {} is not UTF-8", name, bad));
  }
  try {
    return parse(source);
  } catch (const Problem& e) {
    throw RunError(fmt::format("{}: {}", name, e.what()));
  }
}

}  // namespace

struct Template::Parts {
  std::string source, name;
  Json tokens;
  Nodes program;
  bool marks_answers;
};

Template::Template(std::string source, std::string name, Json tokens) {
  Nodes program = parsed(source, name);
  const bool marks = has_generation(program);
  parts_ = std::make_unique<const Parts>(
      Parts{std::move(source), std::move(name), std::move(tokens), std::move(program), marks});
}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

void Template::use_for_tools(Template other) {
  for_tools_ = std::make_unique<const Template>(std::move(other));
}
bool Template::marks_answers(const Json& tools) const {
  return for_tools_ && !tools.is_null() ? for_tools_->marks_answers(tools) : parts_->marks_answers;
}
const std::string& Template::source() const {
  return parts_->source;
}
const std::string& Template::name() const {
  return parts_->name;
}
const Json& Template::tokens() const {
  return parts_->tokens;
}

Rendered Template::render(const Json& messages, const Json& tools, const RenderOptions& options) const {
  if (for_tools_ && !tools.is_null()) return for_tools_->render(messages, tools, options);
  Renderer renderer(parts_->program, options.limits);
  try {
    for (const char* name : {"range", "dict", "namespace", "raise_exception", "strftime_now"}) {
      renderer.set(name, std::make_shared<Callable>(Callable{Callable::kFunction, name}));
    }
    renderer.set_now(options.now);
    renderer.set("messages", from_json(messages));
    renderer.set("tools", from_json(tools));
    renderer.set("documents", {});
    renderer.set("add_generation_prompt", options.asks_answer);
    for (const Json* more : {&parts_->tokens, &options.extra}) {
      for (const auto& [name, value] : more->items()) renderer.set(name, from_json(value));
    }
    return renderer.run();
  } catch (const Problem& e) {
    const std::string line = renderer.line() == 0 ? "" : fmt::format("line {}: ", renderer.line());
    throw RunError(fmt::format("{}: {}{}", parts_->name, line, e.what()));
  }
}

}  // namespace lpmm::chat
