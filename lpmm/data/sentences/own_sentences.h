// Sentences of the user's own, in tables that name their columns (lpmm/data/table.h).
#pragma once

#include <string>
#include <vector>

#include "lpmm/data/sentences/own_columns.h"
#include "lpmm/data/sentences/sentence_sets.h"
#include "lpmm/data/table.h"

namespace lpmm {

// The rows as examples of a set whose classes are known. Throws RunError naming file and line for a row that
// lacks one of its sentences, whose answer is no number, or none of the classes; or leaves it out, and says
// so, where `table` leaves out broken rows.
std::vector<SentenceExample> read_examples(Table& table, const SentenceColumns& columns,
                                           const SentenceSet& set);

// `source.path` is a folder with a table `train` and one to test on, `dev`, `validation`, `valid` or `val`,
// and `test` for kTestFile; or one table. Where there is none to test on, validation_share of the rows is
// drawn for it, the same for the same file, which standard error is told. Columns are those that
// source.columns names, else by usual names: sentence, text, ...; sentence1 and sentence2, ...; label, ...;
// score. Answers are numbers where their column is called score or they have fractions; else they are names
// of classes, in order, numbered ones by their numbers. An example has several where they are a list, of
// labels or of 1 and 0 for each class, have source.between between them, or are columns of 1 and 0. Columns
// that are not read are told of. Files of words, and of lists of them, are own_words.h's.
SentenceSet load_own_sentences(const SentenceSource& source);

}  // namespace lpmm
