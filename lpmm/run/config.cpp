#include "lpmm/run/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/run/config_keys.h"

namespace lpmm {
namespace {

using config_keys::Names;

// Each call takes one key of the section.
class Reader {
 public:
  explicit Reader(const TomlTable& table) : root_(table), table_(table) {}

  void section(std::string_view name) { table_ = root_.table(name); }

  void text(std::string_view key, std::string& out, std::string_view) { put(table_.text(key), out); }
  void boolean(std::string_view key, bool& out, std::string_view) { put(table_.boolean(key), out); }
  template <class T>
  void integer(std::string_view key, T& out, std::int64_t low, std::int64_t high, std::string_view) {
    put(table_.integer(key, low, high), out);
  }
  void number(std::string_view key, double& out, double low, double high, std::string_view) {
    put(table_.number(key, low, high), out);
  }
  void integers(std::string_view key, std::vector<std::int64_t>& out, std::int64_t low, std::int64_t high,
                std::string_view) {
    put(table_.integers(key, low, high), out);
  }
  void numbers(std::string_view key, std::vector<double>& out, double low, double high, std::string_view) {
    put(table_.numbers(key, low, high), out);
  }
  template <class T>
  void choice(std::string_view key, T& out, const Names<T>& names, std::string_view) {
    std::vector<std::string_view> words;
    for (const auto& [name, item] : names) words.push_back(name);
    if (const auto at = table_.choice(key, words)) out = names[*at].second;
  }
  void spec(std::string_view key, std::optional<Spec>& out, std::string_view) {
    const auto text = table_.text(key);
    if (!text) return;
    if (key == "accumulator" && *text == kInMomentum) {
      table_.refuse(key,
                    "gradients are accumulated in the momentum for all tensors, by memory.accumulator, or "
                    "for none");
    }
    guard(key, [&] { out = parse_spec(*text); });
  }
  void policy(Policy& out, const OptimizerConfig& optimizer) {
    constexpr auto kParameter = static_cast<std::size_t>(Role::kParameter);
    constexpr auto kMomentum = static_cast<std::size_t>(Role::kMomentum);
    constexpr auto kAccumulator = static_cast<std::size_t>(Role::kAccumulator);
    if (const auto preset = table_.text("preset")) {
      guard("preset", [&] { out = make_policy(*preset, optimizer); });
    }
    // Error feedback is the preset's where the parameter and what carries its errors are.
    for (std::size_t r = 0; r < kRoles; ++r) {
      const std::string_view key = to_string(static_cast<Role>(r));
      if (r == kAccumulator && table_.holds(key, kInMomentum)) {
        out.accumulate_in_momentum = true;
        continue;
      }
      std::optional<Spec> given;
      spec(key, given, "");
      if (given && r == kAccumulator) out.accumulate_in_momentum = false;
      if (given) out.specs[r] = *given;
      if (given && (r == kParameter || r == kMomentum)) out.error_feedback = false;
    }
    choice("rounding", rounding_, config_keys::kRoundings, "");
    if (rounding_ && *rounding_ != out.specs[kParameter].rounding) out.error_feedback = false;
  }
  // Asked for by memory.rounding; applied when the overrides are known too.
  std::optional<Rounding> rounding() const { return rounding_; }

  template <class T, class Body>
  void list(std::string_view key, std::vector<T>& out, const Body& body) {
    T unused;
    Reader names(table_.no_item(key));
    body(names, unused);
    if (table_.has(key)) out.clear();
    for (const TomlTable& item : table_.tables(key)) {
      Reader reader(item);
      T entry;
      body(reader, entry);
      item.refuse_unknown(config_keys::kOtherWords);
      if (entry.pattern.empty()) item.refuse(fmt::format("{} needs a pattern", table_.full_name(key)));
      out.push_back(std::move(entry));
    }
  }

 private:
  template <class Given, class T>
  static void put(const std::optional<Given>& given, T& out) {
    if (given) out = static_cast<T>(*given);
  }
  // Names the key where its text is wrong.
  template <class Body>
  void guard(std::string_view key, const Body& body) const {
    try {
      body();
    } catch (const UsageError& e) {
      table_.refuse(key, fmt::format("{}: {}", table_.full_name(key), e.what()));
    }
  }

  TomlTable root_, table_;
  std::optional<Rounding> rounding_;
};

void check(const RunConfig& c, const TomlTable& file) {
  if (c.train.batch % c.train.microbatches != 0) {
    const bool said = file.table("train").has("microbatches");
    file.refuse(said ? "train.microbatches" : "train.batch",
                fmt::format("train.batch = {} is not divisible by train.microbatches = {}", c.train.batch,
                            c.train.microbatches));
  }
  if (c.train.epochs == 0 && c.train.steps == 0) {
    file.refuse("train.epochs", "set train.epochs or train.steps to how long to train");
  }
  if (!std::is_sorted(c.schedule.milestones.begin(), c.schedule.milestones.end())) {
    file.refuse("schedule.milestones", "schedule.milestones are shares of the run in ascending order");
  }
  try {
    check_optimizer(c.optimizer);
    check_policy(c.policy, {});
    check_momentum(c.policy, c.optimizer);
  } catch (const UsageError& e) {
    file.refuse(e.what());
  }
}

// A key without its section, as in --set lr=0.1, is said in full.
void check_setting(const std::string& setting) {
  const std::string word = setting.substr(0, setting.find('='));
  if (word.size() == setting.size() || word.empty() || word.find('.') != std::string::npos) return;
  const std::vector<ConfigKey> all = all_config_keys();
  std::vector<std::string_view> names;
  for (const ConfigKey& key : all) names.push_back(key.name);
  throw UsageError(fmt::format("--set {}: expected section.key=value; did you mean {}?", setting,
                               nearest_key(word, names, config_keys::kOtherWords)));
}

// The file with what the command line changes.
TomlTable changed_file(const std::string& text, const std::string& name, const ConfigOptions& options) {
  TomlTable file = TomlTable::parse(text, name);
  if (!options.preset.empty()) {
    for (std::size_t r = 0; r < kRoles; ++r) {
      file.erase(fmt::format("memory.{}", to_string(static_cast<Role>(r))));
    }
    file.erase("memory.error_feedback");
    file.set("memory.preset=" + toml_string(options.preset), "--preset " + options.preset);
  }
  if (!options.rounding.empty()) {
    file.set("memory.rounding=" + toml_string(options.rounding), "--rounding " + options.rounding);
  }
  for (const std::string& setting : options.settings) {
    check_setting(setting);
    file.set(setting, "--set " + setting);
  }
  // A length in epochs that was asked for replaces one in steps that the file has.
  const auto given = [&](std::string_view key) {
    return std::any_of(options.settings.begin(), options.settings.end(),
                       [&](const std::string& s) { return s.starts_with(key); });
  };
  if (given("train.epochs=") && !given("train.steps=")) file.erase("train.steps");
  return file;
}

}  // namespace

RunConfig parse_config(const std::string& text, const std::string& name, const ConfigOptions& options) {
  const TomlTable file = changed_file(text, name, options);
  RunConfig config;
  config.policy = make_policy("fp32");
  Reader reader(file);
  config_keys::visit(reader, config);
  file.refuse_unknown(config_keys::kOtherWords);
  // Without a text of its own, any other may be evaluated later: bytes have no unknown characters.
  if (config.data.set == "text" && config.data.text.path.empty() && !file.table("data").has("tokenizer")) {
    config.data.text.tokenizer = "bytes";
  }
  if (reader.rounding()) set_rounding(config.policy, *reader.rounding());
  check(config, file);
  return config;
}

RunConfig load_config(const std::string& path, const ConfigOptions& options) {
  return parse_config(read_toml(path), path, options);
}

}  // namespace lpmm
