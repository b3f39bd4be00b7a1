// `lpmm config`: every key that a configuration may have.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "experiments/commands/arguments.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/text.h"
#include "lpmm/files/toml_table.h"
#include "lpmm/memory/rules.h"
#include "lpmm/run/config_keys.h"
#include "models/families.h"

namespace lpmm {
namespace {

struct ConfigListArguments {
  std::string word, rule;
  bool json = false;
};

std::vector<ConfigKey> keys_with(const std::string& rule) {
  if (rule.empty()) return all_config_keys(families());
  const std::optional<RuleName> name = RuleName::find(rule);
  if (name) return all_config_keys(families(), name);
  throw UsageError(fmt::format("--rule {}: there are {}{}", rule, join(rule_names()),
                               did_you_mean(nearest_name(rule, rule_names()))));
}

// The keys that have the word in their name, else the one that it may have been meant for.
std::vector<ConfigKey> matching(const std::string& word, const std::string& rule) {
  const std::vector<ConfigKey> all = keys_with(rule);
  std::vector<ConfigKey> found;
  std::vector<std::string_view> names;
  for (const ConfigKey& key : all) {
    names.push_back(key.name);
    if (key.name.find(word) != std::string::npos) found.push_back(key);
  }
  if (!found.empty()) return found;
  const std::string_view nearest = nearest_key(word, names, config_keys::kOtherWords);
  if (nearest.empty()) throw UsageError(fmt::format("no key of a config has \"{}\" in its name", word));
  for (const ConfigKey& key : all) {
    if (key.name == nearest) found.push_back(key);
  }
  return found;
}

// Prints a comment on each rule.
void print_rule_comments() {
  for (const std::string_view name : rule_names()) {
    fmt::print("# {:<14} {}\n", name, rule_row(RuleName::find(name).value()).help);
  }
}

void print_keys(const std::vector<ConfigKey>& keys) {
  std::string section;
  for (const ConfigKey& key : keys) {
    const std::size_t dot = key.name.rfind('.');
    const std::string of = key.name.substr(0, dot), name = key.name.substr(dot + 1);
    if (of != section) {
      const bool is_list = of.find('.') != std::string::npos;
      fmt::print("{}{}\n", section.empty() ? "" : "\n",
                 is_list ? fmt::format("[[{}]]  # any number of them", of) : fmt::format("[{}]", of));
      section = of;
    }
    if (key.name == "optimizer.rule") print_rule_comments();
    const std::string value = key.default_value.empty() ? "..." : key.default_value;
    fmt::print("{:<34} # {} ({})\n", fmt::format("{} = {}", name, value), key.help, key.range);
  }
}

int run_config_list(const ConfigListArguments& o) {
  const std::vector<ConfigKey> keys = matching(o.word, o.rule);
  if (!o.json) {
    print_keys(keys);
    return kDone;
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ConfigKey& key : keys) {
    rows.push_back(
        {{"key", key.name}, {"default", key.default_value}, {"range", key.range}, {"help", key.help}});
  }
  print_answer({{"keys", rows}}, true);
  return kDone;
}

}  // namespace

void add_config_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<ConfigListArguments>();
  CLI::App* command = program.add_subcommand("config", "List every key of a configuration, with its default");
  command->add_option("WORD", o->word, "only the keys that have this in their name, or the nearest one");
  command->add_option("--rule", o->rule, "settings and defaults of this optimizer.rule; else of all");
  command->add_flag("--json", o->json, "print one JSON object: keys with default, range, help");
  command->footer(R"(Printed as in a file, with defaults; after # what it is for, and what it may be. A key is
changed in the file, or by --set SECTION.KEY=VALUE.
Examples:
  lpmm config
  lpmm config learning_rate
  lpmm config optimizer --rule lamb
  lpmm train resnet8_drawn --set optimizer.learning_rate=0.05 --out runs/slow)");
  on_selected(*command, action, o, run_config_list);
}

}  // namespace lpmm
