#include "models/published/pickles.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "models/gguf/gguf.h"
#include "models/gguf/tensors.h"
#include "models/published/config.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// Returns true for the file endings that PyTorch's pickles usually have.
bool is_pickle_name(const fs::path& path) {
  constexpr std::string_view kEndings[] = {".bin", ".pt", ".pth", ".ckpt"};
  return std::ranges::find(kEndings, path.extension().string()) != std::end(kEndings);
}

[[noreturn]] void refuse_pickle(const fs::path& path) {
  const bool is_of_transformers = path.extension() == ".bin";
  throw RunError(fmt::format(
      "{}: is a PyTorch pickle, which can run code when it is read; save the model as safetensors ({})",
      path.string(),
      is_of_transformers ? "model.save_pretrained(folder, safe_serialization=True)"
                         : "safetensors.torch.save_file(model.state_dict(), \"model.safetensors\")"));
}

// Returns true for a zip file or an older pickle; a file of safetensors may look like one too.
bool begins_as_pickle(const std::string& path) {
  constexpr std::string_view kZip = "PK\x03\x04", kOld = "\x80\x02";
  try {
    const File file(path, File::Mode::kRead);
    std::string first(kZip.size(), '\0');
    if (file.size() < first.size()) return false;
    file.read(0, std::as_writable_bytes(std::span(first)));
    return first == kZip || first.starts_with(kOld);
  } catch (const RunError&) {
    return false;
  }
}

}  // namespace

void refuse_pickles_in(const fs::path& folder) {
  std::error_code error;
  fs::path largest, stand_in;
  std::uintmax_t bytes = 0;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".safetensors") return;
    if (at->path().extension() == ".gguf") stand_in = at->path();
    std::error_code none;
    const std::uintmax_t size = is_pickle_name(at->path()) ? at->file_size(none) : 0;
    const bool is_first = largest.empty() || size > bytes || (size == bytes && at->path() < largest);
    if (none || size == 0 || !is_first) continue;
    largest = at->path();
    bytes = size;
  }
  if (!stand_in.empty()) refuse_stand_in(stand_in.string(), "GGUF");
  if (!largest.empty()) refuse_pickle(largest);
}

void refuse_without_weights(const fs::path& folder) {
  refuse_pickles_in(folder);
  std::string other;  // the first by name
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(".safetensors") && (other.empty() || name < other)) other = name;
  }
  if (other.empty()) return;
  const bool is_shard = other.find("-of-") != std::string::npos;
  throw RunError(fmt::format(
      "{}: has {}, but no model.safetensors{}", folder.string(), other,
      is_shard ? " and no model.safetensors.index.json, which says what the shards hold: download it too"
               : fmt::format("; where that is the model, give this file: {}", (folder / other).string())));
}

std::unique_ptr<TensorFile> open_weights(const std::string& path) {
  std::error_code error;
  if (is_gguf(path)) return std::make_unique<GgufTensors>(path);
  if (fs::exists(path, error) && is_pickle_name(path)) refuse_pickle(path);
  try {
    return std::make_unique<SafetensorsFile>(path);
  } catch (const RunError&) {
    if (begins_as_pickle(path)) refuse_pickle(path);
    throw;
  }
}

}  // namespace lpmm
