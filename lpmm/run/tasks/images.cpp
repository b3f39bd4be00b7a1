// Images: of a public set, of a path, or drawn.
#include <fmt/format.h>

#include "lpmm/base/error.h"
#include "lpmm/data/image_file.h"
#include "lpmm/data/image_sets.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/tasks/task.h"
#include "lpmm/run/tasks/tasks.h"

namespace lpmm {
namespace {

class ImageTask : public Task {
 public:
  // Counts and shapes, without pixels.
  void open(RunConfig& config, std::unique_ptr<Tokenizer>, const ProgressCall&) override {
    const auto& data = config.data;
    if (data.set != kImagesByPath && !data.text.path.empty()) {
      throw UsageError(fmt::format("data.path = {} is for data.set = {}, which is {} here", data.text.path,
                                   kImagesByPath, data.set));
    }
    if (!data.text.test_path.empty() || !data.text.columns.empty()) {
      throw UsageError(
          fmt::format("data.test_path and data.columns are for folders and tables of pictures, and the "
                      "images of {} are others",
                      data.text.path.empty() ? data.set : data.text.path));
    }
    if (data.set != kDrawnSet) {
      described_ = describe_images(data.set, data.text.path);
      const std::string path = data.set == kImagesByPath ? find_data(data.text.path) : "";
      if (is_image_file(path)) file_ = path;
      return;
    }
    check_drawn(data.train_images, data.test_images, data.side);
    described_.train.height = described_.train.width = data.side;
    described_.train.count = data.train_images;
    described_.test.count = data.test_images;
  }
  void fit(ModelConfig& model) const override {
    model.height = described_.train.height;
    model.width = described_.train.width;
    model.channels = described_.train.channels;
    model.classes = described_.train.classes;
  }
  DataSize size() const override {
    const ImageSet& train = described_.train;
    const std::int64_t values = train.values(), held = train.mapped == nullptr ? values : 0;
    DataSize size;
    size.train_examples = train.count;
    size.test_examples = described_.test.count;
    size.bytes = size.loading_bytes =
        (size.train_examples + size.test_examples) * (held + std::int64_t{sizeof(std::uint16_t)});
    size.example_bytes = values * std::int64_t{sizeof(float)} + std::int64_t{sizeof(std::int32_t)};
    return size;
  }
  std::shared_ptr<const DataSource> source(const Setup& setup, Pool& pool) const override {
    const auto& data = setup.config.data;
    return fit_images(setup, data.set == kDrawnSet ? draw_images(data.train_images, data.test_images,
                                                                 data.draw_seed, pool, data.side)
                                                   : load_images(data.set, data.text.path));
  }
  Json identity() const override {
    if (file_.empty()) return {};
    return {{"images", described_.train.count}, {"crc32", image_file_checksum(file_)}};
  }
  std::vector<std::string> class_names() const override { return described_.class_names; }

 private:
  ImageData described_;
  std::string file_;  // of packed images; empty: they are others
};

void choose_images(RunConfig& config) {
  if (config.data.set == kAutoSet) config.data.set = has_cifar10(data_folder()) ? "cifar10" : kDrawnSet;
}

}  // namespace

constinit const TaskRow kImageTask{
    .reads = "images",
    .by_path = kImagesByPath,
    .keys = {"augment", "side"},
    .keys_by_path = {"columns", "skip_broken"},
    .picture_set = kImagesByPath,
    .sets =
        [] {
          return names_of(named_image_sets(), {kImagesByPath, kDrawnSet, kAutoSet});
        },
    .make = make_task<ImageTask>,
    .choose_set = choose_images};

}  // namespace lpmm
