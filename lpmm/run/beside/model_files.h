// The files of a published model that a run keeps in its folder, beside its checkpoints: its tokenizer, its
// settings, how its pictures are normalised.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lpmm/data/images.h"
#include "lpmm/run/setup.h"

namespace lpmm {

inline constexpr const char *kModelFiles = "model_files", *kPixelsFile = "preprocessor_config.json";

// The folder of the run that a checkpoint is of; empty: it keeps none.
std::string model_files_of(const std::string& checkpoint);
// Returns the files of that checkpoint's tokenizer: the run's, unless `config` names others.
std::string saved_tokenizer_files(const std::string& checkpoint, const RunConfig& config);

// Mean and deviation of each channel, of values from 0 to 1.
struct Pixels {
  std::vector<double> mean, deviation;
};
// Reads them from a folder's preprocessor_config.json, else from timm's config.json; nothing if neither has
// them. Throws RunError naming file and key.
std::optional<Pixels> read_pixels(const std::string& folder);
// Into that folder, beside what else its preprocessor_config.json says.
void write_pixels(const std::string& folder, const Pixels& pixels);

// Data for the model of a checkpoint: where it has the same classes in another order, they are numbered as
// the model has them; where it numbers them, they get the model's names, with a line about it; where
// sentences that it `is_tested` on lack some of its classes, it keeps all of them. Pictures are normalised as
// its files say.
void take_from_model(Setup& setup, const std::string& checkpoint, bool is_tested = false);
// Images as the model of `setup`, else of train.init, has them. Throws RunError where it has other channels.
std::shared_ptr<const ImageData> fit_images(const Setup& setup, ImageData data);

// Makes the files that a run keeps: `fill` writes them into a folder beside, which gets its name when it is
// whole. Files that are there already may be left of a start that was killed: if their names are the same,
// they are replaced. Throws UsageError for anything else, and leaves that as it is.
void make_model_files(const std::filesystem::path& run,
                      const std::function<void(const std::filesystem::path& folder)>& fill);
// For a run that begins: the files of the checkpoint that it starts from (empty: none) go on with it, as do
// those of a tokenizer that its configuration names; its data.template takes the place of the model's own,
// and numbers of its pictures that no file says, or says otherwise, are written down. Throws as above, and
// RunError for what is neither file nor folder.
void keep_model_files(const std::string& checkpoint, const std::filesystem::path& run, const DataSource& data,
                      const Setup& setup);

}  // namespace lpmm
