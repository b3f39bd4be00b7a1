#include "lpmm/data/conversations/chat_templates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/tokenizers/beside.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kLongestTemplate = 1 << 20;
constexpr std::uint64_t kLongestSettings = 1 << 26;
constexpr const char* kTemplateFile = "chat_template.jinja";

struct Named {
  std::string_view name, source;
};
constexpr Named kTemplates[] = {{"chatml", R"({% for m in messages %}
{{ '<|im_start|>' + m.role + '\n' }}
{%- if m.role == 'assistant' %}
{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}
{% else %}
{{ m.content + '<|im_end|>' }}
{%- endif %}
{{ '\n' }}
{%- endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})"},
                                {"llama3", R"({{ bos_token or '<|begin_of_text|>' }}
{%- for m in messages %}
{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' }}
{%- if m.role == 'assistant' %}
{% generation %}{{ (m.content | trim) + '<|eot_id|>' }}{% endgeneration %}
{% else %}
{{ (m.content | trim) + '<|eot_id|>' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})"},
                                {"gemma", R"({{ bos_token or '<bos>' }}
{%- set ns = namespace(system='') %}
{% for m in messages %}
{% if m.role == 'system' %}
{% set ns.system = (m.content | trim) + '\n\n' %}
{% elif m.role == 'assistant' %}
{{ '<start_of_turn>model\n' }}
{%- generation %}{{ (m.content | trim) + '<end_of_turn>' }}{% endgeneration %}
{{ '\n' }}
{%- else %}
{{ '<start_of_turn>' + m.role + '\n' + ns.system + (m.content | trim) + '<end_of_turn>\n' }}
{%- set ns.system = '' %}
{% endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %})"},
                                {"mistral", R"({{ bos_token or '<s>' }}
{%- set ns = namespace(system='') %}
{% for m in messages %}
{% if m.role == 'system' %}
{% set ns.system = m.content + '\n\n' %}
{% elif m.role == 'user' %}
{{ '[INST] ' + ns.system + m.content + ' [/INST]' }}
{%- set ns.system = '' %}
{% elif m.role == 'assistant' %}
{% generation %}{{ ' ' + m.content + (eos_token or '</s>') }}{% endgeneration %}
{% else %}
{{ raise_exception('the template mistral has no role ' + m.role) }}
{% endif %}
{% endfor %})"},
                                {"alpaca", R"({{ bos_token }}
{%- for m in messages %}
{% if m.role == 'system' %}
{{ m.content + '\n\n' }}
{%- elif m.role == 'user' %}
{{ '### Instruction:\n' + m.content + '\n\n' }}
{%- elif m.role == 'assistant' %}
{{ '### Response:\n' }}
{%- generation %}{{ m.content + (eos_token or '') }}{% endgeneration %}
{{ '\n\n' if not loop.last }}
{%- else %}
{{ raise_exception('the template alpaca has no role ' + m.role) }}
{% endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '### Response:\n' }}{% endif %})"},
                                {"zephyr", R"({% for m in messages %}
{{ '<|' + m.role + '|>\n' }}
{%- if m.role == 'assistant' %}
{% generation %}{{ m.content + (eos_token or '</s>') }}{% endgeneration %}
{% else %}
{{ m.content + (eos_token or '</s>') }}
{%- endif %}
{{ '\n' }}
{%- endfor %}
{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})"}};

// Templates of names have no place for tools, and must not leave them out in silence.
constexpr std::string_view kNoTools =
    "{% for m in messages %}{% if tools or m.tool_calls %}{{ raise_exception('it has no place for tools; "
    "take a "
    "model whose own template has, or leave them out') }}{% endif %}{% endfor %}";

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

chat::Template from_file(const std::string& path, const std::string& folder) {
  return {read_text(path, kLongestTemplate), path, special_tokens(folder)};
}

// What tokenizer_config.json says under "chat_template"; null: nothing.
Json said_in_settings(const std::string& folder) {
  const fs::path settings = fs::path(folder) / kTokenizerConfig;
  const Json said = is_file(settings) ? read_json(settings.string(), kLongestSettings) : Json();
  return said.is_object() ? said.value("chat_template", Json()) : Json();
}

// "chat_template": a text, or a list of {"name", "template"}.
std::vector<TemplateText> texts_of(const Json& said, const std::string& place) {
  if (said.is_null()) return {};
  if (said.is_string()) return {{said.get<std::string>(), place}};
  std::vector<TemplateText> texts;
  for (const Json& one : said) {
    const bool is_one =
        one.is_object() && one.contains("name") && one.contains("template") && one["template"].is_string();
    if (!is_one)
      throw RunError(
          fmt::format("{}: is neither a text nor a list of objects with name and template", place));
    const bool is_for_tools = one["name"] == "tool_use";
    if (one["name"] != "default" && !is_for_tools) continue;
    texts.push_back(
        {one["template"].get<std::string>(), fmt::format("{} {}", place, one["name"].dump()), is_for_tools});
  }
  if (std::ranges::all_of(texts, &TemplateText::is_for_tools)) {
    std::vector<std::string> names;
    for (const Json& one : said) names.push_back(one["name"].dump());
    throw RunError(fmt::format(
        "{}: has no template of the name \"default\", but {}: write the one to use into a file and name "
        "that (data.template or --template)",
        place, fmt::join(names, ", ")));
  }
  return texts;
}

}  // namespace

std::span<const std::string_view> chat_template_names() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    for (const Named& one : kTemplates) names.push_back(one.name);
    return names;
  }();
  return kNames;
}

Json special_tokens(const std::string& folder) {
  Json tokens = Json::object();
  if (folder.empty()) return tokens;
  const TokensBeside beside((fs::path(folder) / kTokenizerConfig).string());
  for (const char* key : kNamedTokens) {
    if (const std::string name = beside.name(key); !name.empty()) tokens[key] = name;
  }
  return tokens;
}

std::vector<TemplateText> template_texts(const std::string& folder) {
  if (folder.empty()) return {};
  const fs::path own = fs::path(folder) / kTemplateFile, settings = fs::path(folder) / kTokenizerConfig;
  if (is_file(own)) return {{read_text(own.string(), kLongestTemplate), own.string()}};
  return texts_of(said_in_settings(folder), settings.string() + ": chat_template");
}

std::optional<chat::Template> template_in(const std::string& folder) {
  std::optional<chat::Template> made, with_tools;
  for (const TemplateText& one : template_texts(folder)) {
    (one.is_for_tools ? with_tools : made).emplace(one.text, one.place, special_tokens(folder));
  }
  if (with_tools) made->use_for_tools(std::move(*with_tools));
  return made;
}

std::string other_templates(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  if (is_file(fs::path(folder) / kTemplateFile) || !said_in_settings(folder).is_null()) return "";
  if (is_file(fs::path(folder) / "chat_template.json")) found.emplace_back("chat_template.json");
  for (fs::directory_iterator at(fs::path(folder) / "additional_chat_templates", error), end;
       !error && at != end; at.increment(error)) {
    found.push_back("additional_chat_templates/" + at->path().filename().string());
  }
  std::ranges::sort(found);
  return fmt::format("{}", fmt::join(found, ", "));
}

std::optional<chat::Template> find_template(const std::string& named, const std::string& folder) {
  if (named.empty()) return template_in(folder);
  const auto* at = std::ranges::find(kTemplates, named, &Named::name);
  if (at != std::end(kTemplates)) {
    return chat::Template(std::string(kNoTools) + std::string(at->source),
                          fmt::format("the template {}", named), special_tokens(folder));
  }
  if (is_file(named)) return from_file(named, folder);
  std::error_code error;
  if (fs::is_directory(named, error)) {
    if (auto made = template_in(named)) return made;
    throw RunError(fmt::format("{}: has no chat template", named));
  }
  const std::string hint = did_you_mean_or_some(named, chat_template_names());
  throw UsageError(
      fmt::format("data.template = \"{}\" is neither a file nor a known template{}", named, hint));
}

void keep_template(const std::string& named, const std::string& folder) {
  const chat::Template made = *find_template(named, folder);
  const Json own = special_tokens(folder);
  const auto text_of = [&](const chat::Template& one) {
    std::string text;
    for (const std::string_view key : kNamedTokens) {
      const std::string token = one.tokens().value(key, "");
      const std::string value = token.empty() ? "undefined" : Json(token).dump();
      if (token != own.value(key, "")) text += fmt::format("{{% set {} = {} %}}\n", key, value);
    }
    return text + one.source();
  };
  const fs::path file = fs::path(folder) / kTemplateFile, settings = fs::path(folder) / kTokenizerConfig;
  if (made.for_tools() == nullptr) return write_text(file.string(), text_of(made));
  fs::remove(file);  // which holds one only
  Json said = is_file(settings) ? read_json(settings.string(), kLongestSettings) : Json::object();
  said["chat_template"] = {{{"name", "default"}, {"template", text_of(made)}},
                           {{"name", "tool_use"}, {"template", text_of(*made.for_tools())}}};
  write_text(settings.string(), said.dump(1) + "\n");
}

std::string kept_template(const std::string& named, const std::string& folder) {
  const bool is_name = std::ranges::count(chat_template_names(), named) > 0;
  return is_name || template_texts(folder).empty() ? named : folder;
}

}  // namespace lpmm
