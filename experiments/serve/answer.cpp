#include "experiments/serve/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

std::string bytes_of(const Tokenizer& tokenizer, std::int32_t id) {
  return tokenizer.decode({&id, 1}, false);
}

// A token need not be whole characters. As OpenAI's completions have such a one: bytes:\xe2\x82
std::string name_of(const std::string& bytes) {
  if (first_bad_byte(bytes) == std::string::npos) return bytes;
  std::string name = "bytes:";
  for (const char c : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

std::int64_t characters_in(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

Json chat_token(const Tokenizer& tokenizer, std::int32_t id, double logprob) {
  const std::string bytes = bytes_of(tokenizer, id);
  Json numbers = Json::array();
  for (const char c : bytes) numbers.push_back(static_cast<unsigned char>(c));
  return {{"token", whole_characters(bytes)}, {"logprob", logprob}, {"bytes", numbers}};
}

Json reason_of(Ended ended) {
  return ended == Ended::kToken || ended == Ended::kText ? "stop" : "length";
}

}  // namespace

std::string whole_characters(const std::string& bytes) {
  Utf8Stream characters;
  const std::string whole = characters.push(bytes);
  return whole + characters.finish();
}

TokenScore score_token(std::span<const float> logits, std::int32_t id, std::int64_t alternatives,
                       std::int64_t known) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - most);
  const double all = most + std::log(sum);
  const auto logit = [&](std::int32_t i) { return logits[static_cast<std::size_t>(i)]; };
  TokenScore score{id, static_cast<double>(logit(id)) - all, {}};
  if (alternatives == 0) return score;
  std::vector<std::int32_t> ids(std::min(logits.size(), static_cast<std::size_t>(known)));
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + std::min<std::ptrdiff_t>(std::ssize(ids), alternatives);
  std::partial_sort(ids.begin(), end, ids.end(), [&](std::int32_t a, std::int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  });
  for (auto at = ids.begin(); at != end; ++at) {
    score.likeliest.emplace_back(*at, static_cast<double>(logit(*at)) - all);
  }
  return score;
}

Answer::Answer(const TextRequest& request, const Served& served, std::uint64_t id, Connection& connection)
    : request_(request),
      served_(served),
      connection_(connection),
      id_(fmt::format("{}-{:016x}", request.is_chat ? "chatcmpl" : "cmpl", id)),
      created_(std::time(nullptr)),
      choices_(Json::array()) {
  if (!request.streams) return;
  connection_.begin_events();
  if (!request.is_chat) return;
  const Json delta = {{"role", "assistant"}, {"content", ""}};
  send(around(
      Json::array({{{"index", 0}, {"delta", delta}, {"logprobs", nullptr}, {"finish_reason", nullptr}}})));
}

Json Answer::around(Json choices) const {
  const char* what = !request_.is_chat  ? "text_completion"
                     : request_.streams ? "chat.completion.chunk"
                                        : "chat.completion";
  return {{"id", id_},
          {"object", what},
          {"created", created_},
          {"model", served_.model},
          {"choices", std::move(choices)}};
}

Json Answer::choice(std::string_view text, const Json& scores, const Json& reason, bool whole) const {
  Json choice = {{"index", index_}};
  if (!request_.is_chat) {
    choice["text"] = text;
  } else if (whole) {
    choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
  } else {
    choice["delta"] = text.empty() ? Json::object() : Json{{"content", text}};
  }
  choice["logprobs"] = scores;
  choice["finish_reason"] = reason;
  return choice;
}

Json Answer::scores_of(std::span<const TokenScore> tokens) {
  const Tokenizer& tokenizer = served_.writer.tokenizer();
  if (request_.is_chat) {
    Json content = Json::array();
    for (const TokenScore& token : tokens) {
      Json one = chat_token(tokenizer, token.id, token.logprob.value_or(0));
      one["top_logprobs"] = Json::array();
      for (const auto& [id, logprob] : token.likeliest) {
        one["top_logprobs"].push_back(chat_token(tokenizer, id, logprob));
      }
      content.push_back(std::move(one));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }
  Json names = Json::array(), logprobs = Json::array(), tops = Json::array(), offsets = Json::array();
  for (const TokenScore& token : tokens) {
    const std::string bytes = bytes_of(tokenizer, token.id);
    names.push_back(name_of(bytes));
    offsets.push_back(offset_);
    offset_ += characters_in(bytes);
    logprobs.push_back(token.logprob ? Json(*token.logprob) : Json());
    Json top;  // null at the start of a text
    if (token.logprob) {
      top = Json::object();
      // The token itself is among them, and of two with one name the likelier one.
      top[name_of(bytes)] = *token.logprob;
      for (const auto& [id, logprob] : token.likeliest) {
        Json& value = top[name_of(bytes_of(tokenizer, id))];
        if (value.is_null() || value < logprob) value = logprob;
      }
    }
    tops.push_back(std::move(top));
  }
  return {{"tokens", names}, {"token_logprobs", logprobs}, {"top_logprobs", tops}, {"text_offset", offsets}};
}

void Answer::send(const Json& event) {
  connection_.event(event.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void Answer::add(std::string_view text, std::span<const TokenScore> tokens) {
  if (!request_.streams) {
    text_ += text;
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    return;
  }
  if (text.empty() && tokens.empty()) return;
  const Json scores = tokens.empty() ? Json() : scores_of(tokens);
  send(around(Json::array({choice(text, scores, nullptr, false)})));
}

void Answer::end_choice(Ended ended) {
  if (request_.streams) {
    send(around(Json::array({choice("", nullptr, reason_of(ended), false)})));
  } else {
    const Json scores = request_.alternatives < 0 ? Json() : scores_of(tokens_);
    choices_.push_back(choice(text_, scores, reason_of(ended), true));
  }
  ++index_;
  offset_ = 0;
  text_.clear();
  tokens_.clear();
}

void Answer::finish(std::int64_t prompt_tokens, std::int64_t written_tokens) {
  const Json usage = {{"prompt_tokens", prompt_tokens},
                      {"completion_tokens", written_tokens},
                      {"total_tokens", prompt_tokens + written_tokens}};
  Json whole = around(std::move(choices_));
  whole["usage"] = usage;
  if (!request_.streams) {
    connection_.answer(200, whole.dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  if (request_.counts_tokens) send(whole);
  connection_.event("[DONE]");
  connection_.end_events();
}

}  // namespace lpmm
