// Small helpers for names that people type, and for what people are told.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lpmm {

// The name with the smallest edit distance to `word`, the first of equals; empty where there are none. A * in
// the word stands for any letters.
std::string_view closest_name(std::string_view word, std::span<const std::string_view> names);
// Returns true if the word may be a misspelling or the beginning of the name.
bool is_near(std::string_view word, std::string_view name);
// The closest name where that is near; else empty.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names);
// "; did you mean NAME?"; empty where there is no name.
std::string did_you_mean(std::string_view name);
// The same of the nearest name; else "; there are A, B, C...".
std::string did_you_mean_or_some(std::string_view word, std::span<const std::string_view> names);

// Pattern on a whole name: * is any run of characters, dots and slashes too, ? any one; all others stand for
// themselves.
bool matches_pattern(std::string_view pattern, std::string_view name);

// Writes to standard error. Failures are ignored: they are no reason to end a run.
void tell(std::string_view text);
// From now on tell() does nothing, or writes again: of several processes one has the terminal.
void tell_nothing(bool nothing);

// Text as the name of a file or folder: letters, digits and . _ = - stay, but no dot at the start.
std::string file_name(std::string text);

// A web address as messages may show it: without the user and password that may stand before the host.
std::string without_password(const std::string& address);

// Lines of another program for the end of a message, each but the first two columns further in: main() takes
// any other line break in a message for a part of a name.
std::string indented(std::string text);

// "a, b, c"
std::string join(std::span<const std::string_view> words);

}  // namespace lpmm
