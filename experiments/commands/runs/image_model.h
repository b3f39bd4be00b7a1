// A model of images as commands take it from a checkpoint.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/pack/framed.h"
#include "kernels/cpu.h"
#include "lpmm/data/images.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/program/program.h"
#include "lpmm/run/config.h"

namespace lpmm {

class ImageModel {
 public:
  // Loads a checkpoint from find_checkpoint(), with memory for the parameters alone. Pictures are normalised
  // and cut as the run's files say it, else as its data has them; sides of `asked` that are not 0 come first.
  // Throws UsageError for a model that reads something else.
  ImageModel(const std::string& checkpoint, int threads, const std::string& compute,
             const PictureFrame& asked);

  const PictureFrame& frame() const { return frame_; }
  Pool& pool() { return device_.host_pool(); }
  // Names of classes in order: the checkpoint's, else its public data set's, else numbers.
  const std::vector<std::string>& class_names() const { return names_; }
  // Returns the probability of each class for each picture, cut to `frame()`: (pictures, classes).
  std::vector<double> probabilities(std::span<const FramedPicture> pictures);

 private:
  void take_frame(const PictureFrame& asked);
  void take_pixels();
  RunConfig config_;
  CpuDevice device_;
  std::string checkpoint_, files_;
  PictureFrame frame_;
  ImageData data_;  // normalises pictures, which are its test set
  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelMemory> memory_;
  std::unique_ptr<Buffers> buffers_;
  std::unique_ptr<Program> program_;
  std::vector<std::string> names_;
};

// e^logit of each, divided by their sum.
std::vector<double> probabilities_of(std::span<const float> logits);

}  // namespace lpmm
