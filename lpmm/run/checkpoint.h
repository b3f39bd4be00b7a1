// Checkpoints: a folder of two files,
//   model.safetensors  codes as U8, steps as BF16, fp32 tensors and buffers as F32, the specs as metadata
//   state.json         where the run was, and the checksum of both files
// named step_NNNNNNNN below the run's checkpoints/ folder. Accumulators are empty between steps, or the
// momentum, and not saved. A tensor's roles are NAME.parameter, NAME.momentum and NAME.variance, packed ones
// split in .codes and .steps; buffers are NAME.buffer, averages of weights NAME.average, what a watch keeps
// of every element NAME.peaks. This is version 1 of the format, which is frozen (tests/golden): later
// programs read it; new words for specs may join it, which programs before them refuse by name, and numbers
// in state.json that a program may do without (learning_rate, of the last update; gradient_history, of
// percentile clipping, which only a run that has it reads); anything else that it cannot say becomes another
// version.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/files/json.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/program/program.h"

namespace lpmm {

// The files of a checkpoint are not those that were saved: a checksum or a parser says so, or one is missing.
// A checkpoint that is whole, but of another model, run or version of the format, is none of these.
class DamagedCheckpoint : public RunError {
 public:
  using RunError::RunError;
};

// Throws RunError where the disk has no room for one more checkpoint in `folder`, the log of a run, and
// `besides`.
void check_disk(const std::string& folder, const ModelMemory& memory, const Buffers& buffers,
                std::int64_t besides = 0);

// "step_NNNNNNNN"
std::string checkpoint_name(std::int64_t step);

// Saves to FOLDER/step_NNNNNNNN and returns that path: checks the free space, writes to a temporary name,
// reads that as a later program will, syncs, renames, and then removes all but the newest `keep` (0: keeps
// all) and those of the steps `also_kept`. Whatever fails, older checkpoints stay as they are; throws
// RunError that says so and why. `run` is kept in state.json. All ranks call it and the first one writes; the
// files are as those of one rank.
std::string save_checkpoint(const std::string& folder, std::int64_t step, const std::string& model,
                            const ModelMemory& memory, const Buffers& buffers, const Json& run, int keep,
                            std::span<const std::int64_t> also_kept = {});

// Loads codes, states, buffers and the count of updates, and returns `run`. Both files are checked as a whole
// (checksums, version, tensors, shapes, specs, lengths, finite steps) before anything is changed.
// A memory whose optimizer is frozen takes the parameters and leaves the states in the file.
// Throws DamagedCheckpoint or another RunError, naming file, tensor and what was expected.
Json load_checkpoint(const std::string& path, const std::string& model, ModelMemory& memory,
                     Buffers& buffers);

// The `run` of a checkpoint alone; of the two files only state.json is read and checked.
Json checkpoint_run(const std::string& path);

// The newest checkpoint below FOLDER; empty where there is none. Leftovers of a save that was cut off are
// removed if `clean`.
std::string newest_checkpoint(const std::string& folder, bool clean = false);
// The steps of the checkpoints below FOLDER, newest first.
std::vector<std::int64_t> saved_steps(const std::string& folder);
// Advice for a damaged checkpoint at `path`: a sentence that names the newest older one beside it that was
// read and is whole.
std::string earlier_checkpoint(const std::string& path);
// A path a user gives: a checkpoint, a checkpoints folder or a run's folder, however it is written; what is
// returned ends with step_NNNNNNNN where the folder is called so. Throws UsageError.
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
// Null: it stores no such role.
const std::string* spec_of(const CheckpointTensor& tensor, std::string_view role);
// Throws UsageError where the run kept no averages of weights, or made no update yet.
void check_averages(const CheckpointInfo& info, const std::string& path);
// Lets a memory that is only looked at take the averages of a checkpoint for its parameters, exactly as they
// are stored; tensors that were not trained have none and stay as they are. Throws as check_averages().
void take_averages(Policy& policy, const std::string& checkpoint);

}  // namespace lpmm
