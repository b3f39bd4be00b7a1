// The files and keys that each publisher puts into the folder of a model: import, export, `lpmm info` and the
// tests go by these tables. Files and keys that no row names are reported as not used.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lpmm {

enum class Use : std::uint8_t {
  kRead,     // the model is made from it; what an export does not say anew is written back
  kWritten,  // read, and written only as the exported model has it
  kKept,     // changes nothing here; written back as it came
  kUnused    // known, and of no use here: import names it
};
std::string_view to_string(Use use);

// A file that is written back goes with the weights, with the tokenizer, or with the vectors of sentences.
enum class Beside : std::uint8_t { kModel, kTokenizer, kSentences };

struct FileRow {
  std::string_view name;  // in the folder, "1_Pooling/config.json"; * stands for any text
  Use use;
  std::string_view means;
  Beside with = Beside::kModel;
  // The keys of its object, or of those in its list, that are read or change nothing here; * stands for any
  // text. Others are named as not used; empty: none is.
  std::string_view keys = {};
};

struct KeyRow {
  std::string_view key;    // of config.json; "a.b" is the key b of the object a; * stands for any text
  std::string_view types;  // the models that have it, with spaces between; empty: all
  Use use;
  std::string_view means;
  std::string_view absent = {};  // its library's default for an absent key, as JSON, if that matters
};

struct Publisher {
  std::string_view name;  // as in Published::by
  std::span<const FileRow> files;
  std::span<const KeyRow> keys;
  // The usual normalisation of channels, of values from 0 to 1, where no file says it; 0: there is none.
  double mean[3], deviation[3];
};

std::span<const Publisher> publishers();
const Publisher& publisher_of(std::string_view name);
// The row of a file, or of a key in the config.json of such a model; null: there is none, as for folders.
const FileRow* find_file(const Publisher& publisher, std::string_view name);
const KeyRow* find_key(const Publisher& publisher, std::string_view type, std::string_view key);
// Returns true if a type is one of several, which are separated by spaces; a key of several, where * stands
// for any text.
bool is_among(std::string_view type, std::string_view types);
// Returns true if the row applies to models of that type.
bool is_of(const KeyRow& row, std::string_view type);

}  // namespace lpmm
