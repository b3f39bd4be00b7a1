// The normalizer of a tokenizer.json, before the text is split: Unicode forms, lower case, accents.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace lpmm {

class Part;

// Normalizes UTF-8. Throws RunError naming the stage that makes more than `room` bytes of it.
using Normalizer = std::function<std::string(std::string, std::size_t room)>;

// The member "normalizer"; none gives the text back. Throws RunError for what is not supported.
Normalizer make_normalizer(const Part& file);
// BERT's, as `vocab.txt` alone implies it.
Normalizer bert_normalizer(bool clean_text, bool chinese, bool strip_accents, bool lowercase);

}  // namespace lpmm
