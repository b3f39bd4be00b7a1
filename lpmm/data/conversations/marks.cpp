#include "lpmm/data/conversations/marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

std::size_t common_begin(std::string_view a, std::string_view b) {
  const auto [end, other] = std::mismatch(
      a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
  return static_cast<std::size_t>(end - a.begin());
}

// What both end with.
std::string_view common_end(std::string_view a, std::string_view b) {
  std::size_t count = 0;
  while (count < std::min(a.size(), b.size()) && a[a.size() - 1 - count] == b[b.size() - 1 - count]) ++count;
  return a.substr(a.size() - count);
}

// Renders the first messages of a conversation.
class Prefixes {
 public:
  Prefixes(const Conversation& conversation, const chat::Template& chat_template, const Json& variables)
      : conversation_(conversation), template_(chat_template) {
    options_.extra = variables;
  }
  chat::Rendered render(const Json& messages, bool asks_answer = false) const {
    chat::RenderOptions options = options_;
    options.asks_answer = asks_answer;
    return template_.render(messages, conversation_.tools, options);
  }
  Json first(std::size_t count) const {
    const auto begin = conversation_.messages.begin();
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

  // Where the answer that is message `at` begins and ends in the whole text.
  std::pair<std::size_t, std::size_t> span(const std::string& whole, std::size_t at) const {
    if (at == 0) throw RunError("begins with an answer, before which the model is told nothing");
    const std::string before = render(first(at), true).text, with = render(first(at + 1)).text;
    if (whole.starts_with(before) && whole.starts_with(with) && before.size() <= with.size()) {
      return {before.size(), with.size()};
    }
    // A template that leaves out what was thought earlier renders an answer otherwise as the last message
    // than before another one. So the answer is changed, and what stays the same around it is found.
    const std::string other = render(changed(conversation_.messages, at)).text;
    const std::string_view tail = common_end(with, render(changed(first(at + 1), at)).text);
    const std::size_t begin = whole.starts_with(before) ? before.size() : common_begin(whole, other);
    const std::size_t same = whole.size() - common_end(whole, other).size();
    const std::size_t end = same + common_begin(std::string_view(whole).substr(same), tail);
    if (begin <= end && whole != other) return {begin, end};
    throw RunError(
        fmt::format("the template does not show where the answer in message {} is; data.loss = \"all\" "
                    "needs no answers",
                    at + 1));
  }

 private:
  static Json changed(Json messages, std::size_t at) {
    messages[at]["content"] = "\xC2\xB6\x01other\x01\xC2\xB6";
    messages[at].erase("reasoning_content");
    messages[at].erase("thinking");
    return messages;
  }

  const Conversation& conversation_;
  const chat::Template& template_;
  chat::RenderOptions options_;
};

// Returns true if a message's own weight says that it is not learnt.
bool is_left_out(const Json& message) {
  for (const char* name : {"weight", "loss_weight"}) {
    const auto at = message.find(name);
    if (at == message.end()) continue;
    const bool is_one = at->is_number() && (*at == 0 || *at == 1);
    if (!is_one) throw RunError(fmt::format("the {} of a message is {}; it may be 0 or 1", name, at->dump()));
    return *at == 0;
  }
  return false;
}

// How many generation blocks wrote something while the messages before `at` were rendered.
std::size_t blocks_before(const Prefixes& prefixes, std::size_t at) {
  return at == 0 ? 0 : prefixes.render(prefixes.first(at)).generated.size();
}

Spans answer_spans(const Prefixes& prefixes, const chat::Rendered& whole, const Conversation& conversation,
                   bool has_blocks, bool only_last) {
  std::vector<std::size_t> answers, learnt;
  for (std::size_t i = 0; i < conversation.messages.size(); ++i) {
    if (conversation.messages[i]["role"] == "assistant") answers.push_back(i);
  }
  if (answers.empty()) throw RunError("has no answer to learn (no message of the role assistant)");
  for (const std::size_t at : answers) {
    const bool is_wanted = !only_last || at == answers.back();
    if (is_wanted && !is_left_out(conversation.messages[at])) learnt.push_back(at);
  }
  Spans spans;
  if (!has_blocks) {
    for (const std::size_t at : learnt) {
      spans.push_back(prefixes.span(whole.text, at));
      const std::size_t last = spans.size() > 1 ? spans[spans.size() - 2].second : 0;
      if (spans.back().first < last)
        throw RunError("the template does not show where answers are; data.loss = \"all\" needs none");
    }
    return spans;
  }
  if (learnt.size() == answers.size()) return whole.generated;
  const bool is_block_each = whole.generated.size() == answers.size();
  for (const std::size_t at : learnt) {
    const auto place = static_cast<std::size_t>(std::ranges::find(answers, at) - answers.begin());
    const std::size_t first = is_block_each ? place : blocks_before(prefixes, at);
    const std::size_t end = is_block_each          ? place + 1
                            : at == answers.back() ? whole.generated.size()
                                                   : blocks_before(prefixes, at + 1);
    for (std::size_t i = first; i < std::min(end, whole.generated.size()); ++i)
      spans.push_back(whole.generated[i]);
  }
  return spans;
}

}  // namespace

MarkedText marked(const Conversation& conversation, const chat::Template& chat_template,
                  const ConversationOptions& options) {
  const Prefixes prefixes(conversation, chat_template, options.variables);
  chat::Rendered whole = prefixes.render(conversation.messages);
  Spans spans = {{0, whole.text.size()}};
  if (options.loss != kLossAll) {
    spans = answer_spans(prefixes, whole, conversation, chat_template.marks_answers(conversation.tools),
                         options.loss == kLossLast);
  }
  return {std::move(whole.text), std::move(spans)};
}

std::vector<std::size_t> token_ends(const std::string& text, std::span<const std::int32_t> ids,
                                    const Tokenizer& tokenizer) {
  std::vector<std::size_t> ends;
  std::size_t at = 0;
  for (const std::int32_t id : ids) {
    const std::string token = tokenizer.decode(std::span(&id, 1), false);
    std::string_view piece = token;
    const auto found = [&] { return std::string_view(text).substr(at).starts_with(piece); };
    const std::size_t begin = at;
    // A special token may have taken spaces around it, and a first word may have been given one.
    while (!found() && at < text.size() &&
           std::string_view(" \t\r\n").find(text[at]) != std::string_view::npos)
      ++at;
    if (!found() && piece.starts_with(' ')) {
      at = begin;
      piece.remove_prefix(1);
    }
    if (!found()) return {};
    at += piece.size();
    ends.push_back(at);
  }
  return ends;
}

std::vector<std::uint8_t> learnt_tokens(const MarkedText& marked, std::span<const std::int32_t> ids,
                                        std::span<const std::size_t> ends, const Tokenizer& tokenizer) {
  std::vector<std::uint8_t> learnt(ids.size(), 0);
  // The tokens before a byte: those that the text up to there begins with, too.
  const auto count_to = [&](std::size_t byte, bool with_cut) {
    const std::vector<std::int32_t> before = tokenizer.encode(std::string_view(marked.text).substr(0, byte));
    const auto same = std::mismatch(before.begin(), before.end(), ids.begin(), ids.end()).first;
    return std::min(
        static_cast<std::size_t>(same - before.begin()) + (with_cut && same != before.end() ? 1 : 0),
        ids.size());
  };
  for (const auto& [first, second] : marked.spans) {
    if (first >= second) continue;
    std::size_t from = 0, to = 0;
    if (ends.empty()) {
      from = count_to(first, false);
      to = count_to(second, true);
    } else {
      from = static_cast<std::size_t>(std::ranges::upper_bound(ends, first) - ends.begin());
      to = from;
      while (to < ids.size() && (to == 0 ? 0 : ends[to - 1]) < second) ++to;
    }
    for (std::size_t i = from; i < to; ++i) learnt[i] = 1;
  }
  if (!learnt.empty()) learnt[0] = 0;
  return learnt;
}

}  // namespace lpmm
