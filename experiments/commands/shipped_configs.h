// The configurations that come with the program, by name: those of the source tree it was built in, or of
// the folder it was installed to.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lpmm {

// Returns the names in alphabetical order; none if the configurations are not found.
std::vector<std::string> shipped_config_names();

// A path as it was given, where that is a file or cannot be a name; else the file of the shipped
// configuration of that name ("resnet8_drawn"). Throws UsageError where there is neither, and for data.
std::string find_config(const std::string& path_or_name);

// The pages that come with the program, below this folder; empty where that is not found.
std::filesystem::path folder_of_pages();
inline constexpr std::string_view kPages[] = {"README.md",
                                              "experiments/README.md",
                                              "experiments/zoo/README.md",
                                              "experiments/optimizers/README.md",
                                              "lpmm/README.md",
                                              "lpmm/EMBEDDING.md",
                                              "lpmm/RECIPES.md",
                                              "lpmm/memory/README.md"};

}  // namespace lpmm
