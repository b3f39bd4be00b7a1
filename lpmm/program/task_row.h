// The row of a kind of data: what its models read, and how a run names and opens it. lpmm/run/tasks/ has one
// file per kind, with its row; rows of families name it.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lpmm/base/progress.h"
#include "lpmm/data/images.h"

namespace lpmm {

class Task;  // task.h in lpmm/run/tasks/
class Tokenizer;
struct DataRequest;
struct RunConfig;

// Keys of [data] that do nothing with sets whose rows do not have them: there they are refused. A key in no
// row goes with every set.
using DataKeys = std::array<std::string_view, 8>;

// A set at data.path beside that of the kind, read by the same models: a configuration must name it.
struct PathSet {
  std::string_view name;
  std::string_view recipe;  // the configuration that fine-tunes on it
  DataKeys keys = {};
  std::shared_ptr<Task> (*make)(const RunConfig& config) = nullptr;  // one that is yet to open
};

struct TaskRow {
  std::string_view reads;                             // the data that its models read, for messages
  std::string_view by_path;                           // the name of the set that data.path leads to
  DataKeys keys = {};                                 // of all its sets
  DataKeys keys_by_path = {};                         // of that at data.path besides
  std::span<const PathSet* const> also_by_path = {};  // the recipe of the first is that of tables
  // Models read sequences of tokens: their families have the settings kContext and kVocabulary.
  bool has_tokens = false;
  bool fills_lengths = false;      // the sequences of a batch are filled up to one of filled_lengths()
  bool continues = false;          // a model goes on with a text (Model::build_inference)
  bool translates = false;         // a model makes a target of a source (Model::build_decoder)
  bool is_judged_by_loss = false;  // as perplexity; else by its scores, or by accuracy
  bool tests_own_part = false;     // the test set is cut from what is trained on, by the run's own tokenizer
  bool has_test_file = false;      // besides the development file (data.test_file)
  int classes = kImageClasses;     // while no data says them
  std::string_view picture_set = {};  // pictures at data.path are packed first; `lpmm classify` takes others
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

  // The row of a set that is one of also_by_path; null: it is none.
  const PathSet* other(std::string_view set) const {
    const auto at = std::ranges::find(also_by_path, set, &PathSet::name);
    return at == also_by_path.end() ? nullptr : *at;
  }
  // Returns true if the row of `set`, one of sets(), has the key.
  bool takes(std::string_view key, std::string_view set) const {
    const auto has = [&](const DataKeys& some) { return std::ranges::count(some, key) > 0; };
    const PathSet* one = other(set);
    return has(keys) || (set == by_path && has(keys_by_path)) || (one != nullptr && has(one->keys));
  }
};

}  // namespace lpmm
