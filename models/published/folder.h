// The folder of a published model, file by file and key by key: what import names as not used, what a run
// keeps, and what an export writes back. table.h says which is which.
#pragma once

#include <string>
#include <vector>

#include "lpmm/program/family.h"
#include "lpmm/program/published_facts.h"
#include "models/published/table.h"

namespace lpmm {

// "README.md, config.json: some_key": files in the folder of the weights at `path`, and keys of their
// config.json, that are not used; empty: all are. If a folder holds other files beside named weights, it
// lists only those that its publisher would put there.
std::string unused_beside(const std::string& path, const Published& published);

// Rates of dropout above 0 of config.json, or that its library takes where that has none; training here does
// not take them over: "attn_pdrop = 0.1".
std::string dropout_beside(const std::string& path, const Published& published);

// Copies what is kept into the empty folder `to`: so that nothing is wanted of the download any more.
// `vocabulary`, where it is not empty, is the file or folder that the tokenizer comes from instead. For
// pictures whose normalization no file says, writes what is usual for the publisher, where they have three
// channels; where config.json names another type than the weights have, it names theirs in the copy. Returns
// a sentence of each. Throws RunError for files that cannot be copied.
std::vector<std::string> keep_published(const std::string& path, const std::string& vocabulary,
                                        const Published& published, int channels, const std::string& to);

// The model_type of the kept config.json; empty: it has none.
std::string kept_type(const PublishedFacts& facts);
// `written`, with what the kept config.json says besides and still holds of the model: what it says of the
// classes only while they are the same.
Json with_kept_keys(const PublishedFacts& facts, const Publisher& publisher, std::string_view type,
                    Json written);
// Copies kept files of that kind into an exported folder; returns their names.
std::vector<std::string> write_back(const PublishedFacts& facts, const Publisher& publisher, Beside with,
                                    const std::string& to);
// The kept files of vectors of sentences that an exported folder does not have; empty: none.
std::string not_written(const PublishedFacts& facts, const Publisher& publisher, const std::string& folder);
// Removes what a library would read beside the model in that folder and that an earlier export left there:
// files of its tables that are neither kept ones nor in `written`.
void remove_others(const PublishedFacts& facts, const Publisher& publisher,
                   const std::vector<std::string>& written, const std::string& folder);
// Writes the normalisation of pictures and the number of classes, as timm's pretrained_cfg has them.
void add_pixels(const PublishedFacts& facts, std::int64_t classes, Json& written);

}  // namespace lpmm
