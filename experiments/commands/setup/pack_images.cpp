// `lpmm data pack-images`: folders of pictures as one file that runs map into memory.
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "experiments/commands/arguments.h"
#include "experiments/pack/framed.h"
#include "experiments/pack/pack_images.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/data/images.h"

namespace lpmm {
namespace {

struct PackArguments {
  PackOptions pack;
  std::string orient = kOrientExif;
  std::optional<double> share;
  bool is_bicubic = false, overwrite = false, json = false;
};

int run_pack_images(const PackArguments& o) {
  check_overwrite(o.pack.output, o.overwrite);
  const InterruptGuard guard;
  Progress progress(o.json);
  PackOptions options = o.pack;
  if (o.is_bicubic) options.frame.interpolation = Interpolation::kBicubic;
  options.frame.as_stored = o.orient == kOrientStored;
  options.source.asks_share = o.share.has_value();
  options.source.validation_share = o.share.value_or(options.source.validation_share);
  const auto begin = std::chrono::steady_clock::now();
  const Packed packed = pack_images(options, list_pictures(options.source), progress);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  for (const std::string& line : remarks(packed, options)) progress.warn(line);
  print_answer(
      {{"output", o.pack.output},
       {"train_images", packed.train},
       {"test_images", packed.test},
       {"test_images_are", packed.list.tested},
       {"classes", packed.classes},
       {"side", o.pack.frame.side},
       {"oriented", packed.oriented},
       {"left_out", packed.list.no_pictures.count + packed.list.other_formats.count + packed.broken.count},
       {"bytes", packed.bytes},
       {"images_per_second", static_cast<double>(packed.train + packed.test) / time.count()}},
      o.json);
  return kDone;
}

}  // namespace

void add_pack_images_command(CLI::App& data, Action& action) {
  auto o = std::make_shared<PackArguments>();
  CLI::App* command =
      data.add_subcommand("pack-images", "Turn folders of JPEGs and PNGs into a file for runs");
  command
      ->add_option(
          "DIR", o->pack.source.path,
          "holds CLASS/PICTURE; or train/CLASS/PICTURE and the same in test, val, validation, valid or "
          "dev; or a .csv, .tsv or .jsonl with columns file and label")
      ->required();
  command->add_option("OUT", o->pack.output, "file to write; its name ends in .images")
      ->required()
      ->check(kOutput);
  PictureFrame& frame = o->pack.frame;
  command->add_option("--size", frame.side, "pixels of a side of the square that is kept")
      ->capture_default_str()
      ->check(CLI::Range(1, kMostImageSide));
  command
      ->add_option("--scale-to", frame.scale_to,
                   "scale the shorter side to this before the middle is cut out (default: --size)")
      ->check(CLI::Range(1, kMostImageSide));
  command->add_flag("--bicubic", o->is_bicubic,
                    "scale bicubic, as many of timm's models want it (default: bilinear)");
  command
      ->add_option("--orient", o->orient,
                   "exif: pictures that a camera stored turned are turned as they are shown; as-stored: not")
      ->check(CLI::IsMember({kOrientExif, kOrientStored}))
      ->capture_default_str();
  command
      ->add_option(
          "--test", o->pack.source.test,
          "folder, or part that the table has in its column split, to test on (default: the first of "
          "test, val, validation, valid, dev)")
      ->check(kNotEmpty)
      ->type_name("NAME");
  command
      ->add_option("--columns", o->pack.source.columns,
                   "of a table: FILE,LABEL or FILE,LABEL,SPLIT (default: those of usual names)")
      ->check(kNotEmpty)
      ->type_name("NAMES");
  command->add_option("--validation-share", o->share,
                      "where there is no such folder: share of each class that is drawn to test on (default: "
                      "0.1)");
  command->add_option("--seed", o->pack.source.seed, "of that draw")->check(kUnsigned)->capture_default_str();
  command->add_flag("--skip-broken", o->pack.source.skips_others,
                    "leave out pictures that do not decode or are of other formats (default: an error)");
  add_threads_option(*command, o->pack.threads);
  add_overwrite_option(*command, o->overwrite);
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(
      R"(Classes are the folders in the order of their names (as text, so that 10 comes before 2), with all
pictures below them. Pictures are told by their first bytes; files that are none are counted and left
out. The draw is the same for the same names and seed. Columns of a table may also be called filename,
image, path, and class; split is optional; paths are seen from the table's folder, and labels that
are all numbers are in their order. Where something is wrong, nothing is written.
`lpmm train` packs a folder that data.path names by itself; this is for other settings.
Examples:
  lpmm data pack-images flowers flowers.images --size 224 --scale-to 256
  lpmm data pack-images labels.csv flowers.images --validation-share 0.2
  lpmm train CONFIG --set data.set=images --set data.path=flowers.images --out runs/flowers
  lpmm classify runs/flowers photo.jpg)");
  on_selected(*command, action, o, run_pack_images);
}

}  // namespace lpmm
