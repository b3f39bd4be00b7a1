// Pictures that a configuration names by their folder.
#pragma once

#include <string>

#include "lpmm/base/progress.h"
#include "lpmm/run/config.h"

namespace lpmm {

// If data.path leads to a folder of pictures or a table of them (picture_list.h), packs it below the data
// folder, unless that was done before with the same files, and sets data.path to the packed file. Squares are
// those of the run of `checkpoint`, if it is not empty and the run tells them; imports take the usual ones
// otherwise; a data.side that is not its default comes first. A packed file of that run that is gone is
// packed again, under its name if its bytes are the same, else with a warning. Throws what
// pack_images() throws, RunError if there is no data folder.
void pack_named_pictures(RunConfig& config, const std::string& checkpoint, Progress& progress);

}  // namespace lpmm
