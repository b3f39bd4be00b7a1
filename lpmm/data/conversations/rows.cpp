#include "lpmm/data/conversations/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>

#include "lpmm/base/error.h"
#include "lpmm/data/table.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"
#include "lpmm/files/gz_file.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kLongestLine = std::size_t{16} << 20, kMostUnused = 100;

bool has_ending(const std::string& file, std::string_view ending) {
  return file.ends_with(ending) || file.ends_with(std::string(ending) + ".gz");
}

// Lines of a file of any length, one after the other.
class Lines {
 public:
  explicit Lines(const std::string& path) : file_(path), piece_(1 << 20, '\0') {}

  // Without its end; false: there is none. Throws RunError naming a line that is too long.
  bool next(std::string& line) {
    line.clear();
    ++number_;
    for (;;) {
      const std::size_t end = piece_.find('\n', at_);
      const bool is_here = end < filled_;
      line.append(piece_, at_, (is_here ? end : filled_) - at_);
      if (line.size() > kLongestLine) {
        throw RunError(
            fmt::format("{}: line {} is longer than {} MB", file_.path(), number_, kLongestLine >> 20));
      }
      if (is_here) {
        at_ = end + 1;
        break;
      }
      at_ = filled_;
      if (is_over_) return !line.empty();
      filled_ = file_.read(std::as_writable_bytes(std::span(piece_)));
      is_over_ = filled_ < piece_.size();
      at_ = 0;
    }
    if (number_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    if (line.ends_with('\r')) line.pop_back();
    return true;
  }
  std::int64_t number() const { return number_; }

 private:
  GzFile file_;
  std::string piece_;
  std::size_t at_ = 0, filled_ = 0;
  bool is_over_ = false;
  std::int64_t number_ = 0;
};

// Why a text is no JSON, as a text; else the JSON.
Json parsed_or_why(const std::string& text) {
  try {
    return parse_json(text);
  } catch (const std::exception& e) {
    return "is no JSON: " + error_text(e);
  }
}

void refuse_unless(bool holds, const std::string& why) {
  if (!holds) throw RunError(why);
}

// ---- what a row says -------------------------------------------------------------------------------------
std::string text_at(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || at->is_null()) return "";
  refuse_unless(at->is_string(), fmt::format("{} is {}, expected a text", name, at->type_name()));
  return at->get<std::string>();
}

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

// One message as templates take it: transformers leaves out what is null, and has a name for what was
// thought.
Json message_of(const Json& said) {
  refuse_unless(said.is_object(), "a message is no object");
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

Json turn(const char* role, std::string text) {
  return {{"role", role}, {"content", std::move(text)}};
}

void add_messages(const Json& list, const char* name, Json& messages) {
  refuse_unless(list.is_array() && !list.empty(), fmt::format("{} is no list of messages", name));
  for (const Json& said : list) messages.push_back(message_of(renamed(said)));
}

// A question and its answer, with what was said before.
Conversation answered(const Json& row, const std::string& question, const std::string& answer) {
  Conversation made;
  made.tools = tools_of(row);
  made.messages = Json::array();
  if (const std::string system = text_at(row, "system"); !system.empty()) {
    made.messages.push_back(turn("system", system));
  }
  if (const auto history = row.find("history"); history != row.end() && !history->is_null()) {
    refuse_unless(history->is_array(), "history is no list of pairs");
    for (const Json& pair : *history) {
      const bool is_pair = pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string();
      refuse_unless(is_pair, "history holds what is no pair of a question and an answer");
      made.messages.push_back(turn("user", pair[0]));
      made.messages.push_back(message_of(turn("assistant", pair[1])));
    }
  }
  made.messages.push_back(turn("user", question));
  made.messages.push_back(message_of(turn("assistant", answer)));
  return made;
}

Conversation with_messages(const Json& row, const char* name) {
  Conversation made;
  made.tools = tools_of(row);
  made.messages = Json::array();
  if (const std::string system = text_at(row, "system"); !system.empty()) {
    made.messages.push_back(turn("system", system));
  }
  add_messages(row[name], name, made.messages);
  return made;
}

// A text, or messages, under one name.
Conversation of_one(const Json& row, const std::string& name) {
  const Json& held = row[name];
  if (!held.is_string()) return with_messages(row, name.c_str());
  Conversation made;
  made.completion = held.get<std::string>();
  refuse_unless(!made.completion.empty(), fmt::format("{} is empty", name));
  return made;
}

Conversation continued(const Json& row, const std::string& first, const std::string& second) {
  const Json &prompt = row[first], &completion = row[second];
  Conversation made;
  if (prompt.is_array() || completion.is_array()) {
    made.tools = tools_of(row);
    made.messages = Json::array();
    add_messages(prompt, first.c_str(), made.messages);
    add_messages(completion, second.c_str(), made.messages);
    return made;
  }
  made.prompt = text_at(row, first.c_str());
  made.completion = text_at(row, second.c_str());
  refuse_unless(!made.completion.empty(), fmt::format("{} is empty", second));
  return made;
}

}  // namespace

std::vector<std::string> conversation_files(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    refuse_unless(is_table(path),
                  fmt::format("{}: the name of a file of conversations ends in .jsonl, .json, .csv "
                              "or .tsv, and maybe .gz",
                              path));
    return {path};
  }
  std::vector<std::string> files;
  for (const auto& item : fs::directory_iterator(path)) {
    const std::string name = item.path().filename().string();
    if (name.starts_with('.') || name.starts_with("README") || name.starts_with("LICENSE")) continue;
    refuse_unless(
        item.is_regular_file(error) && is_table(name),
        fmt::format("{}: is no .jsonl, .json, .csv or .tsv; take it out of the folder of conversations",
                    item.path().string()));
    files.push_back(item.path().string());
  }
  refuse_unless(!files.empty(), fmt::format("{}: holds no .jsonl, .json, .csv or .tsv", path));
  std::ranges::sort(files);
  return files;
}

void for_each_row(const std::string& file,
                  const std::function<bool(const std::string& place, const Json& row)>& take) {
  if (has_ending(file, ".jsonl")) {
    Lines lines(file);
    for (std::string line; lines.next(line);) {
      if (line.find_first_not_of(" \t") == std::string::npos) continue;
      if (!take(fmt::format("line {}", lines.number()), parsed_or_why(line))) return;
    }
  } else if (has_ending(file, ".json")) {
    const Json all = parsed_or_why(read_plain_or_gz(file));
    refuse_unless(!all.is_string(),
                  fmt::format("{}: {}", file, all.is_string() ? all.get<std::string>() : ""));
    refuse_unless(all.is_array(),
                  fmt::format("{}: is no list of objects; a file of an object per line is a .jsonl", file));
    std::int64_t number = 0;
    for (const Json& row : all) {
      if (!take(fmt::format("item {}", ++number), row.is_string() ? Json("is a text, no object") : row))
        return;
    }
  } else {
    const Table table = read_table(file);
    for (const Table::Row& row : table.rows) {
      Json object = Json::object();
      for (std::size_t i = 0; i < table.names.size(); ++i) object[table.names[i]] = row.cells[i];
      if (!take(fmt::format("line {}", row.line), object)) return;
    }
  }
}

Conversation conversation_of(const Json& row, const std::vector<std::string>& columns,
                             std::vector<std::string>& unused) {
  if (row.is_string()) throw RunError(row.get<std::string>());
  refuse_unless(row.is_object(), "is no JSON object");
  const auto has = [&](const std::string& name) { return row.contains(name) && !row[name].is_null(); };
  std::vector<std::string> used = {"tools", "system"};
  const auto uses = [&](std::initializer_list<const char*> names) {
    used.insert(used.end(), names.begin(), names.end());
  };
  Conversation made;
  if (!columns.empty()) {
    for (const std::string& name : columns) {
      refuse_unless(has(name), fmt::format("has no column {} (data.columns)", shown(name)));
      used.push_back(name);
    }
    uses({"history"});
    made = columns.size() == 1
               ? of_one(row, columns[0])
               : answered(row, text_at(row, columns[0].c_str()), text_at(row, columns[1].c_str()));
  } else if (has("chosen") && has("rejected")) {
    throw RunError("has a chosen and a rejected answer: pairs of answers are not read as conversations");
  } else if (has("messages") || has("conversations")) {
    const char* name = has("messages") ? "messages" : "conversations";
    uses({name});
    made = with_messages(row, name);
  } else if (has("prompt") && has("completion")) {
    uses({"prompt", "completion"});
    made = continued(row, "prompt", "completion");
  } else if (has("instruction") && has("output")) {
    uses({"instruction", "input", "output", "history"});
    const std::string input = text_at(row, "input"), instruction = text_at(row, "instruction");
    made = answered(row, input.empty() ? instruction : instruction + "\n" + input, text_at(row, "output"));
  } else if (has("text")) {
    uses({"text"});
    made = of_one(row, "text");
  } else {
    std::string names;
    for (const auto& [name, value] : row.items()) names.append(names.empty() ? "" : ", ").append(name);
    throw RunError(
        fmt::format("has none of messages, conversations, prompt with completion, instruction with output, "
                    "text, but {}; data.columns = \"QUESTION,ANSWER\" names others",
                    names.empty() ? "nothing" : shown(names)));
  }
  for (const auto& [name, value] : row.items()) {
    const bool is_new =
        std::ranges::find(used, name) == used.end() && std::ranges::find(unused, name) == unused.end();
    if (is_new && unused.size() < kMostUnused) unused.push_back(name);
  }
  return made;
}

}  // namespace lpmm
