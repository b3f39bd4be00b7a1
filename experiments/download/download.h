// Public data sets, from their addresses into the folder that the program reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/download/data_sets.h"
#include "lpmm/base/progress.h"

namespace lpmm {

struct DownloadOptions {
  std::string folder;  // the folder of all data sets
  std::string mirror;  // http or https; replaces the address below which a set's files lie
  long patience = 30;  // seconds without an answer, or with next to none
};

struct Downloaded {
  std::vector<std::string> files;    // the new ones
  std::vector<std::string> present;  // those that were there before
  std::int64_t bytes = 0;            // received over the network
};

// Brings what is missing of `set`. A file appears whole and checked, an archive's folder with all its files,
// or not at all; nothing that is there is changed. A
// download that broke off goes on where it ended. Throws RunError in one line that says what to do, and
// Interrupted.
Downloaded download(const DataSet& set, const DownloadOptions& options, Progress& progress);

}  // namespace lpmm
