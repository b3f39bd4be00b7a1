// Sentences whose words each have a label, as named entities have: of files with a word per line, as CoNLL's
// tasks have them, or of lists in JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/data/sentences/sentence_sets.h"
#include "lpmm/data/table.h"

namespace lpmm {

// The words of a line, between spaces and tabs.
std::vector<std::string> split_at_spaces(std::string_view line);

// The endings of such files of lines; each may have .gz behind it.
inline constexpr std::string_view kWordEndings[] = {".conll", ".iob", ".iob2", ".bio", ".txt"};
bool is_word_file(std::string_view path);
// The file whose name is `stem` and one of these endings; empty where there is none. `stem` has its folder.
std::string find_word_file(const std::string& stem);
// Returns true if a table has lists of words, by usual names or as `columns` names them (SentenceSource).
bool holds_words(const Table& table, const std::string& columns);

// A line has the word first and its label last, spaces or a tab before each; an empty line ends a sentence,
// and one of -DOCSTART- is none. In .jsonl and .json a sentence is an object with lists: words, tokens; tags,
// ner_tags, labels, pos_tags, or those that source.columns names. Classes are in the order of their names.
// `read` is the file `train` where that is a table. `test` may be empty. Throws RunError naming file and
// line.
void read_words(const std::string& train, std::optional<Table> read, const std::string& test,
                const SentenceSource& source, SentenceSet& set);

}  // namespace lpmm
