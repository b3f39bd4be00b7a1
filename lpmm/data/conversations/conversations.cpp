#include "lpmm/data/conversations/conversations.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lpmm/base/error.h"
#include "lpmm/data/conversations/row_reader.h"
#include "lpmm/data/conversations/rows.h"

namespace lpmm {
namespace {

std::vector<std::string> checked_columns(const ConversationOptions& options) {
  const std::string_view known[] = {kLossAnswers, kLossAll, kLossLast};
  if (std::ranges::find(known, options.loss) == std::end(known)) {
    throw UsageError(
        fmt::format("data.loss = \"{}\"; it may be \"answers\", \"all\" or \"last\"", options.loss));
  }
  return named_columns(options.columns, 1, 2, "of conversations it is \"MESSAGES\" or \"QUESTION,ANSWER\"");
}

constexpr const char* kConversation = "a conversation";

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
  const std::vector<std::string> columns = checked_columns(options);
  const RowReader reader(tokenizer, chat_template, options, kConversation);
  const auto keep = [&](Document document) {
    const auto learnt = std::ranges::count(document.learnt, 1);
    if (learnt == 0) {
      ++all.empty;
      return true;
    }
    all.learnt += learnt;
    all.tokens += std::ssize(document.ids);
    take(std::move(document));
    if (progress) progress(all.read, 0);
    return true;
  };
  reader.read(path, 0, all, [&](const std::string& place, const Json& row) {
    Document document = reader.document(conversation_of(row, columns, all.unused), place).document;
    return [&keep, document = std::move(document)]() mutable { return keep(std::move(document)); };
  });
  if (all.read == 0) throw RunError(fmt::format("{}: is empty", path));
  return all;
}

std::vector<ShownConversation> show_conversations(const std::string& path, const Tokenizer& tokenizer,
                                                  const chat::Template* chat_template,
                                                  const ConversationOptions& options, std::int64_t first,
                                                  std::int64_t most) {
  ReadCounts counts;
  std::vector<ShownConversation> some;
  if (most == 0) return some;
  const std::vector<std::string> columns = checked_columns(options);
  const RowReader reader(tokenizer, chat_template, options, kConversation);
  reader.read(path, first, counts, [&](const std::string& place, const Json& row) {
    return [&, shown = reader.document(conversation_of(row, columns, counts.unused), place)] {
      some.push_back(shown);
      return std::ssize(some) < most;
    };
  });
  return some;
}

}  // namespace lpmm
