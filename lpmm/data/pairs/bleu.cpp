#include "lpmm/data/pairs/bleu.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "lpmm/data/tokenizers/characters.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

constexpr std::size_t kOrder = 4;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
// Returns true for characters that are always tokens of their own: ASCII's punctuation but for . , - and '.
bool is_apart(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}
bool is_stop(char c) {
  return c == '.' || c == ',';
}

// Two characters that `matches` takes are written as `write` says; the search goes on behind them.
template <class Matches, class Write>
std::string replaced(std::string_view text, const Matches& matches, const Write& write) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (at + 1 < text.size() && matches(text[at], text[at + 1])) {
      write(out, text[at], text[at + 1]);
      at += 2;
    } else {
      out += text[at++];
    }
  }
  return out;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words(1);
  for (std::size_t at = 0; at < text.size();) {
    const Character c = first_character(text.substr(at));
    const bool is_space = c.state == Character::kGood && is_python_space(c.code);
    if (is_space && !words.back().empty()) words.emplace_back();
    if (!is_space) words.back() += text.substr(at, c.bytes);
    at += c.bytes;
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

using Counts = std::map<std::vector<std::string>, std::int64_t>;
Counts counts_of(const std::vector<std::string>& words, std::size_t order) {
  Counts counts;
  for (std::size_t i = 0; i + order <= words.size(); ++i) {
    const auto at = words.begin() + static_cast<std::ptrdiff_t>(i);
    ++counts[{at, at + static_cast<std::ptrdiff_t>(order)}];
  }
  return counts;
}

}  // namespace

std::vector<std::string> tokens_13a(std::string_view line) {
  std::string text(line);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  for (const auto& [from, to] : {std::pair{"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}}) {
    replace_all(text, from, to);
  }
  std::string apart = " ";
  for (const char c : text) {
    if (is_apart(c)) {
      apart += std::string{' ', c, ' '};
    } else {
      apart += c;
    }
  }
  apart += ' ';
  // A stop that no digit is before, one that no digit is behind, a dash behind a digit. Characters beyond
  // ASCII are several bytes, of which the last one is what stands before.
  std::string out = replaced(
      apart, [](char a, char b) { return !is_digit(a) && is_stop(b); },
      [](std::string& to, char a, char b) {
        to += std::string{a, ' ', b, ' '};
      });
  out = replaced(
      out, [](char a, char b) { return is_stop(a) && !is_digit(b); },
      [](std::string& to, char a, char b) {
        to += std::string{' ', a, ' ', b};
      });
  out = replaced(
      out, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](std::string& to, char a, char b) {
        to += std::string{a, ' ', b, ' '};
      });
  return split_words(out);
}

double bleu(std::span<const std::string> told, std::span<const std::string> is) {
  std::array<double, kOrder> correct{}, total{};
  double told_length = 0, is_length = 0;
  for (std::size_t i = 0; i < is.size(); ++i) {
    const std::vector<std::string> ours = tokens_13a(told[i]), theirs = tokens_13a(is[i]);
    told_length += static_cast<double>(ours.size());
    is_length += static_cast<double>(theirs.size());
    for (std::size_t n = 0; n < kOrder; ++n) {
      const Counts wanted = counts_of(theirs, n + 1);
      for (const auto& [words, count] : counts_of(ours, n + 1)) {
        const auto at = wanted.find(words);
        correct[n] += at == wanted.end() ? 0.0 : static_cast<double>(std::min(count, at->second));
        total[n] += static_cast<double>(count);
      }
    }
  }
  // An order without a match counts as half a match, the next such one as a quarter.
  double logs = 0, smoothing = 1;
  if (std::ranges::all_of(correct, [](double c) { return c == 0; })) return 0;
  for (std::size_t n = 0; n < kOrder; ++n) {
    if (total[n] == 0) return 0;
    if (correct[n] == 0) smoothing *= 2;
    logs += std::log(100 * (correct[n] > 0 ? correct[n] : 1 / smoothing) / total[n]) / kOrder;
  }
  const double brevity = told_length < is_length ? std::exp(1 - is_length / told_length) : 1;
  return brevity * std::exp(logs);
}

}  // namespace lpmm
