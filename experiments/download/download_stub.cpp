// Stands in for experiments/download/download.h in builds without downloads.
#include "experiments/download/download.h"

#include <fmt/format.h>

#include "lpmm/base/error.h"

namespace lpmm {

Downloaded download(const DataSet& set, const DownloadOptions& options, Progress&) {
  throw RunError(fmt::format("this lpmm was built without downloads (-DLPMM_DOWNLOAD=OFF); {}, from {}",
                             by_hand(set, options.folder + "/" + set.folder, set.files), set.address));
}

}  // namespace lpmm
