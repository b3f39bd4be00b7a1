#include "lpmm/data/conversations/conversations.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "lpmm/base/error.h"
#include "lpmm/data/conversations/marks.h"
#include "lpmm/data/conversations/rows.h"
#include "lpmm/data/table.h"

namespace lpmm {
namespace {

std::vector<std::string> checked_columns(const ConversationOptions& options) {
  const std::string_view known[] = {kLossAnswers, kLossAll, kLossLast};
  if (std::ranges::find(known, options.loss) == std::end(known)) {
    throw UsageError(
        fmt::format("data.loss = \"{}\"; it may be \"answers\", \"all\" or \"last\"", options.loss));
  }
  if (options.columns.empty()) return {};
  std::vector<std::string> columns = split_columns(options.columns);
  for (std::string& name : columns) {
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
  }
  if (columns.size() <= 2 && std::ranges::find(columns, "") == columns.end()) return columns;
  throw UsageError(fmt::format(
      "data.columns = \"{}\"; of conversations it is \"MESSAGES\" or \"QUESTION,ANSWER\"", options.columns));
}

Document tokens_of(const MarkedText& marked_text, const Tokenizer& tokenizer) {
  Document document;
  document.ids = tokenizer.encode(marked_text.text);
  const std::vector<std::size_t> ends = token_ends(marked_text.text, document.ids, tokenizer);
  document.learnt = learnt_tokens(marked_text, document.ids, ends, tokenizer);
  return document;
}

// A text, or a prompt with its completion: no template, but what the tokenizer has around texts.
Document plain(const MarkedText& text, const Tokenizer& tokenizer) {
  Document document = tokens_of(text, tokenizer);
  const std::vector<std::int32_t> before = tokenizer.before_text();
  const bool is_first_predicted = !before.empty() && text.spans[0].first == 0 && !document.ids.empty();
  if (is_first_predicted) document.learnt[0] = 1;
  document.ids.insert(document.ids.begin(), before.begin(), before.end());
  document.learnt.insert(document.learnt.begin(), before.size(), 0);
  if (const auto end = tokenizer.end_of_text()) {
    document.ids.push_back(*end);
    document.learnt.push_back(1);
  }
  return document;
}

// Calls `take` with each conversation, until it returns false, and counts.
class Reader {
 public:
  Reader(const Tokenizer& tokenizer, const chat::Template* chat_template, const ConversationOptions& options)
      : tokenizer_(tokenizer),
        template_(chat_template),
        options_(options),
        columns_(checked_columns(options)) {}

  void read(const std::string& path, std::int64_t first, ReadConversations& counts,
            const std::function<bool(ShownConversation)>& take) const {
    bool goes_on = true;
    for (const std::string& file : conversation_files(path)) {
      if (!goes_on) return;
      for_each_row(file, [&](const std::string& place, const Json& row) {
        if (counts.read++ < first) return true;
        goes_on = read_row(fmt::format("{}: {}", file, place), row, counts, take);
        return goes_on;
      });
    }
    if (counts.broken == counts.read && counts.read > 0) {
      throw RunError(fmt::format("no row can be read as a conversation; {}", counts.reasons[0]));
    }
  }

 private:
  bool read_row(const std::string& place, const Json& row, ReadConversations& counts,
                const std::function<bool(ShownConversation)>& take) const {
    constexpr std::size_t kMostReasons = 5;
    std::string why;
    std::optional<ShownConversation> made;
    bool lacks_template = false;
    try {
      const Conversation one = conversation_of(row, columns_, counts.unused);
      lacks_template = !one.messages.is_null() && template_ == nullptr;
      if (!lacks_template) made = made_of(one, place);
    } catch (const RunError& e) {
      why = fmt::format("{}: {}", place, e.what());
    } catch (const UsageError& e) {  // the tokenizer's, of a character that it has not
      why = fmt::format("{}: {}", place, e.what());
    }
    if (made) return take(*std::move(made));
    if (lacks_template) {
      throw UsageError(
          fmt::format("{}: the model has no chat template, which makes a text of messages; name one, as "
                      "data.template = \"{}\"",
                      place, "chatml"));
    }
    if (!options_.skip_broken) {
      throw RunError(why + "; data.skip_broken = true leaves out such rows, and counts them");
    }
    ++counts.broken;
    if (counts.reasons.size() < kMostReasons) counts.reasons.push_back(why);
    return true;
  }
  ShownConversation made_of(const Conversation& one, const std::string& place) const {
    if (!one.messages.is_null()) {
      MarkedText text = marked(one, *template_, options_);
      Document document = tokens_of(text, tokenizer_);
      return {std::move(text.text), std::move(document), place};
    }
    const std::string text = one.prompt + one.completion;
    const std::size_t first = options_.loss == kLossAll ? 0 : one.prompt.size();
    return {text, plain({text, {{first, text.size()}}}, tokenizer_), place};
  }

  const Tokenizer& tokenizer_;
  const chat::Template* template_;
  const ConversationOptions& options_;
  std::vector<std::string> columns_;
};

}  // namespace

ReadConversations read_conversations(const std::string& path, const Tokenizer& tokenizer,
                                     const chat::Template* chat_template, const ConversationOptions& options,
                                     const ProgressCall& progress) {
  std::vector<Document> documents;
  ReadConversations all = read_conversations(
      path, tokenizer, chat_template, options, [&](Document one) { documents.push_back(std::move(one)); },
      progress);
  all.documents = std::move(documents);
  return all;
}

ReadConversations read_conversations(const std::string& path, const Tokenizer& tokenizer,
                                     const chat::Template* chat_template, const ConversationOptions& options,
                                     const std::function<void(Document)>& take,
                                     const ProgressCall& progress) {
  ReadConversations all;
  Reader(tokenizer, chat_template, options).read(path, 0, all, [&](ShownConversation one) {
    const auto learnt = std::ranges::count(one.document.learnt, 1);
    if (learnt == 0) {
      ++all.empty;
      return true;
    }
    all.learnt += learnt;
    all.tokens += std::ssize(one.document.ids);
    take(std::move(one.document));
    if (progress) progress(all.read, 0);
    return true;
  });
  if (all.read == 0) throw RunError(fmt::format("{}: is empty", path));
  return all;
}

std::vector<ShownConversation> show_conversations(const std::string& path, const Tokenizer& tokenizer,
                                                  const chat::Template* chat_template,
                                                  const ConversationOptions& options, std::int64_t first,
                                                  std::int64_t most) {
  ReadConversations counts;
  std::vector<ShownConversation> some;
  Reader(tokenizer, chat_template, options).read(path, first, counts, [&](ShownConversation one) {
    some.push_back(std::move(one));
    return std::ssize(some) < most;
  });
  return some;
}

}  // namespace lpmm
