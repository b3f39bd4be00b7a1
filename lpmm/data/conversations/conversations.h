// Conversations as people keep them, as tokens of which some are learnt.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lpmm/base/progress.h"
#include "lpmm/chat/template.h"
#include "lpmm/data/tokenizer.h"

namespace lpmm {

struct Document {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> learnt;  // learnt[i] is 1 where ids[i] is predicted and its loss counts
};

inline constexpr std::string_view kLossAnswers = "answers", kLossAll = "all", kLossLast = "last";

struct ConversationOptions {
  // Which columns to read, with a comma between: one of messages or of texts, or a question's and its
  // answer's. Empty: those of usual names.
  std::string columns;
  // What is learnt: each answer, all that follows the first token, or the last answer. Of a plain text, all.
  std::string loss{kLossAnswers};
  bool skip_broken = false;         // leaves out what cannot be read, and counts it
  Json variables = Json::object();  // of the template, beside those of a conversation
};

// What was read of rows.
struct ReadCounts {
  std::int64_t read = 0;    // rows of the files: documents, or pairs of them, broken and empty
  std::int64_t broken = 0;  // left out by skip_broken
  std::int64_t empty = 0;   // left out, as nothing is learnt of them
  std::int64_t tokens = 0, learnt = 0;
  std::vector<std::string> reasons;  // "FILE: line N: WHY" of the first few broken ones
  std::vector<std::string> unused;   // columns that nothing was read from
};

struct ReadConversations : ReadCounts {
  std::vector<Document> documents;
};

// One conversation as it is rendered.
struct ShownConversation {
  std::string text;
  Document document;
  std::string place;  // "FILE: line N"
};

// Reads .jsonl, .json, .csv and .tsv, also as .gz, or a folder of them in the order of their names. A row is
//   {"messages": [{"role", "content"}...]}, {"conversations": [{"from", "value"}...]} (ShareGPT),
//   {"instruction", "input", "output"} (Alpaca), {"prompt", "completion"} or {"text"};
// "tools" (a list, or JSON as a text), "system" and, of a message, "weight" (0: is not learnt) are read where
// they are there. Texts and completions are followed by the token that ends a text. `chat_template`, which is
// null where there is none, makes a text of messages. `progress` counts rows. Throws UsageError for options
// that are none, RunError("FILE: line N: WHY") for what cannot be read.
ReadConversations read_conversations(const std::string& path, const Tokenizer& tokenizer,
                                     const chat::Template* chat_template, const ConversationOptions& options,
                                     const ProgressCall& progress = {});
// The same, but hands each document over and keeps none.
ReadConversations read_conversations(const std::string& path, const Tokenizer& tokenizer,
                                     const chat::Template* chat_template, const ConversationOptions& options,
                                     const std::function<void(Document)>& take, const ProgressCall& progress);
// The rows from `first` on (0 is the first one), at most `most` of them, as read_conversations() makes them.
std::vector<ShownConversation> show_conversations(const std::string& path, const Tokenizer& tokenizer,
                                                  const chat::Template* chat_template,
                                                  const ConversationOptions& options, std::int64_t first,
                                                  std::int64_t most);

}  // namespace lpmm
