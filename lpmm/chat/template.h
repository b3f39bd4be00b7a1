// Chat templates: how a conversation becomes the text that a model was trained on. A template is Jinja, as
// published models carry it; what it may use is what those use, and anything else is refused by its line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/files/json.h"

namespace lpmm::chat {

// The resources that a template may use before it is stopped.
struct RenderLimits {
  std::size_t steps = 20'000'000;
  std::size_t bytes = std::size_t{256} << 20;  // of all texts and lists that it makes
};

struct Rendered {
  std::string text;
  // The bytes [first, second) that generation blocks wrote, in their order.
  std::vector<std::pair<std::size_t, std::size_t>> generated;
};

struct RenderOptions {
  bool asks_answer = false;  // ends with the beginning of an answer (add_generation_prompt)
  // The time that strftime_now takes as now, in seconds since 1970 in UTC: 26 July 2024, so that a run's
  // texts are the same each day.
  std::int64_t now = 1721952000;
  Json extra = Json::object();  // further variables, as enable_thinking
  RenderLimits limits = {};
};

// Never changes after it is made, so any number of threads may use one.
class Template {
 public:
  // `name` says in messages where the text is from. `tokens`: variables that name the model's special tokens,
  // as bos_token. Throws RunError("NAME: line N: WHY").
  Template(std::string source, std::string name, Json tokens = Json::object());
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  // `messages`: a list of objects with role and content; `tools`: a list, or null where there are none.
  // Throws RunError("NAME: line N: WHY"), also for what the template refuses by raise_exception.
  Rendered render(const Json& messages, const Json& tools, const RenderOptions& options = {}) const;
  // For conversations with tools another one is rendered from then on, as some models have two.
  void use_for_tools(Template other);
  const Template* for_tools() const { return for_tools_.get(); }  // that one; null: there is none
  // Returns true if generation blocks mark the text that the model writes itself.
  bool marks_answers(const Json& tools) const;
  const std::string& source() const;
  const std::string& name() const;
  const Json& tokens() const;

 private:
  struct Parts;
  std::unique_ptr<const Parts> parts_;
  std::unique_ptr<const Template> for_tools_;
};

}  // namespace lpmm::chat
