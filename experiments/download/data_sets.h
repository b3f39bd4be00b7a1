// The public data sets that the program can download: where they come from and what they must be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lpmm {

struct DataFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string sha256;  // in hex; empty: its archive's vouches for it, and it has at most so many bytes
};

struct DataSet {
  std::string name;
  std::string address;              // the files lie below it
  std::string folder;               // they go there, below the folder of data sets
  std::vector<DataFile> files;      // the files that the program reads
  std::optional<DataFile> archive;  // a .tar.gz or .zip of the folder, where the files do not come one by one
};

const std::vector<DataSet>& data_sets();
std::vector<std::string_view> data_set_names();

// Throws UsageError with the nearest name where none has this one.
const DataSet& find_data_set(const std::string& name);

// One line: which files to put where, for want of a network.
std::string by_hand(const DataSet& set, const std::string& folder, const std::vector<DataFile>& missing);

}  // namespace lpmm
