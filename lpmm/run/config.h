// The configuration of a run: TOML file, then --preset and --rounding, then --set a.b=c.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/compute.h"
#include "lpmm/data/text_data.h"
#include "lpmm/memory/optimizer_config.h"
#include "lpmm/memory/policy.h"
#include "lpmm/memory/schedule.h"
#include "lpmm/program/model_config.h"

namespace lpmm {

struct FamilyList;

// The underflow records that hold counts of every tensor besides the sums: those of tensors make most of a
// log, and a report reads the last ones only.
enum class TensorRecords { kLast, kAll };

inline constexpr const char* kDrawnSet = "drawn";     // images that the program draws
inline constexpr std::string_view kAutoSet = "auto";  // cifar10 if its files are there, else drawn

inline constexpr PreferenceLoss kUsualPreferences{.beta = 0.1};

// Keys of [data] that only conversations and pairs of answers have.
struct ConversationKeys {
  std::string chat_template;     // template: how a conversation becomes a text; empty: as train.init has it
  std::string loss = "answers";  // the tokens that are learnt: of "answers", of "all", of the "last" one
  std::string too_long = "cut";  // the treatment of more tokens than data.length: "cut", "drop" or "split"
  bool skip_broken = false;      // go on after a line that cannot be read

  bool operator==(const ConversationKeys&) const = default;
};

// Pictures, as data.path, data.test_path and data.columns named them before data.path became the packed file.
struct PackedPictures {
  std::string file, path, test_path, columns;
};

struct RunConfig {
  const FamilyList* families = nullptr;  // that a name may be of
  ModelConfig model;                     // [model] name, and the settings of its family
  struct {
    std::string set = "cifar10";                            // [data] set: one that TaskRow::sets names
    bool augment = true;                                    // images: pad 4, crop, flip
    std::int64_t train_images = 10000, test_images = 2000;  // drawn set only
    std::uint64_t draw_seed = 1;
    int side = kImageSide;                     // drawn set only
    std::string test_file = "dev";             // sentences and pairs: the file to test on
    std::string source = "en", target = "de";  // pairs: languages, the ends of the files' names
    bool bleu = true;                          // pairs: translate the test set at every test, and score it
    bool cosine = false;                       // sentences: score pairs by the cosine of their embeddings
    bool keeps_last = false;                   // [data] last_batch: BatchPlan::keeps_last
    ConversationKeys conversations;
    PreferenceLoss preferences = kUsualPreferences;  // keys that only pairs of answers have
    TextOptions text;       // path, tokenizer, tokenizer_folder, validation_share, length (0: model.context)
    PackedPictures packed;  // no key: checkpoints keep it. An empty file: nothing was packed
  } data;
  struct {
    std::int64_t epochs = 0, steps = 0;  // [train] one of them; steps wins
    std::string init;                    // a checkpoint whose parameters a new run starts from
    int batch = 128, microbatches = 1;
    std::uint64_t seed = 1;
    ValueType compute = ValueType::kBf16;
    std::string device = "auto";
    int threads = 0;
    std::int64_t eval_every_epochs = 1;  // 0: only at the end
    int max_failed_steps = 20;           // in a row
    double average = 0;                  // Policy::average
    int patience = 0;                    // tests in a row without a lower loss that end the run; 0: none do
  } train;
  OptimizerConfig optimizer;  // [optimizer] rule, learning_rate, momentum, ... [[optimizer.group]]
  ScheduleConfig schedule;    // [schedule] kind, warmup_steps, final_scale, milestones, gamma
  Policy policy;              // [memory] preset, rounding, a spec per role, [[memory.override]]
  struct {
    std::int64_t every_steps = 0;  // [checkpoint] 0: only the final one
    int keep = 2;                  // the newest ones; 0 keeps all
    bool final = true;
    bool keep_best = false;  // beside them the one with the least test loss
  } checkpoint;
  struct {
    std::int64_t every_steps = 10;             // [log]
    std::int64_t underflow_every_steps = 100;  // 0: never
    TensorRecords tensors = TensorRecords::kLast;
  } log;
  struct {
    std::int64_t every_steps = 1;        // [watch] 0: never
    std::int64_t log_every_steps = 100;  // 0: never
    int spikes = 4;                      // that a run keeps; 0: none
  } watch;
  struct {
    int slots = 0;              // [ranks] 0: as many as there are ranks when the run starts
    int stage = 1;              // Sharding::stage
    bool reads = true;          // of one host, each other's memory, rather than send what is wanted
    bool nccl = true;           // GPUs that send do it without the host's memory
    int timeout_seconds = 600;  // that a rank may be silent
  } ranks;
  int slots() const { return ranks.slots == 0 ? 1 : ranks.slots; }  // with that known
  // Keys that an earlier program wrote into a run's config.toml though the rule does not have them. They
  // decide nothing.
  std::vector<std::string> left_out;
};

struct ConfigOptions {
  std::string preset = {}, rounding = {};  // empty: as in the file
  std::vector<std::string> settings = {};  // "a.b=c"
  const FamilyList* families = nullptr;    // the models that there are; needed
  // The model that the run starts from, null if that does not matter. If the file names no model, or another
  // one of that family, the run has that model, with those of its other settings that the file says.
  const ModelConfig* start = nullptr;
};

// --preset, or --set memory.preset, replaces the file's specs per role, error feedback and min_elements, not
// its overrides; --set takes TOML values and bare words. Throws UsageError with file, line, key, what was
// expected and the nearest known key.
RunConfig load_config(const std::string& path, const ConfigOptions& options);
// The same from text; `name` stands for the file in messages, and beside a config.toml there may be a run.
RunConfig parse_config(const std::string& text, const std::string& name, const ConfigOptions& options);

// The keys of settings and states that the run's optimizer does not have, "optimizer.beta3" with sgd.
// load_config() refuses them, but for those of the file that the file's own optimizer has or that a run wrote
// (its seal says so, or the log beside it has them too); a grid, whose settings may serve several rules,
// leaves them out.
std::vector<std::string> foreign_settings(const std::string& path, const ConfigOptions& options);

// The resolved configuration as TOML; load_config of it gives the same run. It has the settings and specs of
// the run's own optimizer; overrides may have more.
std::string to_toml(const RunConfig& config);

// The text of a run's config.toml: the same, and its checksum in a comment as the last line.
std::string sealed_config(const RunConfig& config);
// The checksum that this line has, and the one that it should have.
inline constexpr std::string_view kSeal = "# crc32 ";
struct Seal {
  std::string saved, found;
};
std::optional<Seal> read_seal(const std::string& text);  // nothing where there is no such line

// The keys in which two configurations differ, with both values as TOML; not the spec of a role that neither
// optimizer has, unless an override gives it.
struct ConfigDifference {
  std::string key, first, second;
};
std::vector<ConfigDifference> differences(const RunConfig& first, const RunConfig& second);

// Every key that a file may have, in order; those of lists as "memory.override.pattern". With a rule, its
// settings and defaults; else those of all rules, and where their defaults differ, the help has them.
struct ConfigKey {
  std::string name, default_value, range, help;  // the value as TOML; empty: none
};
std::vector<ConfigKey> all_config_keys(const FamilyList& families, std::optional<RuleName> rule = {});

}  // namespace lpmm
