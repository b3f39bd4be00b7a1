// Packed image files: the header, the names of the classes, labels, pixels.
#include "lpmm/data/image_file.h"

#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  static lpmm::fuzz::MemoryFile file;
  file.set(bytes);
  const lpmm::ImageFileFacts facts = lpmm::read_image_facts(file.path());
  lpmm::fuzz::must(std::ssize(facts.names) >= 2 && facts.train >= 1 && facts.test >= 1);
  const lpmm::ImageData data = lpmm::open_image_file(file.path());
  lpmm::Batch batch;
  data.make_batch({1, 1, 1, true}, 0, 0, 0, batch);
  data.make_test_batch(data.test.count - 1, 1, batch);
}
