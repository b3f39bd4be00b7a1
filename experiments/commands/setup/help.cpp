#include "experiments/commands/setup/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "experiments/commands/shipped_configs.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/run/config_keys.h"
#include "models/families.h"

namespace lpmm {
namespace {

constexpr std::size_t kMostShown = 12;  // findings of one kind
constexpr std::uint64_t kLongestPage = 1 << 20;

// Returns a text in the form in which words are compared.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '-' && c != '`') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

struct Finding {
  std::string where, what;
  bool is_named = false;  // a word is in its name, so that it comes first
};

// Findings of one kind.
class Findings {
 public:
  Findings(const std::vector<std::string>& words, std::string_view heading)
      : words_(words), heading_(heading) {}
  // `more` is looked through too, but not shown.
  void offer(std::string where, std::string what, std::string_view more = {}) {
    const std::string name = plain(where), all = name + " " + plain(what) + " " + plain(more);
    const auto in = [](const std::string& text) {
      return [&](const std::string& word) { return text.find(word) != std::string::npos; };
    };
    if (!std::ranges::all_of(words_, in(all))) return;
    found_.push_back({std::move(where), std::move(what), std::ranges::any_of(words_, in(name))});
  }
  // Returns true if there were any.
  bool print() {
    std::ranges::stable_sort(found_, {}, [](const Finding& f) { return !f.is_named; });
    if (!found_.empty()) fmt::print("{}\n", heading_);
    for (std::size_t i = 0; i < std::min(found_.size(), kMostShown); ++i) {
      fmt::print("  {:<32} {}\n", found_[i].where, found_[i].what);
    }
    if (found_.size() > kMostShown) fmt::print("  ... and {} more\n", found_.size() - kMostShown);
    return !found_.empty();
  }

 private:
  const std::vector<std::string>& words_;
  std::string_view heading_;
  std::vector<Finding> found_;
};

void offer_commands(const CLI::App& app, const std::string& name, Findings& found) {
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string own = fmt::format("{} {}", name, command->get_name());
    found.offer(own, command->get_description(), command->get_footer());
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_name() == "--help") continue;
      found.offer(fmt::format("{} {}", own, option->get_name()), option->get_description());
    }
    offer_commands(*command, own, found);
  }
}

void offer_keys(Findings& found) {
  for (const ConfigKey& key : all_config_keys(families())) {
    std::string others;
    for (const auto& [word, meant] : config_keys::kOtherWords) {
      if (meant == key.name) others += fmt::format(" {}", word);
    }
    found.offer(key.name, key.help, others);
  }
}

// The comment at the head of a configuration, as one line.
std::string first_comment(const std::string& text) {
  std::string comment;
  for (std::size_t at = 0; at < text.size() && text[at] == '#';) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    comment += text.substr(at + 1, end - at - 1);
    at = end + 1;
  }
  const std::size_t end = comment.find(':');
  return comment.substr(comment.empty() ? 0 : 1, end == std::string::npos ? end : end - 1);
}

void offer_configs(Findings& found) {
  for (const std::string& name : shipped_config_names()) {
    const std::string text = read_text(find_config(name), kLongestPage);
    found.offer(name, first_comment(text), text);
  }
}

// The sections of a page.
void offer_page(const std::filesystem::path& root, const std::filesystem::path& page, Findings& found) {
  const std::string text = read_text(page.string(), kLongestPage);
  std::string heading, section;
  const auto offer = [&] {
    if (!section.empty()) found.offer(page.lexically_relative(root).string(), heading, section);
    section.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with('#')) {
      offer();
      heading = line.substr(std::min(line.size(), line.find_first_not_of("# ")));
    }
    section += line + "\n";
  }
  offer();
}

void offer_pages(Findings& found) {
  namespace fs = std::filesystem;
  const fs::path root = folder_of_pages();
  if (root.empty()) return;
  for (const std::string_view page : kPages) {
    std::error_code none;
    if (fs::is_regular_file(root / page, none)) offer_page(root, root / page, found);
  }
}

}  // namespace

void print_help_on(const CLI::App& program, const std::vector<std::string>& given) {
  std::vector<std::string> words;
  std::istringstream said(fmt::format("{}", fmt::join(given, " ")));
  for (std::string word; said >> word;) {
    words.push_back(plain(word));  // without an ending: "finetune" also finds fine-tuning, "presets" a preset
    if (words.back().size() > 4 && (word.back() == 'e' || word.back() == 's')) words.back().pop_back();
  }
  bool any = false;
  const auto search = [&](std::string_view heading, const auto& offer) {
    Findings found(words, heading);
    offer(found);
    any = found.print() || any;
  };
  search("Commands (lpmm help COMMAND)", [&](Findings& found) { offer_commands(program, "lpmm", found); });
  search("Keys of a configuration (lpmm config KEY)", offer_keys);
  search("Configurations (lpmm train NAME)", offer_configs);
  search("Pages", offer_pages);
  if (!any) {
    std::vector<std::string_view> names;
    for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
    throw UsageError(fmt::format("nothing has {} in it; `lpmm` lists the commands, `lpmm config` all keys{}",
                                 fmt::join(given, " and "), did_you_mean(nearest_name(given[0], names))));
  }
}

}  // namespace lpmm
