// One file from one address, by libcurl.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/download/data_sets.h"
#include "lpmm/base/error.h"
#include "lpmm/base/progress.h"
#include "lpmm/files/files.h"

namespace lpmm {

// No answer, a broken one, or one that is an error.
class Unreachable : public RunError {
 public:
  using RunError::RunError;
};

// Downloads `address` (http or https) to the end of `part`, which lies at `path`, until it is `expected`, and
// syncs it. Bytes that are there already are not requested again if they are the beginning of that file and
// the server sends ranges; else they are cut off. Returns the bytes that came. Throws Unreachable or
// Interrupted, after which it can be resumed; RunError if the length or the checksum is not that of
// `expected`. A connection that gives next to nothing for `patience` seconds counts as broken.
std::int64_t fetch(const std::string& address, const DataFile& expected, const std::string& path, File& part,
                   long patience, Progress& progress);

}  // namespace lpmm
