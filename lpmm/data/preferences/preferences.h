// Pairs of answers of which one is preferred, as people keep them, as tokens of which some are learnt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lpmm/base/progress.h"
#include "lpmm/chat/template.h"
#include "lpmm/data/conversations/conversations.h"
#include "lpmm/data/conversations/rows.h"
#include "lpmm/data/tokenizer.h"

namespace lpmm {

// What a row holds: the same prompt with either answer. Of messages, those of the prompt have the weight 0.
struct Preference {
  Conversation chosen, rejected;
};

// A row is one of
//   {"prompt", "chosen", "rejected"}, texts, or lists of messages ("prompt" may be a text beside these);
//   {"chosen", "rejected"}, whole conversations, or texts, that begin alike: that is the prompt;
//   {"messages" or "conversations" or "question" or "instruction" with "input", "chosen", "rejected"}, with
//   answers that are a text, a message or a list of them.
// "system", "history" and "tools" are read where they are there. `columns`: data.columns, "CHOSEN,REJECTED"
// or "PROMPT,CHOSEN,REJECTED". Adds the names of columns that are not read to `unused`. Throws RunError that
// says what is wrong with the row.
Preference preference_of(const Json& row, const std::vector<std::string>& columns,
                         std::vector<std::string>& unused);

struct ReadPreferences : ReadCounts {
  std::vector<Document> documents;  // of each pair that with the chosen answer, then that with the other
};

// Reads files as read_conversations() does, and throws the same. Answers are learnt and nothing else,
// whatever options.loss says. A pair with twice the same tokens, or without a token to learn in an answer, is
// empty.
ReadPreferences read_preferences(const std::string& path, const Tokenizer& tokenizer,
                                 const chat::Template* chat_template, const ConversationOptions& options,
                                 const ProgressCall& progress = {});

struct ShownPreference {
  ShownConversation chosen, rejected;
};
// The rows from `first` on (0 is the first one), at most `most` of them, as read_preferences() makes them.
std::vector<ShownPreference> show_preferences(const std::string& path, const Tokenizer& tokenizer,
                                              const chat::Template* chat_template,
                                              const ConversationOptions& options, std::int64_t first,
                                              std::int64_t most);
// Returns true if the first row of the first file has the columns of a pair of answers.
bool holds_preferences(const std::string& path);

}  // namespace lpmm
