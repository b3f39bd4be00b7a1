// Requests of clients, in the form of OpenAI's API: completions and chat completions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/commands/text/chat_format.h"
#include "experiments/commands/text/text_writer.h"

namespace lpmm {

struct TextRequest {
  bool is_chat = false;
  std::vector<std::vector<std::int32_t>> prompts;  // a chat has one
  WriteOptions write;
  bool echo = false, streams = false, counts_tokens = false;  // counts_tokens: at the end of a stream
  std::int64_t alternatives = -1;  // so many of the likeliest tokens are told with each; -1: not even its own
};

// The model that gives the answers.
struct Served {
  std::string model;  // its name
  TextWriter& writer;
  const ChatFormat* format;  // null: the model has no template
  std::int64_t most_tokens;  // the limit of an answer
};

// Reads a body. Throws ApiError that names the field which is missing, wrong or not supported. Tokenizer and
// template may be used by several threads at once; nothing else of `served` is.
TextRequest read_request(const std::string& body, bool is_chat, const Served& served);

}  // namespace lpmm
