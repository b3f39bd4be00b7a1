// The configurations that come with the program, by name: those of the source tree it was built in, or of
// the folder it was installed to.
#pragma once

#include <string>
#include <vector>

namespace lpmm {

// In order of the alphabet; empty where they are not found.
std::vector<std::string> shipped_config_names();

// A path as it was given, where that is a file or folder or cannot be a name; else the file of the shipped
// configuration of that name ("resnet8_drawn"). Throws UsageError where there is neither.
std::string find_config(const std::string& path_or_name);

}  // namespace lpmm
