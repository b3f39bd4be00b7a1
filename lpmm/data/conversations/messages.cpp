#include "lpmm/data/conversations/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "lpmm/base/error.h"
#include "lpmm/data/table.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

// A value that people write as JSON, or as a text that holds JSON.
Json from_text(const Json& value, const char* what) {
  if (!value.is_string()) return value;
  const auto& text = value.get_ref<const std::string&>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return nullptr;
  try {
    return parse_json(text);
  } catch (const std::exception& e) {
    throw RunError(fmt::format("{} holds what is no JSON: {}", what, error_text(e)));
  }
}

// Calls of functions: {"name", "arguments"}, or a list of them, maybe as a text.
Json tool_calls_of(const Json& value) {
  Json calls = from_text(value, "a call of a tool");
  if (calls.is_object()) calls = Json::array({std::move(calls)});
  refuse_unless(calls.is_array() && !calls.empty(),
                "a call of a tool is neither an object nor a list of them");
  for (Json& call : calls) {
    refuse_unless(call.is_object(), "a call of a tool is no object");
    if (!call.contains("function")) call = {{"type", "function"}, {"function", std::move(call)}};
    Json& function = call["function"];
    refuse_unless(function.is_object() && function.contains("name") && function["name"].is_string(),
                  "a call of a tool has no name");
    if (function.contains("arguments")) function["arguments"] = from_text(function["arguments"], "arguments");
  }
  return calls;
}

// Parts of a content: texts become one; "reasoning" and "tool_call" are LLaMA-Factory's.
void join_parts(Json& message) {
  std::string text, reasoning;
  Json calls = Json::array();
  for (const Json& part : message["content"]) {
    refuse_unless(part.is_object(), "a part of a content is no object");
    const std::string type = text_at(part, "type");
    const std::string held = part.contains("text") ? text_at(part, "text") : text_at(part, "value");
    if (type == "text") {
      text += held;
    } else if (type == "reasoning" || type == "thinking") {
      reasoning += part.contains("thinking") ? text_at(part, "thinking") : held;
    } else if (type == "tool_call") {
      for (Json& call : tool_calls_of(held)) calls.push_back(std::move(call));
    } else {
      throw RunError(fmt::format("a part of a content has the type {}; only texts are read", shown(type)));
    }
  }
  message["content"] = text;
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
}

// ShareGPT's {"from", "value"} as {"role", "content"}.
Json renamed(const Json& said) {
  refuse_unless(said.is_object(), "a message is no object");
  if (said.contains("role")) return said;
  constexpr std::pair<std::string_view, std::string_view> kRoles[] = {
      {"human", "user"},          {"user", "user"},       {"gpt", "assistant"},
      {"assistant", "assistant"}, {"model", "assistant"}, {"bot", "assistant"},
      {"chatgpt", "assistant"},   {"system", "system"},   {"function_call", "assistant"},
      {"observation", "tool"},    {"tool", "tool"},       {"function_response", "tool"}};
  const std::string from = text_at(said, "from");
  const auto* role = std::ranges::find_if(kRoles, [&](const auto& one) { return one.first == from; });
  refuse_unless(role != std::end(kRoles),
                fmt::format("a message is from {}, which is no known role", shown(from)));
  Json message = {{"role", role->second}};
  const Json value = said.contains("value") ? said["value"] : Json();
  if (from == "function_call") {
    message["tool_calls"] = tool_calls_of(value);
  } else {
    message["content"] = value;
  }
  for (const char* name : {"weight", "loss_weight"}) {
    if (said.contains(name)) message[name] = said[name];
  }
  return message;
}

}  // namespace

void refuse_unless(bool holds, const std::string& why) {
  if (!holds) throw RunError(why);
}

std::string text_at(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || at->is_null()) return "";
  refuse_unless(at->is_string(), fmt::format("{} is {}, expected a text", name, at->type_name()));
  return at->get<std::string>();
}

Json tools_of(const Json& row) {
  const auto at = row.find("tools");
  if (at == row.end()) return nullptr;
  Json tools = from_text(*at, "tools");
  if (tools.is_null() || (tools.is_array() && tools.empty())) return nullptr;
  refuse_unless(tools.is_array(), fmt::format("tools is {}, expected a list", tools.type_name()));
  for (Json& tool : tools) {
    refuse_unless(tool.is_object(), "tools holds what is no object");
    if (!tool.contains("function")) tool = {{"type", "function"}, {"function", std::move(tool)}};
  }
  return tools;
}

Json message_of(const Json& row) {
  const Json said = renamed(row);
  Json message = Json::object();
  for (const auto& [name, value] : said.items()) {
    if (!value.is_null()) message[name] = value;
  }
  const std::string role = text_at(message, "role");
  refuse_unless(!role.empty(), "a message has no role");
  if (message.contains("content")) {
    if (message["content"].is_array()) join_parts(message);
    refuse_unless(message["content"].is_string() || role == "tool",
                  fmt::format("a content is {}, expected a text", message["content"].type_name()));
  }
  if (message.contains("tool_calls")) message["tool_calls"] = tool_calls_of(message["tool_calls"]);
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (!message.contains(name)) continue;
    Json thought = message[name];
    if (!message.contains("thinking")) message["thinking"] = thought;
    message["reasoning_content"] = std::move(thought);
    break;
  }
  refuse_unless(message.contains("content") || message.contains("tool_calls"),
                fmt::format("a message of the role {} has no content", shown(role)));
  if (role == "assistant" && !message.contains("tool_calls")) {
    refuse_unless(!message["content"].get<std::string>().empty(), "an answer is empty");
  }
  return message;
}

Json turn(const char* role, std::string text) {
  return {{"role", role}, {"content", std::move(text)}};
}

void add_messages(const Json& list, const char* name, Json& messages) {
  refuse_unless(list.is_array() && !list.empty(), fmt::format("{} is no list of messages", name));
  for (const Json& said : list) messages.push_back(message_of(said));
}

Json said_before(const Json& row) {
  Json messages = Json::array();
  if (const std::string system = text_at(row, "system"); !system.empty()) {
    messages.push_back(turn("system", system));
  }
  const auto history = row.find("history");
  if (history == row.end() || history->is_null()) return messages;
  refuse_unless(history->is_array(), "history is no list of pairs");
  for (const Json& pair : *history) {
    const bool is_pair = pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string();
    refuse_unless(is_pair, "history holds what is no pair of a question and an answer");
    messages.push_back(turn("user", pair[0]));
    messages.push_back(message_of(turn("assistant", pair[1])));
  }
  return messages;
}

std::string instruction_of(const Json& row) {
  const std::string input = text_at(row, "input"), instruction = text_at(row, "instruction");
  return input.empty() ? instruction : instruction + "\n" + input;
}

bool has_column(const Json& row, const std::string& name) {
  const auto at = row.find(name);
  return at != row.end() && !at->is_null();
}

std::string column_names(const Json& row) {
  std::string names;
  for (const auto& [name, value] : row.items()) names.append(names.empty() ? "" : ", ").append(name);
  return names.empty() ? "nothing" : shown(names);
}

void note_unused(const Json& row, std::span<const std::string> used, std::vector<std::string>& unused) {
  constexpr std::size_t kMostUnused = 100;
  for (const auto& [key, value] : row.items()) {
    const std::string name = shown_column(key);
    const bool is_new =
        std::ranges::find(used, name) == used.end() && std::ranges::find(unused, name) == unused.end();
    if (is_new && unused.size() < kMostUnused) unused.push_back(name);
  }
}

}  // namespace lpmm
