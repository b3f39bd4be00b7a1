// `lpmm completion`: scripts that let a shell complete what is typed. They ask `lpmm complete WORD...`, so
// that they never lag behind the program.
#include "experiments/commands/setup/completion.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/commands/arguments.h"
#include "experiments/commands/shipped_configs.h"
#include "experiments/download/data_sets.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/memory/policy.h"
#include "models/families.h"

namespace lpmm {
namespace {

struct CompletionArguments {
  std::string shell;
};

constexpr const char* kBash = R"sh(# Completion of lpmm in bash. To use it:
#   source <(lpmm completion bash)          or append that line to ~/.bashrc
_lpmm() {
  mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace; fi
}
complete -o default -F _lpmm lpmm
)sh";

constexpr const char* kZsh = R"sh(#compdef lpmm
# Completion of lpmm in zsh. To use it:
#   source <(lpmm completion zsh)           or append that line to ~/.zshrc, after compinit
_lpmm() {
  local -a found
  found=(${(f)"$("$words[1]" complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found == 0 )); then
    _files
  elif [[ $found[1] == *= ]]; then
    compadd -S '' -- $found
  else
    compadd -- $found
  fi
}
compdef _lpmm lpmm
)sh";

constexpr const char* kFish = R"sh(# Completion of lpmm in fish. To use it:
#   lpmm completion fish > ~/.config/fish/completions/lpmm.fish
function __lpmm_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete $words[2..-1] 2>/dev/null
end
complete -c lpmm -a '(__lpmm_complete)'
)sh";

int run_completion(const CompletionArguments& o) {
  fmt::print("{}", o.shell == "bash" ? kBash : o.shell == "zsh" ? kZsh : kFish);
  return kDone;
}

using Words = std::vector<std::string>;

template <class Names>
Words starting_with(const std::string& begin, const Names& names, const char* end = "") {
  Words out;
  for (const auto& name : names) {
    if (std::string_view(name).starts_with(begin)) out.push_back(std::string(name) + end);
  }
  return out;
}

Words command_names(const CLI::App& app) {
  Words out;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) out.push_back(command->get_name());
  }
  return out;
}

Words key_names() {
  Words out;
  for (const ConfigKey& key : all_config_keys(families())) {
    const bool of_list = std::count(key.name.begin(), key.name.end(), '.') > 1;
    if (!of_list) out.push_back(key.name);
  }
  return out;
}

// Returns the values that an option may take, if they are names.
Words values_of(const std::string& option, const std::string& begin) {
  if (option == "--preset" || option == "--presets" || option == "--baseline") {
    return starting_with(begin, preset_names());
  }
  if (option == "--rule") return starting_with(begin, rule_names());
  if (option == "--set" || option == "--axis") return starting_with(begin, key_names(), "=");
  if (option == "--rounding") return starting_with(begin, kCommonRoundings);
  if (option == "--type") return starting_with(begin, Words{"fp32", "bf16"});
  if (option == "--config") return starting_with(begin, shipped_config_names());
  return {};
}

Words options_of(const CLI::App& app) {
  Words out;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
  }
  return out;
}

// Returns the words that may be a command's first argument, if it is a name.
Words arguments_of(const CLI::App& app, const std::string& begin) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (name == "CONFIG") return starting_with(begin, shipped_config_names());
    if (name == "SHELL") return starting_with(begin, Words{"bash", "zsh", "fish"});
    if (name == "WORD") return starting_with(begin, key_names());
    if (name == "NAME") return starting_with(begin, data_set_names());
  }
  return {};
}

bool takes_value(const CLI::App& app, const std::string& option) {
  const CLI::Option* found = option.starts_with("--") ? app.get_option_no_throw(option) : nullptr;
  return found != nullptr && found->get_items_expected_max() > 0;
}

}  // namespace

std::vector<std::string> completions(const CLI::App& program, const std::vector<std::string>& words) {
  const std::string begin = words.empty() ? "" : words.back();
  const CLI::App* app = &program;
  std::string last;  // the word before, without the '=' that bash makes a word of its own
  int arguments = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const CLI::App* inner = nullptr;
    for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
      if (command->get_name() == words[i]) inner = command;
    }
    const bool is_value = takes_value(*app, last);
    if (words[i] == "=") continue;
    last = words[i];
    if (inner != nullptr) {
      app = inner;
    } else if (!is_value && !last.starts_with("-") && !(app == &program && last == "help")) {
      ++arguments;
    }
  }
  if (begin == "=") return takes_value(*app, last) ? values_of(last, "") : Words{};
  if (takes_value(*app, last)) return values_of(last, begin);
  if (begin.starts_with("-")) return starting_with(begin, options_of(*app));
  Words commands = command_names(*app);
  if (app == &program && last.empty()) commands.emplace_back("help");
  if (!commands.empty()) return starting_with(begin, commands);
  return arguments == 0 ? arguments_of(*app, begin) : Words{};
}

void add_completion_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<CompletionArguments>();
  CLI::App* command =
      program.add_subcommand("completion", "Print a script that completes lpmm in your shell");
  command->add_option("SHELL", o->shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
  command->footer(
      R"(Completes commands, options, presets, configurations that come with lpmm, and keys after --set.
Examples:
  source <(lpmm completion bash)
  lpmm completion fish > ~/.config/fish/completions/lpmm.fish)");
  on_selected(*command, action, o, run_completion);
}

}  // namespace lpmm
