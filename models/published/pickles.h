// Weights that PyTorch pickled, which are refused: to read them is to run their code.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "lpmm/files/safetensors.h"

namespace lpmm {

// Throws RunError where a folder without safetensors holds pickles, for the largest of them.
void refuse_pickles_in(const std::filesystem::path& folder);
// The same for a folder without model.safetensors, which may have safetensors under other names.
void refuse_without_weights(const std::filesystem::path& folder);
// Throws RunError for a pickle, by its name or its first bytes, and what SafetensorsFile throws.
std::unique_ptr<TensorFile> open_weights(const std::string& path);

}  // namespace lpmm
