// Rows of files as documents, with what cannot be read named and counted.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/chat/template.h"
#include "lpmm/data/conversations/conversations.h"
#include "lpmm/data/conversations/rows.h"
#include "lpmm/data/tokenizer.h"

namespace lpmm {

// The names that data.columns has with a comma between. Throws UsageError for fewer than `least` or more than
// `most`; `usage` says what they may be: "of conversations it is ...".
std::vector<std::string> named_columns(const std::string& columns, std::size_t least, std::size_t most,
                                       std::string_view usage);

class RowReader {
 public:
  // `chat_template` is null where there is none; `made` says in messages what a row is: "a conversation".
  RowReader(const Tokenizer& tokenizer, const chat::Template* chat_template,
            const ConversationOptions& options, std::string_view made)
      : tokenizer_(tokenizer), template_(chat_template), options_(options), made_(made) {}

  // Calls `make` with each row from `first` on (0 is the first one), and what it returns with nothing, until
  // that is false; counts. A row is broken where `make` throws a RunError or a UsageError, the tokenizer's,
  // of a character that it has not. What the function that it returns throws is no row's fault.
  using MakeRow = std::function<std::function<bool()>(const std::string& place, const Json& row)>;
  void read(const std::string& path, std::int64_t first, ReadCounts& counts, const MakeRow& make) const;
  // As it is rendered, with the tokens that are learnt: of messages, by the template; of a text, with what
  // the tokenizer has around texts.
  ShownConversation document(const Conversation& one, const std::string& place) const;

 private:
  const Tokenizer& tokenizer_;
  const chat::Template* template_;
  const ConversationOptions& options_;
  std::string made_;
};

}  // namespace lpmm
