// What each publisher puts into the folder of a model, file by file and key by key: import, export, `lpmm
// info` and the tests go by these tables. What no row names is said to be not used.
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
};

struct KeyRow {
  std::string_view key;    // of config.json; "a.b" is the key b of the object a; * stands for any text
  std::string_view types;  // which models have it, with spaces between; empty: all
  Use use;
  std::string_view means;
  std::string_view absent = {};  // what its library takes where the key is absent, as JSON, if that matters
};

struct Publisher {
  std::string_view name;  // as in Published::by
  std::span<const FileRow> files;
  std::span<const KeyRow> keys;
  // What pictures' channels are normalised by where no file says it, of values from 0 to 1; 0: nothing usual.
  double mean[3], deviation[3];
};

std::span<const Publisher> publishers();
const Publisher& publisher_of(std::string_view name);
// The row of a file, or of a key in the config.json of such a model; null: there is none, as for folders.
const FileRow* find_file(const Publisher& publisher, std::string_view name);
const KeyRow* find_key(const Publisher& publisher, std::string_view type, std::string_view key);
// Whether a type is one of several with spaces between.
bool is_among(std::string_view type, std::string_view types);
// Whether the row is of models of that type.
bool is_of(const KeyRow& row, std::string_view type);

}  // namespace lpmm
