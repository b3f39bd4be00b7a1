#include "lpmm/data/tokenizers/pre_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "lpmm/base/text.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/data/tokenizers/characters.h"
#include "lpmm/data/tokenizers/growth.h"
#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/tokenizers/regex.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

// The treatment of a match and of the text between matches.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct Stretch {
  Span span;
  bool match;
};

// The whole text: matches, and what lies between.
std::vector<Stretch> stretches(std::string_view text, const std::vector<Span>& matches, bool invert) {
  std::vector<Stretch> all;
  std::size_t at = 0;
  for (const Span m : matches) {
    if (at < m.begin) all.push_back({{at, m.begin}, invert});
    all.push_back({m, !invert});
    at = m.end;
  }
  if (at < text.size()) all.push_back({{at, text.size()}, invert});
  return all;
}

// Joins stretches in the order given; `join(span, other)` widens a span by the next one.
template <class Together, class Join>
std::vector<Stretch> joined(const std::vector<Stretch>& all, const Together& together, const Join& join) {
  std::vector<Stretch> out;
  bool previous = false;
  for (const Stretch& s : all) {
    if (!out.empty() && together(s.match, previous)) {
      join(out.back().span, s.span);
    } else {
      out.push_back({s.span, false});
    }
    previous = s.match;
  }
  return out;
}

std::vector<Stretch> behave(std::vector<Stretch> all, Behavior behavior) {
  const auto widen = [](Span& span, const Span& next) { span.end = next.end; };
  const auto first_match = [](bool match, bool previous) { return match && !previous; };
  switch (behavior) {
    case Behavior::kRemoved:
      std::erase_if(all, [](const Stretch& s) { return s.match; });
      return all;
    case Behavior::kIsolated:
      return all;
    case Behavior::kContiguous:
      return joined(
          all, [](bool match, bool previous) { return match == previous; }, widen);
    case Behavior::kMergedWithPrevious:
      return joined(all, first_match, widen);
    case Behavior::kMergedWithNext:
      std::ranges::reverse(all);
      all = joined(all, first_match, [](Span& span, const Span& next) { span.begin = next.begin; });
      std::ranges::reverse(all);
      return all;
  }
  return all;
}

std::vector<Word> split_words(const std::vector<Word>& words, const Finder& find, Behavior behavior,
                              bool invert) {
  std::vector<Word> out;
  for (const Word& word : words) {
    for (const Stretch& s : behave(stretches(word.text, find(word.text), invert), behavior)) {
      if (s.span.begin == s.span.end) continue;
      out.push_back(
          {word.text.substr(s.span.begin, s.span.end - s.span.begin), word.begins && s.span.begin == 0});
    }
  }
  return out;
}

PreTokenizer splitter(const Finder& find, Behavior behavior, bool invert = false) {
  return
      [=](const std::vector<Word>& words, std::size_t) { return split_words(words, find, behavior, invert); };
}

// Each character of a class is a match.
template <class Is>
Finder characters(Is is) {
  return [is](std::string_view text) {
    std::vector<Span> spans;
    for (std::size_t at = 0; at < text.size();) {
      const Character c = first_character(text.substr(at));
      if (is(c.code)) spans.push_back({at, at + c.bytes});
      at += c.bytes;
    }
    return spans;
  };
}

Behavior behavior_of(const Part& part, const char* otherwise) {
  constexpr std::string_view kNames[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                         "Contiguous"};
  const std::string name = part.text("behavior", otherwise);
  const auto found = std::ranges::find(kNames, name);
  if (found == std::end(kNames)) throw unsupported(part, "behavior", name, kNames);
  return static_cast<Behavior>(found - kNames);
}

std::vector<Span> gpt2_words(std::string_view text) {
  std::vector<Span> spans;
  for (std::size_t at = 0; at < text.size(); at = spans.back().end)
    spans.push_back({at, gpt2_word_end(text, at)});
  return spans;
}

PreTokenizer byte_level_splitter(const Part& part) {
  const bool space = part.flag("add_prefix_space", true), split = part.flag("use_regex", true);
  return [=](std::vector<Word> words, std::size_t) {
    for (Word& word : words) {
      if (space && !word.text.starts_with(' ')) word.text.insert(0, " ");
    }
    if (split) words = split_words(words, gpt2_words, Behavior::kIsolated, false);
    for (Word& word : words) word.text = spelled_bytes(word.text);
    return words;
  };
}

// Runs of word characters, and runs of what is neither those nor white space.
std::vector<Span> words_and_signs(std::string_view text) {
  std::vector<Span> spans;
  int last = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = first_character(text.substr(at));
    const int kind = is_word(c.code) ? 1 : is_white_space(c.code) ? 0 : 2;
    if (kind != 0 && kind == last) {
      spans.back().end += c.bytes;
    } else if (kind != 0) {
      spans.push_back({at, at + c.bytes});
    }
    last = kind;
    at += c.bytes;
  }
  return spans;
}

PreTokenizer digits_splitter(const Part& part) {
  return splitter(characters(is_number),
                  part.flag("individual_digits", false) ? Behavior::kIsolated : Behavior::kContiguous);
}

PreTokenizer punctuation_splitter(const Part& part) {
  return splitter(characters(is_punctuation), behavior_of(part, "Isolated"));
}

PreTokenizer split_splitter(const Part& part) {
  return splitter(make_finder(part, "pattern"), behavior_of(part, "Isolated"), part.flag("invert", false));
}

PreTokenizer delimiter_splitter(const Part& part) {
  return splitter(make_finder(part, "delimiter"), Behavior::kRemoved);
}

// Spaces become a character of their own, each at the start of a word.
PreTokenizer metaspace_splitter(const Part& part) {
  constexpr std::string_view kSchemes[] = {"always", "first", "never"};
  const std::string mark = part.text("replacement", "\u2581");
  const std::string scheme =
      part.text("prepend_scheme", part.flag("add_prefix_space", true) ? "always" : "never");
  if (std::ranges::find(kSchemes, scheme) == std::end(kSchemes)) {
    throw unsupported(part, "prepend_scheme", scheme, kSchemes);
  }
  const bool splits = part.flag("split", true);
  if (mark.empty()) throw part.refusal("replacement is empty");
  const Finder find = text_finder(mark), spaces = text_finder(" ");
  return [=](std::vector<Word> words, std::size_t room) {
    std::size_t made = 0;
    for (Word& word : words) {
      const std::string text = replaced(word.text, spaces, mark, room);
      const bool prepends = scheme == "always" || (scheme == "first" && word.begins);
      word.text = prepends && !text.starts_with(mark) ? mark + text : text;
      made += word.text.size();
      if (made > room) return words;  // make_one_pre_tokenizer refuses them
    }
    return splits ? split_words(words, find, Behavior::kMergedWithNext, false) : words;
  };
}

PreTokenizer make_one_pre_tokenizer(const Part& part);

PreTokenizer sequence_splitter(const Part& part) {
  std::vector<PreTokenizer> all;
  for (const Part& one : part.list("pretokenizers")) all.push_back(make_one_pre_tokenizer(one));
  return [all](std::vector<Word> words, std::size_t room) {
    for (const PreTokenizer& one : all) words = one(std::move(words), room);
    return words;
  };
}

struct PreTokenizerRow {
  std::string_view name;
  PreTokenizer (*make)(const Part&);
};
constexpr PreTokenizerRow kPreTokenizers[] = {
    {"ByteLevel", byte_level_splitter},
    {"Digits", digits_splitter},
    {"BertPreTokenizer", [](const Part&) { return bert_pre_tokenizer(); }},
    {"Split", split_splitter},
    {"CharDelimiterSplit", delimiter_splitter},
    {"Metaspace", metaspace_splitter},
    {"Whitespace", [](const Part&) { return splitter(words_and_signs, Behavior::kRemoved, true); }},
    {"WhitespaceSplit", [](const Part&) { return splitter(characters(is_white_space), Behavior::kRemoved); }},
    {"Punctuation", punctuation_splitter},
    {"Sequence", sequence_splitter},
};

PreTokenizer make_one_pre_tokenizer(const Part& part) {
  return [split = make_by_type(part, "pre-tokenizer", kPreTokenizers), error = grows_too_much(part)](
             std::vector<Word> words, std::size_t room) {
    words = split(std::move(words), room);
    if (bytes_of(words) > room) throw error;
    return words;
  };
}

}  // namespace

PreTokenizer make_pre_tokenizer(const Part& file) {
  if (!file.has("pre_tokenizer")) return [](std::vector<Word> words, std::size_t) { return words; };
  return make_one_pre_tokenizer(file.at("pre_tokenizer"));
}

std::size_t bytes_of(const std::vector<Word>& words) {
  std::size_t bytes = 0;
  for (const Word& word : words) bytes += word.text.size();
  return bytes;
}

PreTokenizer bert_pre_tokenizer() {
  return
      [spaces = splitter(characters(is_white_space), Behavior::kRemoved),
       signs = splitter(characters(is_punctuation), Behavior::kIsolated)](
          std::vector<Word> words, std::size_t room) { return signs(spaces(std::move(words), room), room); };
}

}  // namespace lpmm
