// Pictures that a configuration names by their folder.
#pragma once

#include <string>

#include "lpmm/base/progress.h"
#include "lpmm/run/config.h"

namespace lpmm {

// Where data.path leads to a folder of pictures or a table of them (picture_list.h), packs it below the data
// folder, unless that was done before with the same files, and lets data.path lead to what was packed.
// Squares are as the run of `checkpoint` has them, where that is not empty and says it, of imports else the
// usual ones; a data.side that is not its default comes first. Throws what pack_images() throws, RunError
// where there is no data folder.
void pack_named_pictures(RunConfig& config, const std::string& checkpoint, Progress& progress);

}  // namespace lpmm
