// The one reader of TOML: configs of runs, grids of sweeps and experiments. Every error is a UsageError that
// names file and line (or the option that gave the value), the key, and what was expected.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lpmm {

inline constexpr double kAnyNumber = std::numeric_limits<double>::max();

// "0 to 1", "at least 0", "any"
std::string range_text(double low, double high);
std::string range_text(std::int64_t low, std::int64_t high);

std::string toml_string(std::string_view text);  // in quotes
std::string read_toml(const std::string& path);  // the text of a file, at most 1 MiB; throws UsageError

// A table of a file, or one inside it. Copies look at the same file. The readers give nothing where the key
// is not there; what they were asked for is known, and refuse_unknown() complains of all else.
class TomlTable {
 public:
  // `name` stands for the file in messages. At most 1 MiB of UTF-8.
  static TomlTable parse(const std::string& text, const std::string& name);
  static TomlTable load(const std::string& path);

  std::optional<std::string> text(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t low, std::int64_t high) const;
  std::optional<double> number(std::string_view key, double low = -kAnyNumber,
                               double high = kAnyNumber) const;  // an integer is one
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> integers(std::string_view key, std::int64_t low,
                                                    std::int64_t high) const;
  std::optional<std::vector<double>> numbers(std::string_view key, double low = -kAnyNumber,
                                             double high = kAnyNumber) const;
  // The place of the word in `words`.
  std::optional<std::size_t> choice(std::string_view key, std::span<const std::string_view> words) const;
  // An array of values of any type, each as --set takes it: strings bare, numbers short. At least one.
  std::optional<std::vector<std::string>> plain_values(std::string_view key) const;

  TomlTable table(std::string_view key) const;                // [key]; an empty one where it is not there
  std::vector<TomlTable> tables(std::string_view key) const;  // [[key]]
  // An empty item of [[key]]: what is read from it is known in all of them.
  TomlTable no_item(std::string_view key) const;

  bool has(std::string_view key) const;
  bool is_table(std::string_view key) const;
  bool holds(std::string_view key, std::string_view word) const;  // takes the key where this is its value
  std::string full_name(std::string_view key) const;              // "train.batch"
  std::vector<std::string> keys() const;
  void skip(std::string_view key) const;  // known, with all that is in it

  // Throws at the first key of this table, or of one inside it, that nobody asked for. `other_words` are keys
  // or their last parts as other programs have them, with the key that is meant.
  using OtherWords = std::span<const std::pair<std::string_view, std::string_view>>;
  void refuse_unknown(OtherWords other_words = {}) const;
  [[noreturn]] void refuse(const std::string& what) const;                        // at the table's place
  [[noreturn]] void refuse(std::string_view key, const std::string& what) const;  // at the key's
  std::string place() const;
  std::string place(std::string_view key) const;  // "a.b" too; the table's place where it is not there

  // Changes what the file says. "a.b=c" has a TOML value or a bare word; `option` names it in messages.
  void set(const std::string& setting, const std::string& option);
  void erase(std::string_view key);  // "a.b" too

 private:
  struct View;
  explicit TomlTable(std::shared_ptr<View> view) : view_(std::move(view)) {}
  std::shared_ptr<View> view_;
};

// The key that a word may have been meant for: the one it ends in, what `other_words` have for it, the
// nearest; empty where none is near.
std::string_view nearest_key(std::string_view word, std::span<const std::string_view> keys,
                             TomlTable::OtherWords other_words);

}  // namespace lpmm
