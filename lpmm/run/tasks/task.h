// What a run trains on and how it is tested: an opened set of one kind. A kind is a class and a row
// (lpmm/program/task_row.h) in a file of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "lpmm/base/error.h"
#include "lpmm/base/progress.h"
#include "lpmm/data/batch.h"
#include "lpmm/data/corpus/mixture.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/files/json.h"
#include "lpmm/program/program.h"
#include "lpmm/run/config.h"

namespace lpmm {

// What a data set holds and takes, known before images are loaded.
struct DataSize {
  std::int64_t train_examples = 0, test_examples = 0;
  std::int64_t bytes = 0;          // of memory
  std::int64_t loading_bytes = 0;  // while it is read
  std::int64_t example_bytes = 0;  // of one example in a batch
  int longest = 0;                 // tokens that batches are filled up to; 0: as many as the model has
  std::int64_t learnt_tokens = 0;  // of an epoch, where the loss of some does not count; 0: of all it does
  std::vector<MixtureShare> mixture = {};  // of several files
};

struct Setup;

// A trained model under test.
struct TestedModel {
  const RunConfig& config;
  const Model& model;
  const ModelMemory& memory;
  Device& device;
};

// Once it is open, threads may share it.
class Task {
 public:
  virtual ~Task() = default;
  // Comes first. Reads all but images, and decides what `config` leaves open to do so. `own` is the tokenizer
  // of the run or of the checkpoint that it starts from; null: as the configuration says. `progress` counts
  // bytes encoded.
  virtual void open(RunConfig& config, std::unique_ptr<Tokenizer> own, const ProgressCall& progress) = 0;
  // Sets what only the data says: shapes, classes, the vocabulary. Throws UsageError where the model cannot
  // read it.
  virtual void fit(ModelConfig& model) const = 0;
  virtual DataSize size() const = 0;
  // Loads or draws what open() left out, as the model of `setup` has it.
  virtual std::shared_ptr<const DataSource> source(const Setup& setup, Pool& pool) const = 0;
  // The same with classes numbered otherwise: what was i becomes places[i], and is called as `names` says.
  // Null: source() does it.
  virtual std::shared_ptr<const Task> numbered(const std::vector<std::string>& /*names*/,
                                               const std::vector<std::int32_t>& /*places*/) const {
    return nullptr;
  }
  // Which data it is, whatever its file is called: how much there is of it and its checksum. A checkpoint
  // keeps it; null: it keeps nothing.
  virtual Json identity() const { return {}; }
  virtual const Tokenizer* tokenizer() const { return nullptr; }
  virtual std::vector<std::string> class_names() const { return {}; }  // in their order; empty: it names none
  // Memory that add_scores() takes beside the model, in bytes.
  virtual std::int64_t scoring_bytes(const RunConfig&, const Model&, Device&) const { return 0; }
  // Adds scores that need more than the model's outputs for the test batches. In a run (`in_run`) what keeps
  // them from being made costs the scores alone: it is returned; empty: nothing did.
  virtual std::string add_scores(const TestedModel&, bool /*in_run*/, const ProgressCall&,
                                 DataSource::Scores&) const {
    return "";
  }
};

// What an evaluation asks for in place of the run's data.
struct DataRequest {
  std::string data = {};        // a path or the name of a set
  std::string task = {};        // a set of sentences, which then lies at `data`
  std::string columns = {};     // of the table at `data`, in place of the run's
  bool skips_broken = false;    // leaves out rows that cannot be read
  bool tests_last = false;      // the test file, not the development file
  std::string checkpoint = {};  // of the model that is evaluated
};
// Sets it. Throws UsageError for what models of that kind are not evaluated on.
void name_data(const DataRequest& request, RunConfig& config);

template <class Made>
std::shared_ptr<Task> make_task(const RunConfig& /*config*/) {
  return std::make_shared<Made>();
}
// The names of rows, and more.
template <class Rows>
std::vector<std::string_view> names_of(const Rows& rows, std::initializer_list<std::string_view> more) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.push_back(row.name);
  names.insert(names.end(), more);
  return names;
}
// The tokenizer that files of the configuration hold, where `own` is null; null where it names none.
std::unique_ptr<Tokenizer> configured_tokenizer(std::unique_ptr<Tokenizer> own, const TextOptions& text);
// One set, or the mixture of several, of which it tells; `size` gets what is known of it without batches.
std::shared_ptr<const Sequences> mixed(std::vector<Mixture::Part> parts, DataSize& size);
// The model knows all tokens of the data called `name`. Throws UsageError where it has fewer.
void fit_vocabulary(const Tokenizer& tokenizer, const std::string& name, ModelConfig& model);
// The size of a set of sentences or pairs: three numbers per token of a batch.
template <class Data>
DataSize size_of_filled(const Data& data) {
  constexpr std::int64_t kNumbers = 3;  // ids, types, an answer; or a token of each side, a label
  const int longest = data.longest();
  return {data.train_examples(),
          data.test_examples(),
          data.bytes(),
          data.loading_bytes(),
          kNumbers * longest * std::int64_t{sizeof(std::int32_t)},
          longest};
}

}  // namespace lpmm
