// The folder of a published model, file by file and key by key: what import names as not used, what a run
// keeps, and what an export writes back. table.h says which is which.
#pragma once

#include <string>

#include "lpmm/program/family.h"
#include "lpmm/program/published_facts.h"
#include "models/published/table.h"

namespace lpmm {

// "README.md, config.json: some_key": files in the folder of the weights at `path`, and keys of their
// config.json, that are not used; empty: all are. Of a folder that holds other files beside named weights,
// only those that its publisher would put there.
std::string unused_beside(const std::string& path, const Published& published);

// Copies what is kept into the folder `to`, which is made anew: so that nothing is wanted of the download any
// more. `vocabulary`, where it is not empty, is the file or folder that the tokenizer comes from instead. For
// pictures whose normalization no file says, writes what is usual for the publisher, where they have three
// channels; returns a sentence that says so, else an empty one. Throws RunError for files that cannot be
// copied.
std::string keep_published(const std::string& path, const std::string& vocabulary, const Published& published,
                           int channels, const std::string& to);

// `written`, with what the kept config.json says besides and still holds of the model.
Json with_kept_keys(const PublishedFacts& facts, const Publisher& publisher, std::string_view type,
                    Json written);
// Copies kept files of that kind into an exported folder.
void write_back(const PublishedFacts& facts, const Publisher& publisher, Beside with, const std::string& to);
// How pictures are normalised, and classes counted, as timm's pretrained_cfg has it.
void add_pixels(const PublishedFacts& facts, std::int64_t classes, Json& written);

}  // namespace lpmm
