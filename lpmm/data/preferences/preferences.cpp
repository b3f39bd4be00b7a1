#include "lpmm/data/preferences/preferences.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "lpmm/base/error.h"
#include "lpmm/data/conversations/messages.h"
#include "lpmm/data/conversations/row_reader.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

constexpr const char *kPrompt = "prompt", *kChosen = "chosen", *kRejected = "rejected";

// The names of the columns of a row; `prompt` is empty where answers bring theirs.
struct PairColumns {
  std::string prompt, chosen, rejected;
};

PairColumns columns_in(const Json& row, const std::vector<std::string>& named) {
  if (!named.empty()) {
    for (const std::string& name : named) {
      refuse_unless(has_column(row, name), fmt::format("has no column {} (data.columns)", shown(name)));
    }
    const std::size_t answers = named.size() - 2;
    return {answers == 1 ? named[0] : "", named[answers], named[answers + 1]};
  }
  refuse_unless(
      has_column(row, kChosen) && has_column(row, kRejected),
      fmt::format("has no chosen and rejected answers, but {}; data.columns = "
                  "\"PROMPT,CHOSEN,REJECTED\" (of `lpmm eval` and `lpmm data show`: --columns) names others",
                  column_names(row)));
  for (const char* name : {kPrompt, "conversations", "messages", "question", "instruction"}) {
    if (has_column(row, name)) return {name, kChosen, kRejected};
  }
  return {"", kChosen, kRejected};
}

// An answer, or a whole conversation, as messages: a text, a message or a list of them.
Json answer_messages(const Json& held, const char* name) {
  Json messages = Json::array();
  if (held.is_string()) {
    refuse_unless(!held.get_ref<const std::string&>().empty(), fmt::format("{} is empty", name));
    messages.push_back(message_of(turn("assistant", held)));
  } else if (held.is_object()) {
    messages.push_back(message_of(held));
  } else {
    add_messages(held, name, messages);
  }
  return messages;
}

bool begins_with_answer(const Json& messages) {
  return messages[0]["role"] == "assistant";
}

bool is_answered(const Json& messages, std::size_t from) {
  for (std::size_t i = from; i < messages.size(); ++i) {
    if (messages[i]["role"] == "assistant") return true;
  }
  return false;
}

// The first messages with one answer: of those none is learnt.
Conversation with_answer(Json prompt, const Json& answer, const Json& tools) {
  Conversation made;
  made.tools = tools;
  for (Json& message : prompt) {
    message["weight"] = 0;
    message.erase("loss_weight");
  }
  made.messages = std::move(prompt);
  for (const Json& message : answer) made.messages.push_back(message);
  return made;
}

Json part_of(const Json& messages, std::size_t first, std::size_t end) {
  return {messages.begin() + static_cast<std::ptrdiff_t>(first),
          messages.begin() + static_cast<std::ptrdiff_t>(end)};
}

// What a row's prompt should be, where its answers bring it: a list that they begin with, or the text of
// their last message before the answers.
void check_prompt(const Json& said, const Json& prompt, const std::string& name) {
  bool agrees = false;
  if (said.is_string()) {
    agrees = std::ranges::any_of(prompt, [&](const Json& m) { return m.value("content", Json()) == said; });
  } else {
    Json messages = Json::array();
    add_messages(said, name.c_str(), messages);
    agrees = messages.size() <= prompt.size() && part_of(prompt, 0, messages.size()) == messages;
  }
  refuse_unless(agrees, fmt::format("{} is not what both conversations begin with", name));
}

// Two whole conversations: what they begin with is the prompt.
Preference split_conversations(const Json& row, const Json& chosen, const Json& rejected,
                               const std::string& prompt) {
  const auto [end, other] = std::mismatch(chosen.begin(), chosen.end(), rejected.begin(), rejected.end());
  auto same = static_cast<std::size_t>(end - chosen.begin());
  if (same == chosen.size() && same == rejected.size()) {  // the answer is the last one all the same
    while (same > 0 && chosen[same - 1]["role"] == "assistant") --same;
  }
  refuse_unless(same > 0, "the chosen and the rejected conversation begin otherwise: they have no prompt");
  refuse_unless(is_answered(chosen, same), "the chosen conversation has no answer of its own");
  refuse_unless(is_answered(rejected, same), "the rejected conversation has no answer of its own");
  Json first = part_of(chosen, 0, same);
  if (!prompt.empty()) check_prompt(row[prompt], first, prompt);
  Json before = said_before(row);
  if (first[0]["role"] == "system") before = Json::array();
  for (Json& message : first) before.push_back(std::move(message));
  const Json tools = tools_of(row);
  return {with_answer(before, part_of(chosen, same, chosen.size()), tools),
          with_answer(before, part_of(rejected, same, rejected.size()), tools)};
}

Json prompt_messages(const Json& row, const std::string& name) {
  Json messages = said_before(row);
  if (row[name].is_array()) {
    add_messages(row[name], name.c_str(), messages);
    return messages;
  }
  const std::string text = name == "instruction" ? instruction_of(row) : text_at(row, name.c_str());
  refuse_unless(!text.empty(), fmt::format("{} is empty", name));
  messages.push_back(turn("user", text));
  return messages;
}

Conversation plain_text(std::string prompt, std::string completion, const char* name) {
  refuse_unless(!completion.empty(), fmt::format("{} is empty", name));
  return {nullptr, nullptr, std::move(prompt), std::move(completion)};
}

// Texts that begin with the same words, which are the prompt.
Preference split_texts(const std::string& chosen, const std::string& rejected) {
  auto same = static_cast<std::size_t>(
      std::mismatch(chosen.begin(), chosen.end(), rejected.begin(), rejected.end()).first - chosen.begin());
  while (same > 0 && std::string_view(" \t\r\n").find(chosen[same - 1]) == std::string_view::npos) --same;
  refuse_unless(same > 0, "chosen and rejected do not begin with the same words: they have no prompt");
  return {plain_text(chosen.substr(0, same), chosen.substr(same), kChosen),
          plain_text(rejected.substr(0, same), rejected.substr(same), kRejected)};
}

// Returns true if a row has texts alone, which no template joins.
bool is_of_texts(const Json& row, const PairColumns& c, bool are_named) {
  if (!row[c.chosen].is_string() || !row[c.rejected].is_string()) return false;
  if (c.prompt.empty()) return true;
  const bool is_told_more = !said_before(row).empty() || !tools_of(row).is_null();
  return row[c.prompt].is_string() && (are_named || c.prompt == kPrompt) && !is_told_more;
}

}  // namespace

Preference preference_of(const Json& row, const std::vector<std::string>& columns,
                         std::vector<std::string>& unused) {
  if (row.is_string()) throw RunError(row.get<std::string>());
  refuse_unless(row.is_object(), "is no JSON object");
  const PairColumns c = columns_in(row, columns);
  std::vector<std::string> used = {"tools", "system", "history", c.chosen, c.rejected};
  if (!c.prompt.empty()) used.push_back(c.prompt);
  if (c.prompt == "instruction") used.emplace_back("input");
  note_unused(row, used, unused);
  if (is_of_texts(row, c, !columns.empty())) {
    const std::string chosen = row[c.chosen], rejected = row[c.rejected];
    if (c.prompt.empty()) return split_texts(chosen, rejected);
    const std::string prompt = row[c.prompt];
    refuse_unless(!prompt.empty(), fmt::format("{} is empty", c.prompt));
    return {plain_text(prompt, chosen, kChosen), plain_text(prompt, rejected, kRejected)};
  }
  const Json chosen = answer_messages(row[c.chosen], kChosen),
             rejected = answer_messages(row[c.rejected], kRejected);
  const bool is_answer = begins_with_answer(chosen);
  refuse_unless(is_answer == begins_with_answer(rejected),
                "one of chosen and rejected begins with its prompt, the other with its answer");
  if (!is_answer) return split_conversations(row, chosen, rejected, c.prompt);
  refuse_unless(!c.prompt.empty(), "has answers without a prompt");
  const Json prompt = prompt_messages(row, c.prompt), tools = tools_of(row);
  return {with_answer(prompt, chosen, tools), with_answer(prompt, rejected, tools)};
}

namespace {

// Makes both documents of each row.
class PairReader {
 public:
  PairReader(const Tokenizer& tokenizer, const chat::Template* chat_template,
             const ConversationOptions& options)
      : options_(of_answers(options)),
        columns_(named_columns(options.columns, 2, 3,
                               "of pairs of answers it is \"CHOSEN,REJECTED\" or "
                               "\"PROMPT,CHOSEN,REJECTED\"")),
        rows_(tokenizer, chat_template, options_, "a pair of answers") {}
  PairReader(const PairReader&) = delete;
  PairReader& operator=(const PairReader&) = delete;

  void read(const std::string& path, std::int64_t first, ReadCounts& counts,
            const std::function<bool(ShownPreference)>& take) const {
    rows_.read(path, first, counts, [&](const std::string& place, const Json& row) {
      const Preference one = preference_of(row, columns_, counts.unused);
      return [&take, pair = ShownPreference{rows_.document(one.chosen, place),
                                            rows_.document(one.rejected, place)}] { return take(pair); };
    });
  }

 private:
  static ConversationOptions of_answers(ConversationOptions options) {
    options.loss = kLossAnswers;
    return options;
  }
  const ConversationOptions options_;
  std::vector<std::string> columns_;
  RowReader rows_;
};

}  // namespace

ReadPreferences read_preferences(const std::string& path, const Tokenizer& tokenizer,
                                 const chat::Template* chat_template, const ConversationOptions& options,
                                 const ProgressCall& progress) {
  ReadPreferences all;
  PairReader(tokenizer, chat_template, options).read(path, 0, all, [&](ShownPreference pair) {
    Document &chosen = pair.chosen.document, &rejected = pair.rejected.document;
    const auto first = std::ranges::count(chosen.learnt, 1), second = std::ranges::count(rejected.learnt, 1);
    if (first == 0 || second == 0 || chosen.ids == rejected.ids) {
      ++all.empty;
      return true;
    }
    all.learnt += first + second;
    for (Document* document : {&chosen, &rejected}) {
      all.tokens += std::ssize(document->ids);
      all.documents.push_back(std::move(*document));
    }
    if (progress) progress(all.read, 0);
    return true;
  });
  if (all.read == 0) throw RunError(fmt::format("{}: is empty", path));
  return all;
}

std::vector<ShownPreference> show_preferences(const std::string& path, const Tokenizer& tokenizer,
                                              const chat::Template* chat_template,
                                              const ConversationOptions& options, std::int64_t first,
                                              std::int64_t most) {
  ReadCounts counts;
  std::vector<ShownPreference> some;
  if (most == 0) return some;
  PairReader(tokenizer, chat_template, options).read(path, first, counts, [&](ShownPreference pair) {
    some.push_back(std::move(pair));
    return std::ssize(some) < most;
  });
  return some;
}

bool holds_preferences(const std::string& path) {
  bool holds = false;
  for_each_row(conversation_files(path)[0], [&](const std::string&, const Json& row) {
    holds = row.is_object() && has_column(row, kChosen) && has_column(row, kRejected);
    return false;
  });
  return holds;
}

}  // namespace lpmm
