// `lpmm data pack-images`: folders of pictures as one file that runs map into memory.
#include "experiments/pack/pack_images.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/data/images.h"

namespace lpmm {
namespace {

constexpr const char *kAsExif = "exif", *kAsStored = "as-stored";

struct PackArguments {
  PackOptions pack;
  std::string orient = kAsExif;
  bool overwrite = false, json = false;
};

int run_pack_images(const PackArguments& o) {
  check_overwrite(o.pack.output, o.overwrite);
  const InterruptGuard guard;
  Progress progress(o.json);
  PackOptions options = o.pack;
  options.as_stored = o.orient == kAsStored;
  Packed packed;
  try {
    packed = pack_images(options, progress.share_of("packing"));
  } catch (const Interrupted&) {
    progress.warn("interrupted; nothing is written");
    return kInterrupted;
  }
  if (packed.oriented > 0) {
    progress.warn(fmt::format(
        "{} of {} pictures have an orientation in their Exif data: they {}", packed.oriented,
        packed.train + packed.test,
        options.as_stored
            ? "stay as they are stored; --orient exif turns them as they are shown"
            : "were turned as they are shown; --orient as-stored leaves them, as torchvision does"));
  }
  print_answer({{"output", o.pack.output},
                {"train_images", packed.train},
                {"test_images", packed.test},
                {"classes", packed.classes},
                {"side", o.pack.side},
                {"oriented", packed.oriented},
                {"bytes", packed.bytes}},
               o.json);
  return kDone;
}

}  // namespace

void add_pack_images_command(CLI::App& data, Action& action) {
  auto o = std::make_shared<PackArguments>();
  CLI::App* command =
      data.add_subcommand("pack-images", "Turn folders of JPEGs and PNGs into a file for runs");
  command->add_option("DIR", o->pack.folder, "holds train/CLASS/PICTURE and test/CLASS/PICTURE, or val")
      ->required();
  command->add_option("OUT", o->pack.output, "file to write; its name ends in .images")
      ->required()
      ->check(kOutput);
  command->add_option("--size", o->pack.side, "pixels of a side of the square that is kept")
      ->capture_default_str()
      ->check(CLI::Range(1, kMostImageSide));
  command
      ->add_option("--scale-to", o->pack.scale_to,
                   "scale the shorter side to this before the middle is cut out (default: --size)")
      ->check(CLI::Range(1, kMostImageSide));
  command
      ->add_option("--orient", o->orient,
                   "exif: pictures that a camera stored turned are turned as they are shown; as-stored: not")
      ->check(CLI::IsMember({kAsExif, kAsStored}))
      ->capture_default_str();
  add_threads_option(*command, o->pack.threads);
  add_overwrite_option(*command, o->overwrite);
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(
      R"(Classes are the folders in the order of their names. One picture that does not decode, or a class that
only one of the two has, stops it, and nothing is written.
Example:
  lpmm data pack-images flowers flowers.images --size 224 --scale-to 256
  lpmm train CONFIG --set data.set=images --set data.path=flowers.images --out runs/flowers)");
  on_selected(*command, action, o, run_pack_images);
}

}  // namespace lpmm
