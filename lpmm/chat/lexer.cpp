#include "lpmm/chat/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "lpmm/chat/characters.h"
#include "lpmm/data/utf8.h"

namespace lpmm::chat {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string with_plain_line_ends(const std::string& source) {
  std::string out;
  for (std::size_t at = 0; at < source.size(); ++at) {
    const bool is_pair = source[at] == '\r' && at + 1 < source.size() && source[at + 1] == '\n';
    if (!is_pair) out += source[at] == '\r' ? '\n' : source[at];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(const std::string& source) : source_(with_plain_line_ends(source)) {}
  std::vector<Token> split() {
    while (at_ < source_.size()) read_text();
    add(Token::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string_view why) const {
    throw Problem(fmt::format("line {}: {}", line_, why));
  }
  bool sees(std::string_view text) const { return rest().starts_with(text); }
  std::string_view rest() const { return std::string_view(source_).substr(std::min(at_, source_.size())); }
  void add(Token::Kind kind, std::string text, Value value = {}) {
    tokens_.push_back({kind, line_, std::move(text), std::move(value)});
  }
  void go(std::size_t bytes) {
    for (const char c : rest().substr(0, bytes)) line_ += c == '\n' ? 1 : 0;
    at_ += bytes;
  }
  void go_over_spaces() {
    while (at_ < source_.size()) {
      const Character one = character_at(source_, at_);
      if (!is_space(one.code)) return;
      go(one.bytes);
    }
  }

  // The text up to the next tag, and that tag.
  void read_text() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == source_.npos || tag + 1 >= source_.size()) {
        add_text(source_.size());
        go(rest().size());
        return;
      }
      if (const char next = source_[tag + 1]; next == '%' || next == '{' || next == '#') break;
    }
    add_text(tag, source_[tag + 1]);
    const char kind = source_[tag + 1];
    if (kind == '%' && read_raw()) return;
    go(2);
    if (sees("-") || sees("+")) go(1);
    if (kind == '#') {
      read_comment();
    } else {
      read_tag(kind == '%');
    }
  }
  // `tag`: the character that says what kind of tag follows; 0: none does.
  void add_text(std::size_t end, char tag = 0) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    const std::size_t bytes = text.size();
    const char sign = tag != 0 && end + 2 < source_.size() ? source_[end + 2] : ' ';
    if (tag != 0 && sign == '-') {
      text = stripped(text, false, true);
    } else if (tag != 0 && tag != '{' && sign != '+') {
      const std::size_t line = text.rfind('\n') + 1;  // 0 where there is none
      const bool begins_line = line > 0 || at_line_begin_;
      if (begins_line && stripped(text.substr(line), true, false).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) add(Token::kText, std::string(text));
    go(bytes);
  }
  void end_tag(std::size_t bytes, bool trims_spaces, bool trims_line) {
    go(bytes);
    if (trims_spaces) {
      go_over_spaces();
    } else if (trims_line && sees("\n")) {
      go(1);
    }
    at_line_begin_ = source_[at_ - 1] == '\n';
  }
  void read_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == source_.npos) fail("a comment that begins here has no end: #} is missing");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    go(end - at_);
    end_tag(2, sign == '-', sign != '+');
  }

  // The length of {% NAME %} from `at` on, and its signs; 0: it is something else.
  std::size_t named_tag(std::size_t at, std::string_view name, char& first, char& last) const {
    std::size_t end = at + 2;
    const auto skip = [&] {
      while (end < source_.size() && is_space(static_cast<unsigned char>(source_[end]))) ++end;
    };
    const auto sign = [&] {
      const bool has = end < source_.size() && (source_[end] == '-' || source_[end] == '+');
      return has ? source_[end++] : ' ';
    };
    first = sign();
    skip();
    if (source_.compare(end, name.size(), name) != 0) return 0;
    end += name.size();
    skip();
    last = sign();
    return source_.compare(end, 2, "%}") == 0 ? end + 2 - at : 0;
  }
  bool read_raw() {
    char first = ' ', last = ' ';
    const std::size_t bytes = named_tag(at_, "raw", first, last);
    if (bytes == 0 || last == '+') return false;
    end_tag(bytes, last == '-', false);
    for (std::size_t end = source_.find("{%", at_); end != source_.npos; end = source_.find("{%", end + 1)) {
      const std::size_t closing = named_tag(end, "endraw", first, last);
      if (closing == 0) continue;
      add_text(end, '%');
      end_tag(closing, last == '-', last != '+');
      return true;
    }
    fail("a raw block that begins here has no end: {% endraw %} is missing");
  }

  void read_tag(bool is_block) {
    add(is_block ? Token::kBlockBegin : Token::kVariableBegin, "");
    const std::string_view close = is_block ? "%}" : "}}";
    const int line = line_;
    std::string open;
    for (;;) {
      go_over_spaces();
      if (at_ >= source_.size()) {
        line_ = line;
        fail(fmt::format("a tag that begins here has no end: {} is missing", close));
      }
      const bool has_sign = sees("-") || (is_block && sees("+"));
      if (open.empty() && (sees(close) || (has_sign && rest().substr(1).starts_with(close)))) {
        add(is_block ? Token::kBlockEnd : Token::kVariableEnd, "");
        end_tag(has_sign ? 3 : 2, sees("-"), is_block && !has_sign);
        return;
      }
      read_token(open);
    }
  }
  void read_token(std::string& open) {
    const char c = source_[at_];
    if (is_digit(c)) return read_number();
    if (begins_name(c)) {
      std::size_t end = at_;
      while (end < source_.size() && (begins_name(source_[end]) || is_digit(source_[end]))) ++end;
      add(Token::kName, source_.substr(at_, end - at_));
      return go(end - at_);
    }
    if (c == '\'' || c == '"') return read_quoted(c);
    for (const std::string_view name : {"//", "**", "==", "!=", ">=", "<="}) {
      if (!sees(name)) continue;
      add(Token::kOperator, std::string(name));
      return go(2);
    }
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      fail(fmt::format("{} does not belong into a tag", named(character_at(source_, at_).code)));
    }
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (!open.ends_with(c)) fail(fmt::format("{} closes nothing", c));
      open.pop_back();
    }
    add(Token::kOperator, std::string(1, c));
    go(1);
  }

  void read_number() {
    std::size_t end = at_;
    const char kind = sees("0") && rest().size() > 2 ? static_cast<char>(rest()[1] | 0x20) : ' ';
    if (kind == 'x' || kind == 'o' || kind == 'b') {
      end += 2;
      while (end < source_.size() && (begins_name(source_[end]) || is_digit(source_[end]))) ++end;
      std::string digits = source_.substr(at_ + 2, end - at_ - 2);
      std::erase(digits, '_');
      return add_integer(digits, kind == 'x' ? 16 : kind == 'o' ? 8 : 2, end);
    }
    const auto digits = [&] {
      while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) ++end;
    };
    digits();
    bool is_float = false;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      is_float = true;
      ++end;
      digits();
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const std::size_t sign =
          end + 1 < source_.size() && (source_[end + 1] == '-' || source_[end + 1] == '+');
      if (end + 1 + sign < source_.size() && is_digit(source_[end + 1 + sign])) {
        is_float = true;
        end += 1 + sign;
        digits();
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    if (!is_float) return add_integer(text, 10, end);
    add(Token::kConstant, text, std::strtod(text.c_str(), nullptr));
    go(end - at_);
  }
  void add_integer(const std::string& digits, int base, std::size_t end) {
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    const bool is_whole = error == std::errc() && stop == digits.data() + digits.size();
    if (!is_whole || (base == 10 && digits[0] == '0' && value != 0)) {
      fail(fmt::format("{} is no number that fits 64 bits", source_.substr(at_, end - at_)));
    }
    add(Token::kConstant, digits, value);
    go(end - at_);
  }

  void read_quoted(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("a text that begins here has no end: its quote is missing");
    add(Token::kConstant, "", unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    go(end + 1 - at_);
  }
  std::string unescaped(std::string_view text) const {
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] != '\\') {
        out += text[at];
        continue;
      }
      constexpr std::string_view kNames = "\\'\"abfnrtv\n", kCodes = "\\'\"\a\b\f\n\r\t\v";
      const char name = text[++at];
      const std::size_t place = kNames.find(name);
      if (place != kNames.npos) {
        if (name != '\n') out += kCodes[place];
      } else if (name == 'x' || name == 'u' || name == 'U') {
        const std::size_t digits = name == 'x' ? 2 : name == 'u' ? 4 : 8;
        out += coded(text.substr(at + 1, digits), digits, 16);
        at += digits;
      } else if (name >= '0' && name <= '7') {
        std::size_t digits = 1;
        while (digits < 3 && at + digits < text.size() && text[at + digits] >= '0' &&
               text[at + digits] <= '7') {
          ++digits;
        }
        out += coded(text.substr(at, digits), digits, 8);
        at += digits - 1;
      } else if (name == 'N') {
        fail("\\N{...} is not supported: write the character itself");
      } else {
        out.append("\\").append(1, name);
      }
    }
    return out;
  }
  std::string coded(std::string_view digits, std::size_t count, int base) const {
    std::uint32_t code = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    constexpr std::uint32_t kMost = 0x10ffff, kSurrogates = 0xd800, kPastSurrogates = 0xe000;
    if (digits.size() != count || end != digits.data() + digits.size() || error != std::errc() ||
        code > kMost || (code >= kSurrogates && code < kPastSurrogates)) {
      fail(fmt::format("a text holds a \\ with {}, which is no character", digits));
    }
    return utf8(code);
  }

  std::string source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool at_line_begin_ = true;
};

}  // namespace

std::vector<Token> split_tokens(const std::string& source) {
  return Lexer(source).split();
}

}  // namespace lpmm::chat
