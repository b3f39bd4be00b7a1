// Where the chat template of a model comes from.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/chat/template.h"

namespace lpmm {

// The names of the templates that need no file.
std::span<const std::string_view> chat_template_names();

// The special tokens that a folder's tokenizer_config.json and special_tokens_map.json name, as templates
// take them: bos_token, eos_token and so on.
Json special_tokens(const std::string& folder);

// What a published model's folder says: the text of chat_template.jinja, else those of tokenizer_config.json
// that are "default" or "tool_use"; empty: it has none. Throws RunError naming the file and what is wrong.
struct TemplateText {
  std::string text, place;  // where it stands, for messages
  bool is_for_tools = false;
};
std::vector<TemplateText> template_texts(const std::string& folder);

// The templates of a folder that has none of those, "chat_template.json,
// additional_chat_templates/rag.jinja", which are taken only where data.template names them; empty: there are
// none.
std::string other_templates(const std::string& folder);

// The template of a published model's folder: chat_template.jinja, else that of tokenizer_config.json;
// nothing where it has none. Throws RunError naming the file and what is wrong with it.
std::optional<chat::Template> template_in(const std::string& folder);

// What data.template says: a name, a .jinja file, a folder; empty: the template in `folder`, the kept files
// of a model, or nothing. Special tokens are those of `folder`, which may be empty. Throws UsageError for a
// name that is none, RunError as above.
std::optional<chat::Template> find_template(const std::string& named, const std::string& folder);

// Writes the template that find_template() finds into `folder`, as its own. It sets the special tokens that
// are others there.
void keep_template(const std::string& named, const std::string& folder);
// The name by which find_template() finds what a run was trained with. Where data.template `named` a file,
// that is the `folder` which keeps it: the file may have changed since.
std::string kept_template(const std::string& named, const std::string& folder);

}  // namespace lpmm
