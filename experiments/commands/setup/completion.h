// Finds the words that may come next on the command line, for shells.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lpmm {

// `words` follow the program's name; the last one, which may be empty, is still being typed. Words that end
// in '=' go on. Empty where the name of a file is expected, or nothing.
std::vector<std::string> completions(const CLI::App& program, const std::vector<std::string>& words);

}  // namespace lpmm
