#include "lpmm/data/tokenizers/regex.h"

#include <fmt/format.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

const pcre2_code* code_of(const std::shared_ptr<const void>& code) {
  return static_cast<const pcre2_code*>(code.get());
}

std::string message(int error) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// PCRE2 takes U+180E for a space and leaves marks out of words.
std::string with_unicode_classes(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's') {
        out += "\\p{wspace}";
      } else if (next == 'S') {
        out += "\\P{wspace}";
      } else if (next == 'w') {
        constexpr std::string_view kWord = "\\p{L}\\p{M}\\p{Nd}\\p{Pc}";
        out += in_class ? std::string(kWord) : fmt::format("[{}]", kWord);
      } else {
        out += {c, next};
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

}  // namespace

Regex::Regex(const std::string& pattern) : pattern_(pattern) {
  constexpr std::size_t kLongest = 1 << 16;
  if (pattern.size() > kLongest) {
    throw RunError(
        fmt::format("a regular expression of {} bytes, at most {} are read", pattern.size(), kLongest));
  }
  int error = 0;
  PCRE2_SIZE at = 0;
  const std::string text = with_unicode_classes(pattern);
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (code == nullptr) {
    throw RunError(fmt::format("the regular expression {} is none: {}", shown(pattern), message(error)));
  }
  code_ = std::shared_ptr<const void>(code, [](const void* p) {
    pcre2_code_free(const_cast<pcre2_code*>(static_cast<const pcre2_code*>(p)));
  });
}

std::vector<Span> Regex::find_all(std::string_view text) const {
  std::vector<Span> spans;
  std::size_t bad = first_bad_byte(text);
  if (bad == std::string_view::npos) {
    find_within(text, 0, spans);
    return spans;
  }
  // Parts of characters, as tokens of bytes are, PCRE2 must not see; they stay for the tokens beside.
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(bad, text.size() - at);
    if (end > 0) find_within(text.substr(at, end), at, spans);
    at += end;
    if (at < text.size()) at += first_character(text.substr(at)).bytes;
    bad = first_bad_byte(text.substr(at));
  }
  return spans;
}

// `text`, which is UTF-8, begins at byte `first` of what the spans are of.
void Regex::find_within(std::string_view text, std::size_t first, std::vector<Span>& spans) const {
  constexpr std::uint32_t kMostSteps = 1'000'000, kMostMemory = 64 << 10;  // of a match; memory in KiB
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create_from_pattern(code_of(code_), nullptr), pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> limits(
      pcre2_match_context_create(nullptr), pcre2_match_context_free);
  pcre2_set_match_limit(limits.get(), kMostSteps);
  pcre2_set_heap_limit(limits.get(), kMostMemory);
  std::size_t at = 0;
  while (at <= text.size()) {
    const int found = pcre2_match(code_of(code_), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  PCRE2_NO_UTF_CHECK, data.get(), limits.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      throw UsageError(fmt::format("the tokenizer's regular expression {} gives up on the text {}: {}",
                                   shown(pattern_), shown(text.substr(at)), message(found)));
    }
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
    // \K in a lookahead can end a match before it begins.
    const Span span{ends[0], std::max(ends[0], ends[1])};
    const bool empty = span.begin == span.end;
    if (!empty || spans.empty() || spans.back().end != first + span.begin)
      spans.push_back({first + span.begin, first + span.end});
    at = span.end;
    if (empty) at += at < text.size() ? first_character(text.substr(at)).bytes : 1;
  }
}

Finder make_finder(const Part& part, const char* key) {
  if (part.is_text(key)) return text_finder(part.text(key));
  if (!part.at(key).has("Regex")) return text_finder(part.at(key).text("String"));
  try {
    return
        [regex = Regex(part.at(key).text("Regex"))](std::string_view text) { return regex.find_all(text); };
  } catch (const RunError& e) {
    throw part.refusal(e.what());
  }
}

Finder text_finder(const std::string& word) {
  return [word](std::string_view text) {
    std::vector<Span> spans;
    if (word.empty()) return spans;
    for (std::size_t at = text.find(word); at != std::string_view::npos;
         at = text.find(word, at + word.size())) {
      spans.push_back({at, at + word.size()});
    }
    return spans;
  };
}

std::string replaced(const std::string& text, const Finder& find, std::string_view by, std::size_t most) {
  std::string out;
  std::size_t at = 0;
  for (const Span span : find(text)) {
    out.append(text, at, span.begin - at);
    out += by;
    if (out.size() > most) return out;
    at = span.end;
  }
  return out.append(text, at);
}

}  // namespace lpmm
