// One file from one address, by libcurl.
#pragma once

#include <string>

#include "experiments/download/data_sets.h"
#include "lpmm/base/error.h"
#include "lpmm/base/progress.h"

namespace lpmm {

// No answer, a broken one, or one that is an error.
class Unreachable : public RunError {
 public:
  using RunError::RunError;
};

// Writes what is at `address` (http or https) to `path`, synced. Throws Unreachable; RunError where the
// length or the checksum is not that of `expected`; Interrupted. What is at `path` then is of no use. A
// connection that gives next to nothing for `patience` seconds counts as broken.
void fetch(const std::string& address, const DataFile& expected, const std::string& path, long patience,
           Progress& progress);

}  // namespace lpmm
