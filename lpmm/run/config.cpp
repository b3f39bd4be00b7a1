#include "lpmm/run/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/memory/roles.h"
#include "lpmm/program/family.h"
#include "lpmm/run/config_keys.h"
#include "lpmm/run/settings/foreign_keys.h"

namespace lpmm {
namespace {

using config_keys::Choices;

// Each call takes one key of the section.
class ConfigReader {
 public:
  explicit ConfigReader(const TomlTable& table) : root_(table), table_(table) {}
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
  void choice(std::string_view key, T& out, const Choices<T>& names, std::string_view) {
    std::vector<std::string_view> words;
    for (const auto& [name, item] : names) words.push_back(name);
    if (const auto at = table_.choice(key, words)) out = names[*at].second;
  }
  void learning_rate(OptimizerConfig& out, double low, double high, std::string_view) {
    out.learning_rate = table_.number("learning_rate", low, high).value_or(peak_rate(out));
  }
  // Settings of other rules are read and dropped: foreign_keys() knows which of them may be there.
  void settings(OptimizerConfig& out) {
    for (const SettingRow& row : all_settings()) {
      const std::string_view key = row.key.text();
      std::optional<double> given;
      if (row.is_switch) {
        put(table_.boolean(key), given);
      } else {
        put(table_.number(key, row.range.low, row.range.high), given);
      }
      if (given && has_setting(out, row.key)) out.settings[row.key] = *given;
    }
  }
  void spec(Role role, std::optional<Spec>& out, std::string_view) {
    const std::string_view key = to_string(role);
    const auto text = table_.text(key);
    if (!text) return;
    if (role == Role::kAccumulator && (*text == kInMomentum || *text == kNoAccumulator)) {
      table_.refuse(key, fmt::format("\"{}\" is for all tensors: say it as memory.accumulator", *text));
    }
    guard(key, [&] {
      try {
        out = parse_spec(role, *text);
      } catch (const UsageError& e) {
        if (role == Role::kCompensation) {
          throw UsageError(fmt::format("{}, or \"{}\"", e.what(), kNoCompensation));
        }
        if (role != Role::kAccumulator) throw;
        throw UsageError(fmt::format("{}, \"{}\" or \"{}\"", e.what(), kInMomentum, kNoAccumulator));
      }
    });
  }
  void policy(Policy& out, const OptimizerConfig& optimizer) {
    if (const auto preset = table_.text("preset")) {
      guard("preset", [&] { out = make_policy(*preset, optimizer); });
    }
    // Error feedback is the preset's where the parameter and what carries its errors are, and nothing else
    // does.
    for (const Role r : kEveryElementRole) {
      const std::string_view key = to_string(r);
      if (r == Role::kAccumulator && table_.has(key)) {
        out.accumulate_in_momentum = table_.holds(key, kInMomentum);
        out.apply_at_once = table_.holds(key, kNoAccumulator);
        if (out.accumulate_in_momentum || out.apply_at_once) continue;
      }
      std::optional<Spec> given;
      spec(r, given, "");
      if (given) out.specs[r] = *given;
      const bool replaces = r == Role::kCompensation && has_compensation(out.specs);
      if (given && (r == Role::kParameter || r == Role::kMomentum || replaces)) out.error_feedback = false;
    }
    if (const auto text = table_.text(kAverageName)) {
      guard(kAverageName, [&] { out.average_spec = parse_spec(*text); });
    }
    for (const Rounding r : {Rounding::kUpdate, Rounding::kAverage}) {
      if (!table_.holds("rounding", to_string(r))) continue;
      table_.refuse(
          "rounding",
          fmt::format("memory.rounding is of all roles, and {} is for a variance on a format without 0: "
                      "say it there, as memory.variance = \"sqrt08:block128:{}:sticky\"",
                      to_string(r), to_string(r)));
    }
    choice("rounding", rounding_, config_keys::rounding_choices(), "");
    if (rounding_ && *rounding_ != out.specs[Role::kParameter].rounding) out.error_feedback = false;
  }
  // The name decides which settings there are.
  void model(ModelConfig& out, const FamilyList& families) {
    const std::string name = table_.text("name").value_or(std::string(families.standard));
    guard("name", [&] { out = families.config(name); });
    for (const ModelSetting& s : out.family->settings) {
      if (auto given = setting(s)) out.set(s.key, std::move(*given));
    }
    for (const Family& other : families.rows) {
      for (const ModelSetting& s : other.settings) refuse_foreign(out, s);
    }
  }
  // Asked for by memory.rounding; applied when the overrides are known too.
  std::optional<Rounding> rounding() const { return rounding_; }

  template <class T, class Body>
  void list(std::string_view key, std::vector<T>& out, const Body& body) {
    T unused;
    ConfigReader names(table_.no_item(key));
    body(names, unused);
    if (table_.has(key)) out.clear();
    for (const TomlTable& item : table_.tables(key)) {
      ConfigReader reader(item);
      T entry;
      body(reader, entry);
      item.refuse_unknown(config_keys::kOtherWords);
      const auto [word, said] = config_keys::needed(entry);
      if (said.empty()) item.refuse(fmt::format("{} needs a {}", table_.full_name(key), word));
      out.push_back(std::move(entry));
    }
  }

 private:
  template <class Given, class T>
  static void put(const std::optional<Given>& given, T& out) {
    if (given) out = static_cast<T>(*given);
  }
  std::optional<SettingValue> setting(const ModelSetting& s) const {
    const double low = lowest(s);
    const auto whole_low = static_cast<std::int64_t>(low), whole_high = static_cast<std::int64_t>(s.high);
    const bool is_old = !s.old_key.empty() && table_.has(s.old_key);
    if (is_old && table_.has(s.key)) table_.refuse(s.old_key, fmt::format("is given as {} too", s.key));
    const std::string_view key = is_old ? s.old_key : s.key;
    std::optional<SettingValue> given;
    if (std::holds_alternative<bool>(s.standard)) put(table_.boolean(key), given);
    if (std::holds_alternative<std::int64_t>(s.standard)) {
      put(table_.integer(key, whole_low, whole_high), given);
    }
    if (std::holds_alternative<double>(s.standard)) put(table_.number(key, low, s.high), given);
    if (std::holds_alternative<std::vector<std::int64_t>>(s.standard)) {
      put(table_.integers(key, whole_low, whole_high), given);
    }
    if (std::holds_alternative<std::vector<double>>(s.standard)) put(table_.numbers(key, low, s.high), given);
    return given;
  }
  // Files written before families had settings of their own hold those of all, at their defaults.
  void refuse_foreign(const ModelConfig& model, const ModelSetting& foreign) const {
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : model.settings) keys.push_back(key);
    if (!table_.has(foreign.key) || std::find(keys.begin(), keys.end(), foreign.key) != keys.end()) return;
    if (setting(foreign) == foreign.standard) return;
    table_.refuse(foreign.key, fmt::format("{} is no setting of {}, which has {}",
                                           table_.full_name(foreign.key), model.name, join(keys)));
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
    file.refuse(
        said ? "train.microbatches" : "train.batch",
        fmt::format("train.batch = {} is not divisible by train.microbatches = {}; a number that "
                    "divides it: --set train.microbatches={}",
                    c.train.batch, c.train.microbatches, std::gcd(c.train.batch, c.train.microbatches)));
  }
  if (c.train.epochs == 0 && c.train.steps == 0) {
    file.refuse("train.epochs", "set train.epochs or train.steps to how long to train");
  }
  if (!std::is_sorted(c.schedule.milestones.begin(), c.schedule.milestones.end())) {
    file.refuse("schedule.milestones", "schedule.milestones are shares of the run in ascending order");
  }
  if (c.train.average == 0 && file.table("memory").has(kAverageName)) {
    file.refuse("memory.average",
                "memory.average is the spec of an average of weights, which a run keeps with train.average = "
                "0.999 or so: set that, or leave memory.average out");
  }
  try {
    check_optimizer(c.optimizer);
    check_policy(c.policy, c.optimizer, {});
    check_momentum(c.policy, c.optimizer);
    check_at_once(c.policy, c.optimizer, c.train.microbatches);
    check_slots(c.policy, c.train.microbatches, {c.slots()});
    check_peaks(c.policy, c.optimizer);
    if (c.policy.keeps_peaks && (c.watch.every_steps == 0 || kStepsPerFall % c.watch.every_steps != 0)) {
      throw UsageError(fmt::format(
          "watch.every keeps peaks, which rise in steps that are measured and fall in every {}th: "
          "watch.every_steps is {}, but must be 1, 2, 4, 8 or 16",
          kStepsPerFall, c.watch.every_steps));
    }
  } catch (const UsageError& e) {
    file.refuse(e.what());
  }
}

// A key without its section, as in --set lr=0.1, is said in full.
void check_setting(const std::string& setting, const FamilyList& families) {
  const std::string word = setting.substr(0, setting.find('='));
  if (word.size() == setting.size() || word.empty() || word.find('.') != std::string::npos) return;
  const std::vector<ConfigKey> all = all_config_keys(families);
  std::vector<std::string_view> names;
  for (const ConfigKey& key : all) names.push_back(key.name);
  throw UsageError(fmt::format("--set {}: expected section.key=value{}", setting,
                               did_you_mean(nearest_key(word, names, config_keys::kOtherWords))));
}

void take_model(const ModelConfig& start, const FamilyList& families, TomlTable& file) {
  const TomlTable model = file.table("model");
  const auto name = model.text("name");
  if (name && *name == start.name) return;
  const Family& family = name ? families.find(*name) : *start.family;
  const bool is_same = family.name == start.family->name;
  if (!is_same && family.starts_from != start.family->name) return;
  for (const ModelSetting& s : family.settings) {
    if (!start.has(s.key) || model.has(s.key) || (!s.old_key.empty() && model.has(s.old_key))) continue;
    file.set(fmt::format("model.{}={}", s.key, to_text(start.value(s.key))), "--init");
  }
  if (is_same) file.set("model.name=" + toml_string(start.name), "--init");
}

// Returns true if one of the settings begins so: "memory.preset=".
bool gives(const std::vector<std::string>& settings, std::string_view begin) {
  return std::ranges::any_of(settings, [&](const std::string& s) { return s.starts_with(begin); });
}

// A model's name that the command line gives decides the sizes that names decide.
void clear_sizes(const FamilyList& families, const std::vector<std::string>& settings, TomlTable& file) {
  const auto name = file.table("model").text("name");
  if (!name) return;
  const ModelConfig usual = families.config(*name);
  for (const std::string& key : file.table("model").keys()) {
    const std::string full = "model." + key;
    const auto is_this = [&](const ModelSetting& s) { return s.key == key || s.old_key == key; };
    const auto known = std::ranges::find_if(usual.family->settings, is_this);
    const bool is_size = known != usual.family->settings.end() && usual.value(known->key) != known->standard;
    if (is_size && !gives(settings, full + "=")) file.erase(full);
  }
}

// The file with what the command line changes.
TomlTable changed_file(const std::string& text, const std::string& name, const ConfigOptions& options) {
  if (options.families == nullptr) throw std::logic_error("ConfigOptions::families: there are none");
  TomlTable file = TomlTable::parse(text, name);
  const auto given = [&](std::string_view key) { return gives(options.settings, key); };
  if (!options.preset.empty() || given("memory.preset=")) {  // a preset says all of these
    for (const Role role : kEveryElementRole) file.erase(fmt::format("memory.{}", to_string(role)));
    file.erase("memory.error_feedback");
    file.erase("memory.min_elements");
  }
  if (!options.preset.empty()) {
    file.set("memory.preset=" + toml_string(options.preset), "--preset " + options.preset);
  }
  if (!options.rounding.empty()) {
    file.set("memory.rounding=" + toml_string(options.rounding), "--rounding " + options.rounding);
  }
  for (const std::string& setting : options.settings) {
    check_setting(setting, *options.families);
    file.set(setting, "--set " + setting);
  }
  if (given("model.name=")) clear_sizes(*options.families, options.settings, file);
  if (options.start != nullptr) take_model(*options.start, *options.families, file);
  // A length in epochs that was asked for replaces one in steps that the file has.
  if (given("train.epochs=") && !given("train.steps=")) file.erase("train.steps");
  return file;
}

MeantOptimizers meant_optimizers(const OptimizerConfig& of_run, const std::string& text,
                                 const std::string& name, const ConfigOptions& options) {
  const std::optional<Seal> seal = read_seal(text);
  MeantOptimizers meant{of_run, of_run, name, seal && seal->saved == seal->found};
  if (options.settings.empty()) return meant;
  try {
    const TomlTable file = TomlTable::parse(text, name);
    RunConfig own;
    ConfigReader reader(file);
    config_keys::visit_optimizer(reader, own);
    meant.of_file = own.optimizer;
  } catch (const UsageError&) {  // the command line sets it right
  }
  return meant;
}

}  // namespace

RunConfig parse_config(const std::string& text, const std::string& name, const ConfigOptions& options) {
  const TomlTable file = changed_file(text, name, options);
  RunConfig config;
  config.families = options.families;
  config.policy = make_policy(kPlainPreset);
  ConfigReader reader(file);
  config_keys::visit(reader, config);
  file.refuse_unknown(config_keys::kOtherWords);
  if (const auto complete = task_of(config.model).complete)
    complete(config, file.table("data").has("tokenizer"));
  config.policy.average = config.train.average;
  if (reader.rounding()) set_rounding(config.policy, *reader.rounding());
  for (const ForeignKey& f : foreign_keys(file, meant_optimizers(config.optimizer, text, name, options))) {
    if (!f.of_run) f.table.refuse(f.key, f.why);
    config.left_out.push_back(f.table.full_name(f.key));
  }
  check(config, file);
  return config;
}

std::vector<std::string> foreign_settings(const std::string& path, const ConfigOptions& options) {
  const std::string text = read_toml(path);
  const TomlTable file = changed_file(text, path, options);
  RunConfig config;
  ConfigReader reader(file);
  config_keys::visit_optimizer(reader, config);
  std::vector<std::string> names;
  for (const ForeignKey& f : foreign_keys(file, meant_optimizers(config.optimizer, text, path, options))) {
    if (!f.of_run) names.push_back(f.table.full_name(f.key));
  }
  return names;
}

RunConfig load_config(const std::string& path, const ConfigOptions& options) {
  return parse_config(read_toml(path), path, options);
}

}  // namespace lpmm
