// The decoded values of a checkpoint, whatever its specs: for initial values, exports and whoever does not go
// on with its run.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "lpmm/data/tokenizer.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/program/program.h"
#include "lpmm/program/weight_source.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/config.h"

namespace lpmm {

// The parameters, with what their compensations hold, and buffers of a checkpoint as values, for those who do
// not go on with its run.
class StoredWeights : public WeightSource {
 public:
  // Checks the files as load_checkpoint does. `type`: PublishedFacts::type. With `averages`, of tensors that
  // have one the average of their weights in place of the last ones; throws as check_averages().
  explicit StoredWeights(const std::string& path, std::string type = {}, bool averages = false);
  ~StoredWeights() override;
  const std::string& path() const override { return path_; }
  const std::string& model() const { return info_.model; }
  const std::vector<CheckpointTensor>& tensors() const { return info_.tensors; }
  const CheckpointTensor* find(const std::string& name) const;  // null where there is none
  std::vector<TensorInfo> infos() const override;               // in the order of tensors()
  PublishedFacts facts() const override;
  void read(const CheckpointTensor& tensor, PackedDevice& device, const PanelBody& body) const;
  void read(std::size_t tensor, PackedDevice& device, const PanelBody& body) const override;
  void write(const std::string& output, const Metadata& metadata,
             std::span<const SafetensorsSource> sources) const override;

 private:
  struct State;
  std::string path_, type_;
  bool averages_;
  std::unique_ptr<State> state_;
  CheckpointInfo info_;
};

// Classes that the head of a model tells, 1 where that is a number, as its last matrix has them; 0: there is
// none, it embeds.
int stored_classes(const StoredWeights& weights, const ModelConfig& model);

// Facts that the run of a checkpoint states: the names of the classes in order, where it was imported from,
// and which tokens begin, end and fill up a text.
inline constexpr const char *kClasses = "classes", *kSource = "source", *kSpecialTokens = "special_tokens";
inline constexpr const char *kNumbered = "classes_by_number",  // of a run whose data numbers them
    *kNewHead = "new_head",                                    // of an import whose file had no head
        *kPacked = "packed";                                   // PackedPictures
// Empty: nobody named them.
std::vector<std::string> stored_class_names(const Json& run);
// Other facts that its publisher stated.
PublishedFacts stored_facts(const Json& run);
// Returns true if `names`, of data, number from 0 the classes that the publisher of an import named, or those
// of a run that began with such data.
bool numbers_classes(const Json& run, const std::vector<std::string>& names);
// Returns true if that run's classes are others than those that data names or numbers.
bool has_other_classes(const Json& run, const std::vector<std::string>& names);
// "the model tells 2 classes (cat, dog), DATA has 3 classes (a, b, c)", of a configuration with its data.
std::string compare_classes(const Json& run, int told, const RunConfig& config,
                            const std::vector<std::string>& names);
// The tokens that the run says; of a model of text that says none, those of its tokenizer. Null: there are
// none.
Json special_tokens_of(const Json& run, const ModelConfig& model, const Tokenizer* tokenizer);

// Parameters of a checkpoint as initial values of `memory`, whatever the specs of either. Tensors whose names
// begin with `head`, where that is not empty, are left as they are where the checkpoint lacks them or has
// them in another shape, or always where `leaves_head`, and returned. Tensors that the model lacks may be of
// `other_head`. Positions of patches of another number are resampled, with a word on standard error. Throws
// RunError naming the checkpoint and the tensor where names or shapes differ else.
std::vector<std::string> load_parameters(const StoredWeights& weights, ModelMemory& memory,
                                         std::string_view head = {}, bool leaves_head = false,
                                         std::string_view other_head = {});

// The initial parameters of a run: drawn, or those of the checkpoint that train.init names, its head (Family)
// drawn if it is another or has other classes than `class_names`, which the data has. Buffers are from that
// checkpoint as well.
struct InitialParameters {
  std::string checkpoint;          // empty: all are drawn
  std::vector<std::string> drawn;  // else: which tensors
  std::string reason = {};         // of that, where classes have other names
  Json run = {};                   // the checkpoint's record of its run
};
InitialParameters set_initial_parameters(const RunConfig& config, const Model& model, ModelMemory& memory,
                                         Buffers& buffers, const std::vector<std::string>& class_names = {},
                                         const ProgressCall& progress = {});
// The buffers that it has.
void load_buffers(const StoredWeights& weights, Buffers& buffers);

// Writes parameters and buffers as plain fp32 or bf16 safetensors with the tensors' own names and shapes,
// decoding panel by panel. The file appears whole or not at all.
void export_checkpoint(const std::string& path, const std::string& output, ValueType type,
                       PackedDevice& device, bool averages = false);

}  // namespace lpmm
