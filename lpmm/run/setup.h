// A configuration with its data: what only the data tells is filled in, and a text is read and encoded once
// for whoever plans, builds and runs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/threads/pool.h"
#include "lpmm/base/host.h"
#include "lpmm/data/pairs/pair_data.h"
#include "lpmm/data/sentences/sentence_data.h"
#include "lpmm/program/program.h"
#include "lpmm/run/config.h"

namespace lpmm {

// What a data set holds and takes, known before images are loaded.
struct DataSize {
  std::int64_t train_examples = 0, test_examples = 0;
  std::int64_t bytes = 0;          // of memory
  std::int64_t loading_bytes = 0;  // while it is read
  std::int64_t example_bytes = 0;  // of one example in a batch
  int longest = 0;                 // that sentences and pairs are filled up to in a batch; 0: others
};

struct Setup {
  // Decides data.set = auto (cifar10 where it is found, else drawn), for images the shape that the model
  // reads and its classes, for text the vocabulary and the length of its sequences, for sentences that and
  // the classes, for pairs that and the tokens that they begin and end with. Text is read by the tokenizer of
  // train.init, where that has one. Throws UsageError where model and data do not go together, and what
  // TextData throws. A configuration is taken wherever a Setup is expected.
  Setup(const RunConfig& given);  // NOLINT(google-explicit-constructor)
  // The text, the sentences or the pairs of `other` serve again where both mean the same.
  Setup(const RunConfig& given, const Setup& other);
  // A text or sentences are read by `own`, whatever the configuration says; null: as it says. `progress`
  // counts bytes of text encoded.
  Setup(const RunConfig& given, std::unique_ptr<Tokenizer> own, const ProgressCall& progress);

  std::int64_t rss_at_start = rss_bytes();  // before any data was read
  RunConfig config;
  std::shared_ptr<const TextData> text;           // null for others
  std::shared_ptr<const SentenceData> sentences;  // null for others
  std::shared_ptr<const PairData> pairs;          // null for others
  std::shared_ptr<const Tokenizer> tokenizer;     // of text, sentences or pairs; null where there is none
  std::vector<std::string> class_names;           // in their order; empty: the data names none
  DataSize size;
  // The files of the run whose model it is for (model_files.h), empty where it keeps none; nothing: those of
  // train.init.
  std::optional<std::string> model_files = {};

 private:
  void open(std::unique_ptr<Tokenizer> own, const ProgressCall& progress);
  void read(std::unique_ptr<Tokenizer> own, const ProgressCall& progress);
  void use(std::shared_ptr<const TextData> opened);
  void use(std::shared_ptr<const SentenceData> opened, std::shared_ptr<const Tokenizer> reads);
  void use(std::shared_ptr<const PairData> opened, std::shared_ptr<const Tokenizer> reads);
  void fit_vocabulary(std::shared_ptr<const Tokenizer> of, const std::string& name);
};

// What only data tells, from the configuration that a run of the same wrote: where that is enough, no data is
// wanted. False where a tokenizer decides as well, that of train.init.
bool take_from_run(RunConfig& config, const RunConfig& run);

// The model as a run of that configuration trains it: without accumulators it gathers gradients, unless an
// override gives one to tied tensors.
std::unique_ptr<Model> make_model(const RunConfig& config);

// Steps of the whole run; 0 where a batch is more than the examples and the configuration gives epochs.
std::int64_t steps_of(const Setup& setup);

// train.init as it is found from any folder: what it says is seen from the current one.
void make_init_absolute(RunConfig& config);

// The files of a tokenizer, for a configuration that names none, are where the run of that checkpoint had
// them.
void take_tokenizer_files(RunConfig& config, const std::string& checkpoint);

// Throws UsageError where the model knows fewer kinds of sentences than the data has.
void check_types(const ModelConfig& model, const SentenceData& sentences);

// Throws UsageError for what is not trained: a model that only embeds, fewer examples than a batch takes,
// more steps than can be counted.
void check_trained(const Setup& setup);

// The tokenizer that a run of text or sentences saved with a checkpoint; null where there is none. `config`
// says where its files are. Throws RunError naming the checkpoint.
std::unique_ptr<Tokenizer> saved_tokenizer(const std::string& checkpoint, const RunConfig& config);

// The text, the sentences, or images loaded or drawn.
std::shared_ptr<const DataSource> load_data(const Setup& setup, Pool& pool);

}  // namespace lpmm
