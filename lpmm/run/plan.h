// The resources that a run will take, known before it starts: the program is built, not run.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "lpmm/memory/ledger.h"
#include "lpmm/program/program.h"
#include "lpmm/run/setup.h"

namespace lpmm {

// Tensors that stay fp32 for one reason (why_exempt).
struct ExemptTensors {
  std::string because;
  std::int64_t tensors = 0, parameters = 0;
};

struct Plan {
  Ledger ledger;  // with buffers, activations and workspace
  std::vector<ExemptTensors> exempt;
  std::int64_t largest_transient_bytes = 0;  // of the workspace: Program::largest_transient_bytes
  std::int64_t data_bytes = 0;               // data set and prepared batches
  std::int64_t overhead_bytes = 0;           // code and tables of libraries, stacks of threads
  std::int64_t translation_bytes = 0;        // of pairs that are scored by BLEU: what beams take
  std::int64_t watch_bytes = 0;              // of the watch's records of the last steps
  std::int64_t peak_bytes = 0;  // of the resident memory of the whole process, program and libraries included
  std::int64_t needed_bytes = 0;  // yet to be taken: a text is in memory already
  std::int64_t device_bytes = 0;  // of the device, where it has memory of its own; not of the peak
  SentBytes sent;                 // to other ranks in a step
  std::int64_t read_bytes = 0;    // the same of divided parameters, for other ranks that read them
};

// Builds the program of `model`, which is that of setup.config.model, for the device and adds up; allocates
// next to nothing. Without a device it is for the one that the config names. With several ranks it counts the
// memory of one of them.
Plan make_plan(const Setup& setup, const Model& model, Device& device, int ranks = 1, int rank = 0);
Plan make_plan(const Setup& setup, const Model& model);

// Throws RunError with the figures where what is needed does not fit into `available` bytes.
void check_memory(const Plan& plan, std::int64_t available);
// The same of this machine, which so many ranks share, and of the device, which is opened.
void check_memory(const Plan& plan, Device& device, int ranks = 1);

// The parts of model memory as records name them: every role, "exempt", "peaks", "buffers", "average".
inline constexpr std::size_t kMemoryParts = kRoles + 4;
std::array<std::string, kMemoryParts> memory_parts();
// All of them and "total", in bytes.
nlohmann::ordered_json model_memory_json(const Ledger& ledger);
// The object `lpmm plan --json` prints.
nlohmann::ordered_json plan_json(const Plan& plan);

}  // namespace lpmm
