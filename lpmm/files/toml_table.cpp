#include "lpmm/files/toml_table.h"

// toml++ asserts that a key begins like one, then says so in an error of its own: [=] is to get the error.
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)

#include <fmt/format.h>
#include <toml++/toml.h>
#include <utf8proc.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

constexpr std::size_t kLongestText = 1 << 20;

std::string place_of(const toml::source_region& source, const std::string& name) {
  const std::string path = source.path ? *source.path : name;
  return path.starts_with("--") ? path : fmt::format("{}:{}", path, source.begin.line);
}

// Where the string or comment that begins at `at` ends; `at` itself where none begins there. Of a string that
// its line cuts off, the line's end.
std::size_t after_literal(std::string_view text, std::size_t at) {
  const auto end_of_line = [&](std::size_t from) { return std::min(text.find('\n', from), text.size()); };
  if (text[at] == '#') return end_of_line(at);
  if (text[at] != '"' && text[at] != '\'') return at;
  const std::string quote(1, text[at]);
  const std::string fence =
      text.substr(at).starts_with(quote + quote + quote) ? quote + quote + quote : quote;
  const std::size_t limit = fence.size() == 1 ? end_of_line(at) : text.size();
  at += fence.size();
  while (at < limit && !text.substr(at).starts_with(fence)) at += quote == "\"" && text[at] == '\\' ? 2 : 1;
  at = std::min(at + fence.size(), limit);
  // A long string may end in quotes of its own, at most two.
  for (int i = 0; fence.size() == 3 && i < 2 && text.substr(at).starts_with(quote); ++i) ++at;
  return at;
}

// toml++ 3.3 has undefined behaviour on some letters past ASCII where a key, a value or a space may stand.
void check_bare(std::string_view text, const std::string& name) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t after = after_literal(text, at);
    if (after == at && static_cast<unsigned char>(text[at]) >= 0x80) {
      const auto line = 1 + std::ranges::count(text.substr(0, at), '\n');
      throw UsageError(fmt::format("{}: a letter that is not ASCII needs quotes around it",
                                   name.starts_with("--") ? name : fmt::format("{}:{}", name, line)));
    }
    at = std::max(after, at + 1);
  }
}

// In code points that toml++ can be trusted with.
void check_text(std::string_view text, const std::string& name) {
  if (text.size() > kLongestText) {
    throw UsageError(fmt::format("{}: has more than {} bytes", name, kLongestText));
  }
  std::int64_t line = 1;
  while (!text.empty()) {
    utf8proc_int32_t point = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    const utf8proc_ssize_t length = utf8proc_iterate(bytes, std::ssize(text), &point);
    const std::string where = name.starts_with("--") ? name : fmt::format("{}:{}", name, line);
    if (length <= 0) throw UsageError(fmt::format("{}: is not UTF-8 text", where));
    if (point == 0xFEFE) throw UsageError(fmt::format("{}: U+FEFE is no character; remove it", where));
    line += point == '\n' ? 1 : 0;
    text.remove_prefix(static_cast<std::size_t>(length));
  }
}

toml::table parsed(const std::string& text, const std::string& name) {
  check_text(text, name);
  check_bare(std::string_view(text).substr(text.starts_with("\xEF\xBB\xBF") ? 3 : 0), name);
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    throw UsageError(fmt::format("{}: {}", place_of(e.source(), name), e.description()));
  }
}

// "a.b=c" as a table.
toml::table parse_setting(const std::string& setting, const std::string& option) {
  const std::size_t equals = setting.find('=');
  const std::string key = setting.substr(0, equals);
  constexpr const char* kKeyLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  if (equals == std::string::npos || key.find('.') == std::string::npos ||
      key.find_first_not_of(kKeyLetters) != std::string::npos) {
    throw UsageError(fmt::format("{}: expected section.key=value, as in --set train.epochs=10", option));
  }
  const std::string value = setting.substr(equals + 1);
  if (value.find('\n') != std::string::npos)
    throw UsageError(fmt::format("{}: sets more than one line", option));
  check_text(setting, option);
  try {
    return parsed(fmt::format("{} = {}", key, value), option);
  } catch (const UsageError&) {
    if (value.find_first_not_of("0123456789", value.starts_with('-') ? 1 : 0) == std::string::npos &&
        value.size() > 15) {
      throw UsageError(fmt::format("{}: is out of range", option));
    }
    // A bare word is a string; brackets and quotes show that a TOML value was meant.
    if (value.empty() || value.find_first_of("[]{}\"'") != std::string::npos) {
      throw UsageError(fmt::format("{}: \"{}\" is no TOML value", option, value));
    }
    return parsed(fmt::format("{} = {}", key, toml_string(value)), option);
  }
}

void merge(toml::table& into, toml::table&& from, const std::string& option) {
  for (auto&& [key, node] : from) {
    toml::node* old = into.get(key);
    if (old != nullptr && old->is_table() && node.is_table()) {
      merge(*old->as_table(), std::move(*node.as_table()), option);
    } else if (old != nullptr && !old->is_table() && node.is_table()) {
      throw UsageError(fmt::format("{}: {} is no table in the file", option, key.str()));
    } else {
      node.visit([&, k = key](auto& n) { into.insert_or_assign(k, std::move(n)); });
    }
  }
}

std::string kind(const toml::node& n) {
  std::ostringstream s;
  s << n.type();
  return fmt::format("a value of type {}", s.str());
}

std::string value_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  std::ostringstream out;
  node.visit([&](const auto& n) { out << n; });
  return out.str();
}

}  // namespace

struct TomlTable::View {
  struct File {
    toml::table root;
    std::string name;
    std::set<std::string, std::less<>> known, skipped, tables;
  };
  std::shared_ptr<File> file;
  toml::table* table = nullptr;  // null: empty
  std::string prefix;            // of its keys: "train."

  std::string full(std::string_view key) const { return prefix + std::string(key); }
  const toml::node* take(std::string_view key) const {
    file->known.insert(full(key));
    return table == nullptr ? nullptr : table->get(key);
  }
  [[noreturn]] void fail(const toml::node& node, const std::string& what) const {
    throw UsageError(fmt::format("{}: {}", place_of(node.source(), file->name), what));
  }
  template <class T>
  T value(const toml::node& n, std::string_view key, const char* expected) const {
    const auto v = n.value_exact<T>();
    if (!v) fail(n, fmt::format("{} is {}, not {}", full(key), expected, kind(n)));
    return *v;
  }
  std::int64_t whole(const toml::node& n, std::string_view key, std::int64_t low, std::int64_t high) const {
    const auto v = value<std::int64_t>(n, key, "an integer");
    if (v >= low && v <= high) return v;
    fail(n, fmt::format("{} = {} is out of range; it goes from {} to {}", full(key), v, low, high));
  }
  double real(const toml::node& n, std::string_view key, double low, double high) const {
    const double v =
        n.is_integer() ? static_cast<double>(n.as_integer()->get()) : value<double>(n, key, "a number");
    if (v >= low && v <= high) return v;
    const char* verb = high == kAnyNumber ? "is" : "goes from";
    const char* finite = high == kAnyNumber ? " and finite" : "";
    fail(n, fmt::format("{} = {} is out of range; it {} {}{}", full(key), v, verb, range_text(low, high),
                        finite));
  }
  const toml::array* array(std::string_view key, const char* expected) const {
    const toml::node* n = take(key);
    if (n == nullptr) return nullptr;
    if (!n->is_array()) fail(*n, fmt::format("{} is {}, not {}", full(key), expected, kind(*n)));
    return n->as_array();
  }
  template <class T, class Get>
  std::optional<std::vector<T>> each(std::string_view key, const char* expected, const Get& get) const {
    const toml::array* items = array(key, expected);
    if (items == nullptr) return {};
    std::vector<T> out;
    for (const toml::node& item : *items) out.push_back(get(item));
    return out;
  }
  void refuse_rest(const toml::table& rest, const std::string& of, OtherWords other_words) const;
  [[noreturn]] void refuse_key(const toml::source_region& source, const std::string& key,
                               OtherWords other_words) const;
};

void TomlTable::View::refuse_rest(const toml::table& rest, const std::string& of,
                                  OtherWords other_words) const {
  for (auto&& [key, node] : rest) {
    const std::string name = of + std::string(key.str());
    if (file->skipped.contains(name)) continue;
    const toml::table* inner = node.as_table();
    if (inner != nullptr && (!inner->empty() || file->tables.contains(name))) {
      refuse_rest(*inner, name + ".", other_words);
    } else if (!file->known.contains(name)) {
      refuse_key(key.source(), name, other_words);
    } else if (node.is_array_of_tables()) {
      for (const toml::node& item : *node.as_array()) refuse_rest(*item.as_table(), name + ".", other_words);
    }
  }
}

void TomlTable::View::refuse_key(const toml::source_region& source, const std::string& key,
                                 OtherWords other_words) const {
  const std::string where = place_of(source, file->name);
  if (file->known.empty()) throw UsageError(fmt::format("{}: unknown key {}", where, key));
  const std::vector<std::string_view> names(file->known.begin(), file->known.end());
  throw UsageError(
      fmt::format("{}: unknown key {}; did you mean {}?", where, key, nearest_key(key, names, other_words)));
}

std::string range_text(double low, double high) {
  if (low == -kAnyNumber && high == kAnyNumber) return "any";
  return high == kAnyNumber ? fmt::format("at least {}", low) : fmt::format("{} to {}", low, high);
}
std::string range_text(std::int64_t low, std::int64_t high) {
  return high == std::numeric_limits<std::int64_t>::max() ? fmt::format("at least {}", low)
                                                          : fmt::format("{} to {}", low, high);
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char ch : text) {
    if (ch == '"' || ch == '\\') out += '\\';
    if (static_cast<unsigned char>(ch) < 0x20 || ch == 0x7F) {
      out += fmt::format("\\u{:04x}", static_cast<int>(ch));
    } else {
      out += ch;
    }
  }
  return out + '"';
}

std::string read_toml(const std::string& path) {
  try {
    return read_text(path, kLongestText);
  } catch (const RunError& e) {
    throw UsageError(e.what());
  }
}

std::string_view nearest_key(std::string_view word, std::span<const std::string_view> keys,
                             TomlTable::OtherWords other_words) {
  const auto last_part = [](std::string_view key) { return key.substr(key.rfind('.') + 1); };
  const auto known = [&](std::string_view key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  for (const auto& [other, key] : other_words) {
    if ((word == other || last_part(word) == other) && known(key)) return key;
  }
  std::vector<std::string_view> same;  // but in another table
  for (const std::string_view key : keys) {
    if (last_part(key) == last_part(word)) same.push_back(key);
  }
  return nearest_name(word, same.empty() ? keys : same);
}

TomlTable TomlTable::parse(const std::string& text, const std::string& name) {
  auto view = std::make_shared<View>();
  view->file = std::make_shared<View::File>(View::File{parsed(text, name), name, {}, {}, {}});
  view->table = &view->file->root;
  return TomlTable(std::move(view));
}

TomlTable TomlTable::load(const std::string& path) {
  return parse(read_toml(path), path);
}

std::optional<std::string> TomlTable::text(std::string_view key) const {
  const toml::node* n = view_->take(key);
  if (n == nullptr) return {};
  return view_->value<std::string>(*n, key, "a string");
}
std::optional<bool> TomlTable::boolean(std::string_view key) const {
  const toml::node* n = view_->take(key);
  if (n == nullptr) return {};
  return view_->value<bool>(*n, key, "true or false");
}
std::optional<std::int64_t> TomlTable::integer(std::string_view key, std::int64_t low,
                                               std::int64_t high) const {
  const toml::node* n = view_->take(key);
  if (n == nullptr) return {};
  return view_->whole(*n, key, low, high);
}
std::optional<double> TomlTable::number(std::string_view key, double low, double high) const {
  const toml::node* n = view_->take(key);
  if (n == nullptr) return {};
  return view_->real(*n, key, low, high);
}
std::optional<std::vector<std::string>> TomlTable::texts(std::string_view key) const {
  return view_->each<std::string>(key, "an array of strings", [&](const toml::node& n) {
    return view_->value<std::string>(n, key, "an array of strings");
  });
}
std::optional<std::vector<std::int64_t>> TomlTable::integers(std::string_view key, std::int64_t low,
                                                             std::int64_t high) const {
  return view_->each<std::int64_t>(key, "an array of integers",
                                   [&](const toml::node& n) { return view_->whole(n, key, low, high); });
}
std::optional<std::vector<double>> TomlTable::numbers(std::string_view key, double low, double high) const {
  return view_->each<double>(key, "an array of numbers",
                             [&](const toml::node& n) { return view_->real(n, key, low, high); });
}

std::optional<std::size_t> TomlTable::choice(std::string_view key,
                                             std::span<const std::string_view> words) const {
  const toml::node* n = view_->take(key);
  if (n == nullptr) return {};
  const auto word = view_->value<std::string>(*n, key, "a string");
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  view_->fail(*n, fmt::format("{} is one of {}, not \"{}\"; did you mean \"{}\"?", view_->full(key),
                              join(words), word, nearest_name(word, words)));
}

std::optional<std::vector<std::string>> TomlTable::plain_values(std::string_view key) const {
  const auto out = view_->each<std::string>(key, "an array of values", [&](const toml::node& n) {
    if (n.is_table()) view_->fail(n, fmt::format("{} holds plain values", view_->full(key)));
    return value_text(n);
  });
  if (out && out->empty()) refuse(key, fmt::format("{} has no value; give at least one", view_->full(key)));
  return out;
}

TomlTable TomlTable::table(std::string_view key) const {
  view_->file->tables.insert(view_->full(key));
  auto inner = std::make_shared<View>(View{view_->file, nullptr, view_->full(key) + "."});
  toml::node* n = view_->table == nullptr ? nullptr : view_->table->get(key);
  if (n != nullptr && !n->is_table()) {
    view_->fail(*n, fmt::format("{0} is a table, [{0}]", view_->full(key)));
  }
  if (n != nullptr) inner->table = n->as_table();
  return TomlTable(std::move(inner));
}

std::vector<TomlTable> TomlTable::tables(std::string_view key) const {
  std::vector<TomlTable> out;
  const toml::node* n = view_->take(key);
  if (n == nullptr) return out;
  const auto wrong = [&](const toml::node& node) {
    view_->fail(node, fmt::format("{0} is an array of tables, [[{0}]]", view_->full(key)));
  };
  if (!n->is_array()) wrong(*n);
  for (toml::node& item : *view_->table->get_as<toml::array>(key)) {
    if (!item.is_table()) wrong(item);
    out.push_back(
        TomlTable(std::make_shared<View>(View{view_->file, item.as_table(), view_->full(key) + "."})));
  }
  return out;
}

TomlTable TomlTable::no_item(std::string_view key) const {
  return TomlTable(std::make_shared<View>(View{view_->file, nullptr, view_->full(key) + "."}));
}

bool TomlTable::has(std::string_view key) const {
  return view_->table != nullptr && view_->table->contains(key);
}
bool TomlTable::is_table(std::string_view key) const {
  return has(key) && view_->table->get(key)->is_table();
}
bool TomlTable::holds(std::string_view key, std::string_view word) const {
  return has(key) && view_->table->get(key)->value_exact<std::string>() == word &&
         view_->take(key) != nullptr;
}
std::string TomlTable::full_name(std::string_view key) const {
  return view_->full(key);
}
std::vector<std::string> TomlTable::keys() const {
  std::vector<std::string> out;
  if (view_->table == nullptr) return out;
  for (auto&& [key, node] : *view_->table) out.emplace_back(key.str());
  return out;
}
void TomlTable::skip(std::string_view key) const {
  view_->file->known.insert(view_->full(key));
  view_->file->skipped.insert(view_->full(key));
}

void TomlTable::refuse_unknown(OtherWords other_words) const {
  if (view_->table != nullptr) view_->refuse_rest(*view_->table, view_->prefix, other_words);
}
void TomlTable::refuse(const std::string& what) const {
  throw UsageError(fmt::format("{}: {}", place(), what));
}
void TomlTable::refuse(std::string_view key, const std::string& what) const {
  throw UsageError(fmt::format("{}: {}", place(key), what));
}
std::string TomlTable::place() const {
  const bool is_file = view_->table == nullptr || view_->table == &view_->file->root;
  return is_file ? view_->file->name : place_of(view_->table->source(), view_->file->name);
}
std::string TomlTable::place(std::string_view key) const {
  const toml::node* n = view_->table == nullptr ? nullptr : view_->table->at_path(key).node();
  return n == nullptr ? place() : place_of(n->source(), view_->file->name);
}

void TomlTable::set(const std::string& setting, const std::string& option) {
  merge(*view_->table, parse_setting(setting, option), option);
}
void TomlTable::erase(std::string_view key) {
  toml::table* table = view_->table;
  for (std::size_t dot; table != nullptr && (dot = key.find('.')) != std::string_view::npos;) {
    table = table->get_as<toml::table>(key.substr(0, dot));
    key.remove_prefix(dot + 1);
  }
  if (table != nullptr) table->erase(key);
}

}  // namespace lpmm
