#include "experiments/commands/text/chat_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "experiments/commands/arguments.h"
#include "lpmm/base/error.h"
#include "lpmm/data/conversations/chat_templates.h"
#include "lpmm/run/beside/model_files.h"

namespace lpmm {
namespace {

// Returns the text that a template writes after an answer, without white space around it; empty if there is
// none, or if the template refuses such a conversation.
std::string after_answer(const chat::Template& chat_template) {
  constexpr std::string_view kAnswer = "An answer.", kSpace = " \t\r\n";
  const Json messages = {{{"role", "user"}, {"content", "A question."}},
                         {{"role", "assistant"}, {"content", kAnswer}}};
  std::string text;
  try {
    text = chat_template.render(messages, nullptr).text;
  } catch (const RunError&) {
    return {};
  }
  const std::size_t at = text.rfind(kAnswer);
  if (at == std::string::npos) return {};
  text.erase(0, at + kAnswer.size());
  text.erase(0, std::min(text.find_first_not_of(kSpace), text.size()));
  text.resize(text.find_last_not_of(kSpace) + 1);  // npos + 1 is 0
  return text;
}

}  // namespace

ChatFormat::ChatFormat(chat::Template chat_template, TextWriter& writer)
    : template_(std::move(chat_template)), tokenizer_(writer.tokenizer()) {
  const std::string end = after_answer(template_);
  if (end.empty()) return;
  const std::vector<std::int32_t> ids = tokenizer_.encode(end);
  const std::span<const std::int32_t> last = std::span(ids).last(ids.empty() ? 0 : 1);
  if (!ids.empty() && tokenizer_.decode(last, false) == end) {
    writer.add_end(last[0]);
  } else {
    stops_.push_back(end);
  }
}

std::vector<std::int32_t> ChatFormat::prompt(const Json& messages) const {
  std::vector<std::int32_t> ids =
      tokenizer_.encode(template_.render(messages, nullptr, {.asks_answer = true}).text);
  if (ids.empty()) throw RunError(fmt::format("{}: makes an empty text of these messages", name()));
  return ids;
}

std::optional<ChatFormat> chat_format_of(TextWriter& writer, const std::string& named) {
  const std::string& trained = writer.loaded().config.data.conversations.chat_template;
  const std::string files = model_files_of(writer.loaded().checkpoint);
  std::optional<chat::Template> found =
      find_template(named.empty() ? kept_template(trained, files) : named, files);
  if (!found) return std::nullopt;
  return ChatFormat(*std::move(found), writer);
}

void add_template_option(CLI::App& command, std::string& named) {
  command
      .add_option("--template", named,
                  fmt::format("chat template: a .jinja file, a model's folder, or {} (default: the one that "
                              "the run was trained with, or the model's own)",
                              fmt::join(chat_template_names(), ", ")))
      ->check(kNotEmpty);
}

}  // namespace lpmm
