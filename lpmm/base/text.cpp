#include "lpmm/base/text.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <numeric>

namespace lpmm {
namespace {

std::atomic<bool> tells_nothing = false;

constexpr std::size_t kLongestWord = 64;  // a longer one is no typing slip

// A * in `a` stands for any run of letters; upper and lower case are the same.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  a = a.substr(0, kLongestWord);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    if (a[i - 1] != '*') ++row[0];
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] =
          a[i - 1] == '*' ? std::min(row[j], row[j - 1]) : std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view closest_name(std::string_view word, std::span<const std::string_view> names) {
  const auto closest = std::min_element(names.begin(), names.end(), [&](auto a, auto b) {
    return edit_distance(word, a) < edit_distance(word, b);
  });
  return closest != names.end() ? *closest : std::string_view();
}

bool is_near(std::string_view word, std::string_view name) {
  constexpr std::size_t kLeastStart = 3;
  if (word.size() >= kLeastStart && name.starts_with(word)) return true;
  const auto stars = static_cast<std::size_t>(std::count(word.begin(), word.end(), '*'));
  const std::size_t longer = stars > 0 ? word.size() - stars : std::max(word.size(), name.size());
  const std::size_t distance = edit_distance(word, name);
  return distance <= std::max<std::size_t>(2, (longer + 2) / 3) && distance < longer;
}

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names) {
  const std::string_view closest = closest_name(word, names);
  return is_near(word, closest) ? closest : std::string_view();
}

std::string did_you_mean(std::string_view name) {
  return name.empty() ? "" : fmt::format("; did you mean {}?", name);
}

std::string did_you_mean_or_some(std::string_view word, std::span<const std::string_view> names) {
  constexpr std::size_t kSome = 8;
  if (const std::string_view nearest = nearest_name(word, names); !nearest.empty())
    return did_you_mean(nearest);
  const bool are_all = names.size() <= kSome;
  return fmt::format("; there are {}{}", join(are_all ? names : names.first(kSome)), are_all ? "" : "...");
}

bool matches_pattern(std::string_view pattern, std::string_view name) {
  std::string escaped;
  for (const char c : pattern) {
    if (c == '[' || c == '\\') escaped += '\\';  // signs like others here
    escaped += c;
  }
  return fnmatch(escaped.c_str(), std::string(name).c_str(), 0) == 0;
}

std::string file_name(std::string text) {
  constexpr const char* kFine = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=-";
  for (std::size_t at = 0; (at = text.find_first_not_of(kFine, at)) != std::string::npos;) {
    text[at] = text[at] == ':' ? '-' : '_';
  }
  if (text.empty() || text[0] == '.') text.replace(0, 1, "_");
  return text;
}

std::string without_password(const std::string& address) {
  const std::size_t scheme = address.find("://");
  const std::size_t host = scheme == std::string::npos ? 0 : scheme + 3;
  const std::size_t at = address.rfind('@');  // a password may hold any sign
  return at == std::string::npos || at < host ? address : address.substr(0, host) + address.substr(at + 1);
}

std::string indented(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3)
    text.insert(at + 1, "  ");
  return text;
}

std::string join(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

void tell_nothing(bool nothing) {
  tells_nothing = nothing;
}

void tell(std::string_view text) {
  if (tells_nothing) return;
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace lpmm
