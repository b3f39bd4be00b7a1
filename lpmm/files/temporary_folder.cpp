#include "lpmm/files/temporary_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "lpmm/base/error.h"

namespace lpmm {
namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder(std::string_view purpose) {
  const char* given = std::getenv("TMPDIR");
  const fs::path above = given == nullptr || *given == '\0' ? "/tmp" : given;
  std::error_code error;
  if (!fs::is_directory(above, error)) throw RunError("no folder for temporary files: set TMPDIR to one");
  std::string name = (above / fmt::format("lpmm_{}_XXXXXX", purpose)).string();
  if (mkdtemp(name.data()) == nullptr) throw RunError(name + ": cannot be made; is the disk full?");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace lpmm
