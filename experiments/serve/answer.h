// Answers to clients, in the form of OpenAI's API.
#pragma once

#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/serve/connection.h"
#include "experiments/serve/request.h"

namespace lpmm {

// Bytes as text; what is no character of UTF-8 becomes U+FFFD.
std::string whole_characters(const std::string& bytes);

// A token, with the natural logarithms of its probability and of the likeliest ones', before temperature and
// whatever else is asked of the choice. The first token of a text has none.
struct TokenScore {
  std::int32_t id = 0;
  std::optional<double> logprob;
  std::vector<std::pair<std::int32_t, double>> likeliest;
};
// Scores a token by logits over a vocabulary in which only the first `known` ids are tokens.
TokenScore score_token(std::span<const float> logits, std::int32_t id, std::int64_t alternatives,
                       std::int64_t known);

// Passes a request's answer on: at once as events, or whole at the end.
class Answer {
 public:
  // `id` is the server's own number for it.
  Answer(const TextRequest& request, const Served& served, std::uint64_t id, Connection& connection);
  // A part of the text of one prompt's answer, and tokens that are told with it (request.alternatives).
  void add(std::string_view text, std::span<const TokenScore> tokens);
  // The end of that one; the next prompt's follows.
  void end_choice(Ended ended);
  void finish(std::int64_t prompt_tokens, std::int64_t written_tokens);

 private:
  Json around(Json choices) const;
  Json choice(std::string_view text, const Json& scores, const Json& reason, bool whole) const;
  Json scores_of(std::span<const TokenScore> tokens);
  void send(const Json& event);

  const TextRequest& request_;
  const Served& served_;
  Connection& connection_;
  const std::string id_;
  const std::time_t created_;
  std::int64_t index_ = 0;
  std::int64_t offset_ = 0;  // in characters, of the next token's text
  std::string text_;         // the text of this choice, if it does not stream
  std::vector<TokenScore> tokens_;
  Json choices_;
};

}  // namespace lpmm
