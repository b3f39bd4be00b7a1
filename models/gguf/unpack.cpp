#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/files/files.h"
#include "models/gguf/gguf.h"
#include "models/gguf/layout.h"
#include "models/gguf/tokenizer.h"

namespace lpmm {
namespace fs = std::filesystem;

bool is_gguf(const std::string& path) {
  constexpr std::string_view kMagic = "GGUF";
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  const File file(path, File::Mode::kRead);
  std::string begin(kMagic.size(), '\0');
  if (file.size() < begin.size()) return false;
  file.read(0, std::as_writable_bytes(std::span(begin)));
  return begin == kMagic;
}

UnpackedGguf::UnpackedGguf(const std::string& path) : folder_("gguf") {
  const GgufFile file(path);
  const GgufModel& model = gguf_model(file);
  Json config = config_of(file, model);
  remark_ = unpack_tokenizer(file, folder_.string(), config);
  write_text(folder_ / "config.json", config.dump(2) + "\n");
  std::error_code error;
  fs::create_symlink(fs::absolute(path), folder_ / kGgufWeights, error);
  if (error) throw RunError(fmt::format("{}: cannot be made: {}", folder_ / kGgufWeights, error.message()));
  const std::vector<std::string> unused = unused_keys(file, model);
  if (unused.empty()) return;
  remark_ += printable(fmt::format("{}not used: {}", remark_.empty() ? "" : "; ", fmt::join(unused, ", ")));
}

}  // namespace lpmm
