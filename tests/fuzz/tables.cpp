// Tables of a user's own sentences, files of words, and the examples that they become.
#include "lpmm/data/sentences/own_sentences.h"

#include <algorithm>

#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  static lpmm::fuzz::MemoryFile file;
  static constexpr const char* kNames[] = {"rows.csv", "rows.tsv", "rows.jsonl", "rows.json", "rows.conll"};
  static const std::string folder = [] {
    std::string made = lpmm::fuzz::memory_folder();
    for (const char* name : kNames) lpmm::fuzz::place(made, name, file);
    return made;
  }();
  if (bytes.empty()) return;
  // The first byte says how the rest is read.
  const auto flags = bytes[0];
  file.set(bytes.subspan(1));
  lpmm::SentenceSource source{.set = std::string(lpmm::kSentencesByPath)};
  if ((flags & 1) != 0) source.columns = "a,b";
  if ((flags & 2) != 0) source.between = ";";
  source.skips_broken = (flags & 4) != 0;
  for (const char* name : kNames) {
    source.path = folder + "/" + name;
    lpmm::fuzz::read([&] {
      const lpmm::SentenceSet set = lpmm::load_own_sentences(source);
      for (const auto* examples : {&set.train, &set.test}) {
        for (const lpmm::SentenceExample& example : *examples) {
          const auto is_class = [&](std::int32_t label) {
            return (label >= 0 && label < std::ssize(set.labels)) || label == lpmm::kNotTold;
          };
          lpmm::fuzz::must(set.tells != lpmm::Tells::kClass || is_class(example.label));
          lpmm::fuzz::must(std::ranges::all_of(example.labels, is_class));
          lpmm::fuzz::must(set.tells != lpmm::Tells::kWords || example.words.size() == example.labels.size());
        }
      }
    });
  }
}
