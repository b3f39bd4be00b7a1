// Which columns of a user's table hold sentences, and which their answers.
#pragma once

#include <string>
#include <vector>

#include "lpmm/data/sentences/sentence_sets.h"
#include "lpmm/data/table.h"

namespace lpmm {

// The columns of a row, from 0. Without a second sentence there are no pairs.
struct SentenceColumns {
  int first, second, answer;
  int list = -1;               // of Table::lists: in place of `answer`, all classes of an example
  std::size_t classes = 0;     // of `list`: it has 1 or 0 for each of so many; 0: it has labels
  std::vector<int> each = {};  // in place of it too: columns of 1 and 0, each a class
  std::string between = {};    // of several classes in `answer`; empty: there is one
  bool tells_several() const { return answer < 0 || !between.empty(); }
};

// The columns that source.columns names, else those of usual names. Throws RunError naming those that there
// are.
SentenceColumns columns_of(const Table& table, const SentenceSource& source);
// The name of the answer's columns for messages: "label", "toxic+insult".
std::string name_of_answer(const Table& table, const SentenceColumns& columns);
// Returns true if the answer's name says that it is a number.
bool is_score(const Table& table, const SentenceColumns& columns);
// Says which columns are read where others are left out, or where a file has usual names for two things.
void tell_columns(const Table& table, const SentenceColumns& columns, bool is_number);

}  // namespace lpmm
