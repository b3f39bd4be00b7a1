// The row of a kind of data: what its models read, and how a run names and opens it. lpmm/run/tasks/ has one
// file per kind, with its row; rows of families name it.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "lpmm/base/progress.h"
#include "lpmm/data/images.h"

namespace lpmm {

class Task;  // task.h in lpmm/run/tasks/
class Tokenizer;
struct DataRequest;
struct RunConfig;

struct TaskRow {
  std::string_view reads;                             // the data that its models read, for messages
  std::string_view by_path;                           // the name of the set that data.path leads to
  std::array<std::string_view, 2> also_by_path = {};  // other such sets, which a configuration must name
  // Models read sequences of tokens: their families have the settings kContext and kVocabulary.
  bool has_tokens = false;
  bool fills_lengths = false;      // the sequences of a batch are filled up to one of filled_lengths()
  bool continues = false;          // a model goes on with a text (Model::build_inference)
  bool translates = false;         // a model makes a target of a source (Model::build_decoder)
  bool is_judged_by_loss = false;  // as perplexity; else by its scores, or by accuracy
  bool tests_own_part = false;     // the test set is cut from what is trained on, by the run's own tokenizer
  bool has_test_file = false;      // besides the development file (data.test_file)
  int classes = kImageClasses;     // while no data says them
  // The names that data.set may have.
  std::vector<std::string_view> (*sets)() = nullptr;
  std::shared_ptr<Task> (*make)(const RunConfig& config) = nullptr;  // one that is yet to open
  // Sets what an evaluation names beside data (DataRequest::task). Null: it names nothing else.
  void (*name_task)(const DataRequest& request, RunConfig& config) = nullptr;
  // Decides what a file leaves out, and whether that names a tokenizer matters; null: nothing.
  void (*complete)(RunConfig& config, bool names_tokenizer) = nullptr;
  // Chooses a set for a name that leaves that open; null: no name does.
  void (*choose_set)(RunConfig& config) = nullptr;
  // Makes a tokenizer for data of which only the size matters if the configured one is not there; it says so
  // on standard error. Null, or returns null: nothing stands in.
  std::unique_ptr<Tokenizer> (*stand_in)(RunConfig& config) = nullptr;
};

}  // namespace lpmm
