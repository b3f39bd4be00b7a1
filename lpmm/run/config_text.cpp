// A configuration as text: TOML, differences, the list of all keys.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/roles.h"
#include "lpmm/program/family.h"
#include "lpmm/run/config.h"
#include "lpmm/run/config_keys.h"

namespace lpmm {
namespace {

using config_keys::Choices;

struct Line {
  std::string section, key, value, range, help;
};

std::vector<std::string_view> families_with(std::string_view key, const FamilyList& families) {
  std::vector<std::string_view> names;
  for (const Family& family : families.rows) {
    const bool has = std::any_of(family.settings.begin(), family.settings.end(),
                                 [&](const ModelSetting& s) { return s.key == key; });
    if (has) names.push_back(family.name);
  }
  return names;
}

std::string range_of(const ModelSetting& s) {
  if (std::holds_alternative<bool>(s.standard)) return "true or false";
  const double low = lowest(s);
  if (std::holds_alternative<double>(s.standard)) return range_text(low, s.high);
  if (std::holds_alternative<std::vector<double>>(s.standard)) return "list, each " + range_text(low, s.high);
  const std::string range = range_text(static_cast<std::int64_t>(low), static_cast<std::int64_t>(s.high));
  return std::holds_alternative<std::int64_t>(s.standard) ? range : "list, each " + range;
}

// The texts of some rules, each with the rules that have it: "1e-08 with adam, adamw; 1e-06 with lamb".
struct TextsOfRules {
  std::vector<std::pair<std::string, std::vector<std::string_view>>> all;

  template <class Text>
  TextsOfRules(std::span<const std::string_view> rules, const Text& text_of) {
    for (const std::string_view rule : rules) {
      const std::string text = text_of(rule_row(RuleName::find(rule).value()));
      auto found = std::find_if(all.begin(), all.end(), [&](const auto& t) { return t.first == text; });
      if (found == all.end()) found = all.insert(found, {text, {}});
      found->second.push_back(rule);
    }
  }
  std::string said(fmt::format_string<const std::string&, std::string> each) const {
    std::vector<std::string> parts;
    for (const auto& [text, rules] : all) parts.push_back(fmt::format(each, text, join(rules)));
    return fmt::format("{}", fmt::join(parts, "; "));
  }
};

// Collects (section, key, value) in order; lists of tables become inline tables of one line each.
class Writer {
 public:
  // `lists_all`: also what has no value, and the keys of a list in place of its items. `all_rules`: settings
  // of all rules, not of the one that is chosen.
  explicit Writer(bool lists_all, bool all_rules = false) : lists_all_(lists_all), all_rules_(all_rules) {}
  std::vector<Line> lines;

  void section(std::string_view name) { section_ = name; }
  void model(const ModelConfig& model, const FamilyList& families) {
    if (lists_all_) return list_families(families);
    add("name", toml_string(model.name), "", "");
    for (const auto& [key, value] : model.settings) add(key, to_text(value), "", "");
  }
  void text(std::string_view key, const std::string& v, std::string_view help) {
    add(key, toml_string(v), "text", help);
  }
  void boolean(std::string_view key, bool v, std::string_view help) {
    add(key, v ? "true" : "false", "true or false", help);
  }
  template <class T>
  void integer(std::string_view key, T v, std::int64_t low, std::int64_t high, std::string_view help) {
    add(key, fmt::format("{}", v), range_text(low, high), help);
  }
  void number(std::string_view key, double v, double low, double high, std::string_view help) {
    add(key, fmt::format("{}", v), range_text(low, high), help);
  }
  void integers(std::string_view key, const std::vector<std::int64_t>& v, std::int64_t low, std::int64_t high,
                std::string_view help) {
    add(key, fmt::format("[{}]", fmt::join(v, ", ")), "list, each " + range_text(low, high), help);
  }
  void numbers(std::string_view key, const std::vector<double>& v, double low, double high,
               std::string_view help) {
    add(key, fmt::format("[{}]", fmt::join(v, ", ")), "list, each " + range_text(low, high), help);
  }
  template <class T>
  void choice(std::string_view key, const T& v, const Choices<T>& names, std::string_view help) {
    const auto at = std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.second == v; });
    std::vector<std::string_view> words;
    for (const auto& [name, item] : names) words.push_back(name);
    add(key, at == names.end() ? "" : toml_string(at->first), join(words), help);
  }
  void learning_rate(const OptimizerConfig& o, double low, double high, std::string_view help) {
    if (!all_rules_) return number("learning_rate", peak_rate(o), low, high, help);
    const TextsOfRules rates(rule_names(),
                             [](const RuleRow& r) { return fmt::format("{}", r.learning_rate); });
    add("learning_rate", "", range_text(low, high),
        fmt::format("{}; not given: {}", help, rates.said("{} with {}")));
  }
  // The rule's settings, or those of every rule with the rules that have them.
  void settings(const OptimizerConfig& o) {
    for (const SettingRow& row : all_rules_ ? all_settings() : rule_row(o.rule).settings) {
      const auto text = [&](double v) {
        return row.is_switch ? (v != 0 ? "true" : "false") : fmt::format("{}", v);
      };
      std::string value, help(row.help);
      if (all_rules_) {
        const auto rules = rules_with(row.key);
        const auto in = [&](const RuleRow& r) { return *find_setting(r, row.key); };
        const TextsOfRules usual(rules, [&](const RuleRow& r) { return text(in(r).usual); });
        const TextsOfRules helps(rules, [&](const RuleRow& r) { return std::string(in(r).help); });
        help = helps.said("{1}: {0}");
        value = usual.all.size() == 1 ? usual.all.front().first : "";
        if (value.empty()) help += "; not given: " + usual.said("{} with {}");
      } else {
        value = text(setting(o, row.key));
      }
      add(row.key.text(), value, row.is_switch ? "true or false" : range_text(row.range.low, row.range.high),
          help);
    }
  }
  void spec(Role role, const std::optional<Spec>& v, std::string_view help) {
    if (v || lists_all_) {
      add(to_string(role), v ? toml_string(to_string(role, *v)) : "", spec_choices(role), help);
    }
  }
  void policy(const Policy& policy, const OptimizerConfig& optimizer) {
    add("preset", toml_string(policy.preset), join(preset_names()), "memory policy that the rest changes");
    for (const Role role : kEveryElementRole) {
      if (!lists_all_ && is_state(role) && !uses(optimizer, role)) continue;
      const bool is_accumulator = role == Role::kAccumulator;
      std::string value = to_string(role, policy.specs[role]);
      if (is_accumulator && policy.accumulate_in_momentum) value = kInMomentum;
      if (is_accumulator && policy.apply_at_once) value = kNoAccumulator;
      add(to_string(role), toml_string(value),
          is_accumulator ? "a spec, \"momentum\" or \"none\"" : spec_choices(role),
          role == Role::kCompensation ? "spec of what rounding parameters leaves, which updates add again"
                                      : "spec of this role (default: the preset's)");
    }
    if (lists_all_ || policy.average > 0) {
      add(kAverageName, toml_string(to_string(policy.average_spec)), "a spec, int8:block128:qr:sticky",
          "spec of the average that train.average keeps (default: this, or fp32 where parameters are fp32)");
    }
    if (lists_all_) {
      choice("rounding", std::optional<Rounding>(), config_keys::rounding_choices(),
             "of all roles and overrides (default: each spec's own)");
    }
  }
  template <class T, class Body>
  void list(std::string_view key, const std::vector<T>& items, const Body& body) {
    if (lists_all_) {
      Writer names(true, all_rules_);
      names.section_ = fmt::format("{}.{}", section_, key);
      const T defaults{};
      body(names, defaults);
      lines.insert(lines.end(), names.lines.begin(), names.lines.end());
      return;
    }
    std::vector<std::string> tables;
    for (const T& item : items) {
      Writer inner(false);
      body(inner, item);
      std::vector<std::string> pairs;
      for (const Line& l : inner.lines) pairs.push_back(fmt::format("{} = {}", l.key, l.value));
      tables.push_back(fmt::format("{{ {} }}", fmt::join(pairs, ", ")));
    }
    if (!tables.empty()) add(key, fmt::format("[{}]", fmt::join(tables, ", ")), "", "");
  }

 private:
  // The settings of all families; those that several share once.
  void list_families(const FamilyList& families) {
    std::vector<std::string_view> names;
    for (const Family& family : families.rows) {
      for (const NamedModel& m : family.models) names.push_back(m.name);
    }
    add("name", toml_string(families.standard), join(names),
        "which model; it decides which of these there are");
    std::vector<std::string_view> listed;
    for (const Family& family : families.rows) {
      for (const ModelSetting& s : family.settings) {
        if (std::find(listed.begin(), listed.end(), s.key) != listed.end()) continue;
        listed.push_back(s.key);
        add(s.key, to_text(s.standard), range_of(s),
            fmt::format("{}: {}", join(families_with(s.key, families)), s.help));
      }
    }
  }
  static std::string spec_choices(Role role) {
    return role == Role::kCompensation ? "a spec, int8:block128:rn, or \"none\"" : "a spec, int8:block128:sr";
  }
  void add(std::string_view key, std::string value, std::string range, std::string_view help) {
    lines.push_back({section_, std::string(key), std::move(value), std::move(range), std::string(help)});
  }
  bool lists_all_, all_rules_;
  std::string section_;
};

std::vector<Line> lines_of(const RunConfig& config, bool lists_all = false, bool all_rules = false) {
  Writer writer(lists_all, all_rules);
  config_keys::visit(writer, config);
  return std::move(writer.lines);
}

constexpr std::size_t kSealDigits = 8;

std::string seal_of(std::string_view text) {
  return fmt::format("{:08x}", crc32(text));
}

}  // namespace

std::string to_toml(const RunConfig& config) {
  std::string out, section;
  for (const Line& line : lines_of(config)) {
    if (line.section != section) {
      out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", line.section);
      section = line.section;
    }
    out += fmt::format("{} = {}\n", line.key, line.value);
  }
  return out;
}

std::optional<Seal> read_seal(const std::string& text) {
  const std::size_t at = text.rfind(kSeal);
  const bool is_line = at != std::string::npos && (at == 0 || text[at - 1] == '\n');
  if (!is_line || text.size() - at < kSeal.size() + kSealDigits) return {};
  return Seal{text.substr(at + kSeal.size(), kSealDigits), seal_of(text.substr(0, at))};
}

std::string sealed_config(const RunConfig& config) {
  const std::string text = to_toml(config);
  if (const std::size_t bad = first_bad_byte(text); bad != std::string::npos) {
    const std::size_t begin = text.rfind('\n', bad) + 1;
    throw UsageError(fmt::format("{}: is no UTF-8 text, which a run's config is; rename the file or folder",
                                 printable(text.substr(begin, text.find('\n', bad) - begin))));
  }
  return fmt::format("{}\n{}{}: of the lines above. Remove this line where you edit them.\n", text, kSeal,
                     seal_of(text + '\n'));
}

std::vector<ConfigDifference> differences(const RunConfig& first, const RunConfig& second) {
  std::map<std::string, ConfigDifference> all;
  for (const Line& l : lines_of(first)) all[l.section + "." + l.key].first = l.value;
  for (const Line& l : lines_of(second)) all[l.section + "." + l.key].second = l.value;
  std::vector<ConfigDifference> out;
  for (auto& [key, d] : all) {
    if (d.first != d.second) out.push_back({key, d.first, d.second});
  }
  // First those that decide which others there are.
  std::stable_partition(out.begin(), out.end(), [](const ConfigDifference& d) {
    return d.key == "optimizer.rule" || d.key == "model.name";
  });
  return out;
}

std::vector<ConfigKey> all_config_keys(const FamilyList& families, std::optional<RuleName> rule) {
  RunConfig config;
  config.families = &families;
  if (rule) config.optimizer.rule = *rule;
  config.policy = make_policy(kPlainPreset);
  std::vector<ConfigKey> keys;
  for (Line& l : lines_of(config, true, !rule)) {
    keys.push_back({l.section + "." + l.key, std::move(l.value), std::move(l.range), std::move(l.help)});
  }
  return keys;
}

}  // namespace lpmm
