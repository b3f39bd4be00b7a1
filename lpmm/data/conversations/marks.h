// Which tokens of a conversation are learnt.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/chat/template.h"
#include "lpmm/data/conversations/conversations.h"
#include "lpmm/data/conversations/rows.h"
#include "lpmm/data/tokenizer.h"

namespace lpmm {

// Bytes [first, second) of a text, in their order.
using Spans = std::vector<std::pair<std::size_t, std::size_t>>;

// A conversation's text, and what of it the loss looks at.
struct MarkedText {
  std::string text;
  Spans spans;
};

// Renders messages. Where the template has no generation blocks, an answer reaches from where the messages
// before it and the beginning of an answer end (add_generation_prompt) to where its own message ends. Throws
// RunError where the template refuses the messages, or where that cannot be told.
MarkedText marked(const Conversation& conversation, const chat::Template& chat_template,
                  const ConversationOptions& options);

// Where the bytes of each token end in the text that they were made from; empty where the tokenizer changed
// the text, so that they are not found in it.
std::vector<std::size_t> token_ends(const std::string& text, std::span<const std::int32_t> ids,
                                    const Tokenizer& tokenizer);

// 1 for each token that has a byte in one of the spans; the first token of a text is never predicted.
std::vector<std::uint8_t> learnt_tokens(const MarkedText& marked, std::span<const std::int32_t> ids,
                                        std::span<const std::size_t> ends, const Tokenizer& tokenizer);

}  // namespace lpmm
