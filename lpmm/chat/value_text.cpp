#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cmath>

#include "lpmm/chat/value.h"
#include "lpmm/data/utf8.h"

namespace lpmm::chat {
namespace {

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

bool prints(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return code == ' ';
    default:
      return true;
  }
}

std::string quoted(const std::string& text) {
  const bool doubled = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    const std::string_view bytes = std::string_view(text).substr(at, one.bytes);
    at += one.bytes;
    if (one.code == '\\' || one.code == static_cast<char32_t>(quote)) {
      out.append("\\").append(bytes);
    } else if (one.code == '\n' || one.code == '\r' || one.code == '\t') {
      out += one.code == '\n' ? "\\n" : one.code == '\r' ? "\\r" : "\\t";
    } else if (prints(one.code)) {
      out += bytes;
    } else {
      const auto code = static_cast<unsigned>(one.code);
      out += code < 0x100     ? fmt::format("\\x{:02x}", code)
             : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                              : fmt::format("\\U{:08x}", code);
    }
  }
  return out + quote;
}

template <class Items, class Write>
std::string joined(const Items& items, const Write& write) {
  std::string out;
  for (const auto& item : items) out.append(out.empty() ? "" : ", ").append(write(item));
  return out;
}

void add_json_text(const std::string& text, bool ascii, std::string& out) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    const auto code = static_cast<unsigned>(one.code);
    constexpr std::string_view kShort = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const std::size_t place = code < 0x80 ? kShort.find(static_cast<char>(code)) : kShort.npos;
    if (place != kShort.npos) {
      out.append("\\").append(1, kLetters[place]);
    } else if (code < 0x20 || (ascii && code >= 0x7f && code < 0x10000)) {
      out += fmt::format("\\u{:04x}", code);
    } else if (ascii && code >= 0x10000) {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
    } else {
      out.append(text, at, one.bytes);
    }
    at += one.bytes;
  }
  out += '"';
}

std::string json_number(const Value& value) {
  if (!value.is_float()) return to_text(value);
  if (std::isnan(value.number())) return "NaN";
  if (std::isinf(value.number())) return value.number() < 0 ? "-Infinity" : "Infinity";
  return float_text(value.number());
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonLayout& layout) : layout_(layout) {}
  std::string take() { return std::move(out_); }

  void write(const Value& value) {
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.boolean() ? "true" : "false";
    } else if (value.is_number()) {
      out_ += json_number(value);
    } else if (value.is_text()) {
      add_json_text(value.text(), layout_.ascii, out_);
    } else if (const List* list = value.list(); list != nullptr && list->kind <= List::kTuple) {
      around('[', ']', list->items, [&](const Value& item) { write(item); });
    } else if (const Dict* dict = value.dict()) {
      write_members(dict->items);
    } else {
      throw Problem(fmt::format("tojson of {}", value.type()));
    }
  }

 private:
  bool has_lines() const { return layout_.indent >= 0 || !layout_.indent_text.empty(); }
  void break_line() {
    if (!has_lines()) return;
    out_ += '\n';
    for (std::size_t i = 0; i < level_; ++i) {
      out_ += layout_.indent_text;
      out_.append(static_cast<std::size_t>(std::max(0, layout_.indent)), ' ');
    }
  }
  template <class Items, class Write>
  void around(char open, char close, const Items& items, const Write& write_one) {
    out_ += open;
    ++level_;
    bool is_first = true;
    for (const auto& item : items) {
      if (!is_first) out_ += layout_.between;
      is_first = false;
      break_line();
      write_one(item);
    }
    --level_;
    if (!items.empty()) break_line();
    out_ += close;
  }
  void write_members(Dict::Items items) {
    if (layout_.sorted) {
      std::ranges::stable_sort(items,
                               [](const auto& a, const auto& b) { return compare(a.first, b.first) < 0; });
    }
    around('{', '}', items, [&](const auto& item) {
      const Value& name = item.first;
      if (name.is_text()) {
        write(name);
      } else {
        const std::string text = name.is_none()   ? "null"
                                 : name.is_bool() ? (name.boolean() ? "true" : "false")
                                                  : json_number(name);
        out_.append("\"").append(text).append("\"");
      }
      out_ += layout_.after_name;
      write(item.second);
    });
  }

  const JsonLayout& layout_;
  std::string out_;
  std::size_t level_ = 0;
};

}  // namespace

std::string to_text(const Value& value) {
  return value.is_text() ? value.text() : to_repr(value);
}

std::string to_repr(const Value& value) {
  if (value.is_undefined()) return "";
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.boolean() ? "True" : "False";
  if (value.is_integer()) return std::to_string(value.integer(""));
  if (value.is_float()) return float_text(value.number());
  if (value.is_text()) return quoted(value.text());
  const auto inner = [](const Value& item) {
    return item.is_undefined() ? std::string("Undefined") : to_repr(item);
  };
  if (const List* list = value.list(); list != nullptr && list->kind <= List::kTuple) {
    const std::string items = joined(list->items, inner);
    if (list->kind == List::kList) return "[" + items + "]";
    return "(" + items + (list->items.size() == 1 ? ",)" : ")");
  }
  if (const Dict* dict = value.dict()) {
    return "{" +
           joined(dict->items,
                  [&](const auto& item) { return inner(item.first) + ": " + inner(item.second); }) +
           "}";
  }
  throw Problem(fmt::format("{} has no text; the filter list makes a list of what it holds", value.type()));
}

std::string to_json(const Value& value, const JsonLayout& layout) {
  JsonWriter writer(layout);
  writer.write(value);
  return writer.take();
}

}  // namespace lpmm::chat
