// What experiments/download.h declares, where downloads are not built in.
#include "experiments/download.h"
#include "lpmm/error.h"

namespace lpmm {

Downloaded download(const DataSet&, const DownloadOptions&, Progress&) {
  throw RunError("this lpmm was built without downloads (-DLPMM_DOWNLOAD=OFF)");
}

}  // namespace lpmm
