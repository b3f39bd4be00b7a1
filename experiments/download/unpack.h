// Files out of a .tar.gz or a .zip, by libarchive.
#pragma once

#include <string>
#include <vector>

#include "experiments/download/data_sets.h"

namespace lpmm {

// Writes `files`, which lie in `folder` of the archive at `path`, called `name` in messages, into the folder
// `to`, synced; nothing else is taken out of it. Throws RunError where one is missing or of another size, or
// where the archive holds links, devices or paths that lead out of it; Interrupted.
void unpack(const std::string& path, const std::string& name, const std::string& folder,
            const std::vector<DataFile>& files, const std::string& to);

}  // namespace lpmm
