#include "lpmm/data/conversations/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>

#include "lpmm/base/error.h"
#include "lpmm/data/conversations/messages.h"
#include "lpmm/data/table.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"
#include "lpmm/files/gz_file.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kLongestLine = std::size_t{16} << 20;

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

constexpr const char* kIsText = "is a text, no JSON object";

// Why a line is no JSON of a row, as a text; else the JSON.
Json parsed_or_why(const std::string& text) {
  try {
    Json parsed = parse_json(text);
    if (parsed.is_array()) return "is no JSON object; a list of them is a .json";
    return parsed.is_string() ? Json(kIsText) : parsed;
  } catch (const std::exception& e) {
    return "is no JSON: " + error_text(e);
  }
}

// A question and its answer, with what was said before.
Conversation answered(const Json& row, const std::string& question, const std::string& answer) {
  Conversation made;
  made.tools = tools_of(row);
  made.messages = said_before(row);
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
    std::int64_t number = 0;
    for (const Json& row : parse_rows(file, read_plain_or_gz(file))) {
      if (!take(fmt::format("item {}", ++number), row.is_string() ? Json(kIsText) : row)) return;
    }
  } else {
    const Table table = read_table(file, {.keeps_spaces = true, .skips_broken = true});
    auto broken = table.broken.rows.begin();
    const auto take_broken = [&](std::int64_t before) {
      for (; broken != table.broken.rows.end() && broken->line < before; ++broken) {
        if (!take(fmt::format("line {}", broken->line), Json(broken->why))) return false;
      }
      return true;
    };
    for (const Table::Row& row : table.rows) {
      Json object = Json::object();
      for (std::size_t i = 0; i < table.names.size(); ++i) object[table.names[i]] = row.cells[i];
      if (!take_broken(row.line) || !take(fmt::format("line {}", row.line), object)) return;
    }
    take_broken(std::numeric_limits<std::int64_t>::max());
  }
}

Conversation conversation_of(const Json& row, const std::vector<std::string>& columns,
                             std::vector<std::string>& unused) {
  if (row.is_string()) throw RunError(row.get<std::string>());
  refuse_unless(row.is_object(), "is no JSON object");
  const auto has = [&](const std::string& name) { return has_column(row, name); };
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
    throw RunError("has a chosen and a rejected answer: data.set = \"preferences\" reads pairs of answers");
  } else if (has("messages") || has("conversations")) {
    const char* name = has("messages") ? "messages" : "conversations";
    uses({name});
    made = with_messages(row, name);
  } else if (has("prompt") && has("completion")) {
    uses({"prompt", "completion"});
    made = continued(row, "prompt", "completion");
  } else if (has("instruction") && has("output")) {
    uses({"instruction", "input", "output", "history"});
    made = answered(row, instruction_of(row), text_at(row, "output"));
  } else if (has("text")) {
    uses({"text"});
    made = of_one(row, "text");
  } else {
    throw RunError(
        fmt::format("has none of messages, conversations, prompt with completion, instruction with output, "
                    "text, but {}; data.columns = \"QUESTION,ANSWER\" (of `lpmm eval` and `lpmm data show`: "
                    "--columns) names others",
                    column_names(row)));
  }
  note_unused(row, used, unused);
  return made;
}

}  // namespace lpmm
