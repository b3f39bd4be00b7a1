// The form in which a model is spoken to: its chat template, and the texts or token that end an answer.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/commands/text/text_writer.h"
#include "lpmm/chat/template.h"

namespace lpmm {

class ChatFormat {
 public:
  // Finds what ends an answer, by rendering one: a token of its own, which `writer` ends texts at from then
  // on, or a text.
  ChatFormat(chat::Template chat_template, TextWriter& writer);
  // `messages`, a list of objects with role and content, up to where the next answer begins. Throws RunError
  // for those that the template refuses, UsageError for a text that the tokenizer does.
  std::vector<std::int32_t> prompt(const Json& messages) const;
  // Texts that end an answer.
  const std::vector<std::string>& stops() const { return stops_; }
  const std::string& name() const { return template_.name(); }

 private:
  chat::Template template_;
  const Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
};

// Takes the template that `named` says (find_template), else the one that the run was trained with, else that
// of the model that it came from; nothing if there is none.
std::optional<ChatFormat> chat_format_of(TextWriter& writer, const std::string& named);
// --template
void add_template_option(CLI::App& command, std::string& named);

}  // namespace lpmm
