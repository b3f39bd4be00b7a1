// A model of sentences as commands take it from a checkpoint, and the lines that they are asked about.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/commands/arguments.h"
#include "kernels/cpu.h"
#include "lpmm/data/sentences/sentence_sets.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/program/program.h"
#include "lpmm/run/config.h"
#include "models/published/sentences.h"

namespace lpmm {

class SentenceModel {
 public:
  // find_checkpoint takes `path`. `embeds`: without the head, where it has one. Memory is taken for the
  // parameters alone. Throws UsageError for a model that does not read sentences, and without `embeds` for
  // one that has no head; RunError where no tokenizer was saved.
  SentenceModel(const std::string& path, int threads, const std::string& compute, bool embeds);

  const std::string& checkpoint() const { return checkpoint_; }
  int classes() const { return config_.model.classes; }  // 1: a number, 0: an embedding
  // The names of the classes in order: as the checkpoint has them, else those of the set it was trained on,
  // else numbers.
  const std::vector<std::string>& class_names() const { return names_; }
  // False for an empty line of which the tokenizer makes no token, as those of Llamas do.
  bool reads(const SentenceExample& line) const;
  Tells tells() const;  // only for a model that does not embed
  // Returns the outputs for each sentence or pair: (examples, classes or channels). Throws UsageError for
  // sentences that the model cannot read.
  std::vector<float> outputs(std::vector<SentenceExample> examples, bool are_pairs);
  // The same of the words of each, (words, classes); empty for a word that was cut or has no token.
  using WordOutputs = std::vector<std::vector<float>>;
  std::vector<WordOutputs> word_outputs(std::vector<SentenceExample> examples);

 private:
  // Calls `body` with what the model says of a batch and with which of `examples` are in it, those of about
  // one length together: they are padded to the longest.
  // `words`, (count, length): which word of its example a position begins, -1 where none.
  using BatchCall = std::function<void(std::span<const float> told, std::span<const std::size_t> which,
                                       std::span<const std::int32_t> words)>;
  void for_each_batch(const SentenceSet& set, std::span<const std::size_t> order, const BatchCall& body);
  std::string checkpoint_;
  RunConfig config_;
  CpuDevice device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelMemory> memory_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Program> program_;
  std::vector<std::string> names_;
  SentenceVector vector_;  // as the model's files say it, for one that embeds
};

// Calls `body` with some lines at a time of a file, or of standard input if its name is empty. A line is a
// sentence, or two with a tab between; all are two if `pairs_only`. Each call has lines of one kind. Throws
// UsageError naming a line that has more or is not as asked; RunError for a file that cannot be read.
using LinesCall = std::function<void(std::vector<SentenceExample> lines, bool are_pairs)>;
void for_each_line(const std::string& file, bool pairs_only, const LinesCall& body);

// --file, --threads and --compute of such commands.
struct SentenceArguments {
  std::string path, file, compute;
  int threads = 0;
  bool json = false;
};
void add_sentence_arguments(CLI::App& command, SentenceArguments& arguments);

}  // namespace lpmm
