// A family: a kind of model. One row says its names, what it reads, its settings, its forward code and how
// its weights are published; models/ has one file per family, with the row, and the list of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lpmm/program/builder.h"
#include "lpmm/program/model_config.h"
#include "lpmm/program/program.h"
#include "lpmm/program/task_row.h"
#include "lpmm/program/weight_source.h"

namespace lpmm {

// Integer settings that every family which reads tokens has (TaskRow::has_tokens): positions a model has, and
// tokens it knows (0: as many as the data's tokenizer has).
inline constexpr std::string_view kContext = "context", kVocabulary = "vocabulary";
// Channels inside an MLP of those families.
inline constexpr std::string_view kMlpWidth = "mlp_width";
// The number of sentences that a token may belong to, for families that tell sentences apart.
inline constexpr std::string_view kTypes = "types";
// Flags of families that read sentences and have heads of these kinds, as the data asks for them: any number
// of the classes for each example; a class for each word.
inline constexpr std::string_view kMultiLabel = "multi_label", kOfWords = "of_words";
// For families of pairs: the token that both sides end with, and the one that the target begins with (-1: the
// tokenizer's).
inline constexpr std::string_view kEnd = "end_token", kStart = "start_token";

// A name that a configuration may give, and the settings that it decides where they are left at the default.
struct NamedModel {
  std::string_view name;
  std::vector<std::pair<std::string_view, SettingValue>> sizes = {};
};

// The tokenizer that published weights were trained with. Its files lie beside them, under names of the
// publisher's.
struct PublishedTokenizer {
  struct FileNames {
    std::string_view ours, theirs;
  };
  std::string_view name;  // its name in data.tokenizer
  std::array<FileNames, 2> files;
};

// Weights as others publish them. All throw RunError naming file and tensor for what does not fit.
struct Published {
  std::string_view by;                           // whose layout it is: a library
  std::string_view kinds;                        // that library's name for such models, for messages
  PublishedTokenizer tokenizer;                  // of models of text
  bool (*is_at)(const std::string& path);        // true: the path holds a model of this family
  ModelConfig (*read)(const std::string& path);  // its model
  // Returns the message of an import: the assumptions of read() where the files say nothing, or what it
  // leaves out; empty or null: there is none.
  std::string (*remark)(const std::string& path, const ModelConfig& model) = nullptr;
  void (*load)(const std::string& path, ModelMemory& memory);
  // Running statistics; null: the family has none.
  void (*load_buffers)(const std::string& path, Buffers& buffers) = nullptr;
  // Writes weights and what describes them into `folder`.
  void (*save)(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
               Device& device);
};

struct Family {
  std::string_view name;
  std::string_view help;           // one line, with the paper
  const TaskRow* reads = nullptr;  // a kind of data: lpmm/run/tasks/tasks.h lists them
  std::vector<NamedModel> models;
  std::vector<ModelSetting> settings;
  // Throws UsageError for settings, each within its range, that do not go together; null: all do.
  void (*check)(const ModelConfig& config) = nullptr;
  void (*forward)(ProgramBuilder& b, const ModelConfig& config) = nullptr;
  // Throws UsageError, with the reason, for weights that training must not start from; null: from any with
  // its tensors.
  void (*check_start)(const ModelConfig& config, const WeightSource& weights) = nullptr;
  // A part of the names of tensors that a run draws anew if the weights that it starts from lack them or have
  // them for other classes; empty: there are none.
  std::string_view head = {};
  // The family whose weights it can start from as well, and what it leaves out of weights where the model has
  // no such tensors: that one's own head, or a layer that only some heads have.
  std::string_view starts_from = {}, other_head = {};
  const Published* published = nullptr;  // null: by nobody
};

// The families that a program knows. It hands them to what reads configurations.
struct FamilyList {
  std::vector<Family> rows;
  std::string_view standard;  // the model of a configuration that names none

  // The family with a model of that name. Throws UsageError with the nearest name.
  const Family& find(std::string_view model) const;
  // All settings of that model, as its name says or at their defaults.
  ModelConfig config(const std::string& model) const;
  // Returns the kinds of data that the families read, each once.
  std::vector<const TaskRow*> tasks() const;
};

inline const TaskRow& task_of(const ModelConfig& config) {
  return *config.family->reads;
}
// Fills in the name's own sizes where 0 asks for them, 4 times the embedding as the width of an MLP where the
// name has none, and the context as the length where none is given.
ModelConfig complete(const ModelConfig& config);
// Throws UsageError for sizes that the model cannot have. `gathers` is for updates without an accumulator:
// ProgramBuilder::gather_gradients.
std::unique_ptr<Model> make_model(const ModelConfig& config, bool gathers = false);
// The lengths that sentences of at most `longest` tokens are filled up to, ascending.
std::vector<int> filled_lengths(int longest);

// The least that a configuration may say: the default may lie below what the model takes.
double lowest(const ModelSetting& setting);

}  // namespace lpmm
