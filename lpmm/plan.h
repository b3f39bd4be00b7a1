// What a run will take, known before it starts: the program is built, not run.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lpmm/config.h"
#include "lpmm/ledger.h"
#include "lpmm/program.h"

namespace lpmm {

struct Plan {
  Ledger ledger;                    // with buffers, activations and workspace
  std::int64_t data_bytes = 0;      // data set and prepared batches
  std::int64_t overhead_bytes = 0;  // code and tables of libraries, stacks of threads
  std::int64_t peak_bytes = 0;      // what the run adds to the RSS it starts with
};

// The configuration with what depends on the data decided: data.set = auto (cifar10 where it is found, else
// drawn), and for text the vocabulary of its tokenizer and the length of its sequences. Throws UsageError
// where model and data do not go together.
RunConfig resolve_data(const RunConfig& config);

// What the (resolved) data set holds and takes, without loading images.
struct DataSize {
  std::int64_t train_examples = 0, test_examples = 0;
  std::int64_t bytes = 0;          // of memory
  std::int64_t example_bytes = 0;  // of one example in a batch
};
DataSize data_size(const RunConfig& config);

// Builds the model's program and adds up; allocates next to nothing.
Plan make_plan(const RunConfig& config, const Model& model);

// Throws RunError with the figures where the plan does not fit into `available` bytes.
void check_memory(const Plan& plan, std::int64_t available);

// {"parameter", ..., "exempt", "buffers", "total"} in bytes.
nlohmann::ordered_json model_memory_json(const Ledger& ledger);
// The object `lpmm plan --json` prints.
nlohmann::ordered_json plan_json(const Plan& plan);

}  // namespace lpmm
