// The two files of a checkpoint as they lie on disk (format: checkpoint.h): which tensors stand for what, the
// sealed state.json, and the checks of both. It is for code that writes and reads checkpoints; other code
// takes checkpoint.h and stored_weights.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lpmm/files/json.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/run/checkpoint.h"

namespace lpmm {

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kStateFile = "state.json";

// One tensor of the file and the memory, a device's, that it stands for: all of its bytes, or of what ranks
// share those from `first` on.
struct StoredPart {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::span<std::byte> bytes;
  bool is_optional = false;  // a file may be without it
  std::uint64_t first = 0;
  std::vector<std::uint64_t> ends = {};  // of the bytes that each rank has; empty: they are here
};

// "TENSOR.ROLE"
std::string role_name(const std::string& tensor, Role role);
// "TENSOR.average": the average of its weights.
std::string average_name(const std::string& tensor);
// "TENSOR.peaks": what the watch keeps of its elements (kernels/peaks.h).
std::string peaks_name(const std::string& tensor);
// The parts one role of one tensor is stored in; views may be null where only names and shapes matter.
std::vector<StoredPart> role_parts(const std::string& tensor, const std::vector<std::int64_t>& shape,
                                   Role role, const kernels::RoleView& view);

// The same of its average.
std::vector<StoredPart> average_parts(const std::string& tensor, const std::vector<std::int64_t>& shape,
                                      const kernels::RoleView& view);

// The entries of the model file's metadata that say what the file is.
Metadata format_metadata(const std::string& model);
// A checksum as the files hold it: eight digits.
std::string checksum_text(std::uint32_t crc);
// The text of state.json: `state` with format and version before it and the text's own checksum after it.
std::string seal_state(const Json& state);
// state.json of the checkpoint at `path`: checksum, format and version are checked.
Json open_state(const std::string& path);

struct OpenedCheckpoint {
  Json state;
  SafetensorsFile file;
};
// Opens both files and checks them as a whole: lengths and checksums.
OpenedCheckpoint open_checkpoint(const std::string& path);
// Steps must be finite and not negative, fp32 and bf16 values finite.
void check_values(const SafetensorsFile& file, const SafetensorsEntry& entry);

// The step that the folder of a checkpoint is called by: step_NNNNNNNN; none where it has another name.
std::optional<std::int64_t> step_of_name(const std::string& path);

struct SavedProgress {
  std::int64_t step, updates;
  double rate;  // of the last update
};
SavedProgress progress_of(const Json& state, const std::string& path);
// The histories of percentile clipping, as an object of 100 numbers per tensor; null where there are none.
Json histories_json(const ModelMemory& memory);
// The histories of the tensors of `memory` that have one. Throws RunError where one is missing or invalid.
std::vector<std::optional<GradientHistory>> histories_of(const Json& state, const ModelMemory& memory,
                                                         const std::string& path);
// Reads state and metadata, and checks each part against the file.
CheckpointInfo info_of(const OpenedCheckpoint& opened, const std::string& path);

}  // namespace lpmm
