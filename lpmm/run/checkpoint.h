// Checkpoints: a folder of two files,
//   model.safetensors  codes as U8, steps as BF16, fp32 tensors and buffers as F32, the specs as metadata
//   state.json         where the run was, and the checksum of both files
// named step_NNNNNNNN below the run's checkpoints/ folder. Accumulators are empty between steps, or the
// momentum, and not saved. A tensor's roles are NAME.parameter, NAME.momentum and NAME.variance, packed ones
// split in .codes and .steps; buffers are NAME.buffer. This is version 1 of the format, which is frozen
// (tests/golden): later programs read it; new words for specs may join it, which programs before them refuse
// by name, and numbers in state.json that a program may do without (learning_rate, of the last update);
// anything else that it cannot say becomes another version.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lpmm/files/safetensors.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/program/program.h"

namespace lpmm {

// Bytes one checkpoint takes on disk, about.
std::int64_t checkpoint_bytes(const ModelMemory& memory, const Buffers& buffers);

// A count that a saved state holds, which may say anything: an integer of 0 to 2^62, so that a run can add to
// it. Throws RunError("WHAT is ...").
std::int64_t to_count(const nlohmann::ordered_json& value, const std::string& what);

// "step_NNNNNNNN"
std::string checkpoint_name(std::int64_t step);

// Saves to FOLDER/step_NNNNNNNN and returns that path: checks the free space, writes to a temporary name,
// syncs, renames, and then removes all but the newest `keep` (0: keeps all). Whatever fails, older
// checkpoints stay as they are; throws RunError that says so and why. `run` is kept in state.json.
std::string save_checkpoint(const std::string& folder, std::int64_t step, const std::string& model,
                            const ModelMemory& memory, const Buffers& buffers,
                            const nlohmann::ordered_json& run, int keep);

// Loads codes, states, buffers and the count of updates, and returns `run`. Both files are checked as a whole
// (checksums, version, tensors, shapes, specs, lengths, finite steps) before anything is changed.
// A memory whose optimizer is frozen takes the parameters and leaves the states in the file.
// Throws RunError naming file, tensor and what was expected.
nlohmann::ordered_json load_checkpoint(const std::string& path, const std::string& model, ModelMemory& memory,
                                       Buffers& buffers);

// The `run` of a checkpoint alone; of the two files only state.json is read and checked.
nlohmann::ordered_json checkpoint_run(const std::string& path);

// The newest checkpoint below FOLDER; empty where there is none. Leftovers of a save that was cut off are
// removed if `clean`.
std::string newest_checkpoint(const std::string& folder, bool clean = false);
// The newest one beside `path` that is older than it; empty where there is none.
std::string checkpoint_before(const std::string& path);
// A path a user gives: a checkpoint, a checkpoints folder or a run's folder. Throws UsageError.
std::string find_checkpoint(const std::string& path);

// One tensor or buffer of a checkpoint as its metadata tells it.
struct CheckpointTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<std::pair<std::string, std::string>>
      specs;  // role -> spec; one pair {"buffer", "fp32"} for a buffer
  std::int64_t bytes = 0;
};
struct CheckpointInfo {
  std::string model;
  std::int64_t step = 0, updates = 0;
  std::vector<CheckpointTensor> tensors;
};
// Checks the files as load_checkpoint does and lists what is inside.
CheckpointInfo inspect_checkpoint(const std::string& path);

// The parameters and buffers of a checkpoint as values, for those who do not go on with its run.
class StoredWeights {
 public:
  explicit StoredWeights(const std::string& path);  // checks the files as load_checkpoint does
  ~StoredWeights();
  const std::string& path() const { return path_; }
  const std::string& model() const { return info_.model; }
  const std::vector<CheckpointTensor>& tensors() const { return info_.tensors; }
  const CheckpointTensor* find(const std::string& name) const;  // null where there is none
  // All values of a tensor in order, panel by panel: body(first, values).
  void read(const CheckpointTensor& tensor, Pool& pool,
            const std::function<void(std::int64_t, std::span<const float>)>& body) const;

 private:
  struct State;
  std::string path_;
  std::unique_ptr<State> state_;
  CheckpointInfo info_;
};

// Parameters of a checkpoint as initial values of `memory`, whatever the specs of either. Throws RunError
// naming the checkpoint and the tensor where names or shapes differ.
void load_parameters(const std::string& path, ModelMemory& memory);

// Writes a file of what `weights` holds; it appears whole or not at all. Throws UsageError for a place inside
// the checkpoint that is read, or for what is no ordinary file.
void write_export(const StoredWeights& weights, const std::string& output, const Metadata& metadata,
                  std::span<const SafetensorsSource> sources);

// Writes parameters and buffers as plain fp32 or bf16 safetensors with the tensors' own names and shapes,
// decoding panel by panel. The file appears whole or not at all.
void export_checkpoint(const std::string& path, const std::string& output, Compute type, Pool& pool);

}  // namespace lpmm
