// Records of CIFAR-10's files.
#include "lpmm/data/images.h"

#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  lpmm::ImageSet set;
  lpmm::append_cifar_records(bytes, "fuzz", 0, set);
  lpmm::fuzz::must(set.labels.size() == static_cast<std::size_t>(set.count) &&
                   set.pixels.size() == static_cast<std::size_t>(set.count) * 3072);
  for (const std::uint16_t label : set.labels) lpmm::fuzz::must(label < set.classes);
}
