// Help on words that a person asks about, rather than on a command.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lpmm {

// Prints what has all `words` in it, upper or lower case, with hyphens or without: commands with their
// options, keys of configurations, shipped configurations, sections of the pages that come with the program.
// Throws UsageError where nothing has.
void print_help_on(const CLI::App& program, const std::vector<std::string>& words);

}  // namespace lpmm
