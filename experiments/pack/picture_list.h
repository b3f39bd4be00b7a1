// Finds the pictures of each class, in folders or by a table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lpmm {

struct PictureSource {
  std::string path;       // a folder, or a .csv or .tsv
  std::string test;       // the folder, or the part of the table, to test on; empty: the first of kTestParts
  std::string test_path;  // a folder of CLASS/ or a table, to test on in place of such a part
  std::string columns;    // those of tables: "FILE,LABEL" or "FILE,LABEL,SPLIT"; empty: those of usual names
  double validation_share = 0.1;  // share of each class to test on if there is no such part
  bool asks_share = false;        // the user asked for that share: a test part beside it is an error
  std::uint64_t seed = 1;         // the seed of that share
  bool skips_others = false;  // leaves out pictures of other formats, and rows that name none; else errors
};
inline constexpr const char* kSkipAdvice =
    "data.skip_broken = true (of `lpmm data pack-images`: --skip-broken) leaves them out";
inline constexpr const char* kTestParts[] = {"test", "val", "validation", "valid", "dev"};

struct LeftOut {
  std::int64_t count = 0;
  std::string first;
  void add(const std::string& path) {
    if (count++ == 0) first = path;
  }
};

struct PictureList {
  std::vector<std::string> names;     // the classes
  std::vector<std::string> paths;     // training pictures first, each class after the other
  std::vector<std::uint16_t> labels;  // one for each picture
  std::int64_t train = 0;
  std::string tested;                 // a description of the test pictures, for people
  LeftOut no_pictures;                // files
  LeftOut other_formats;              // pictures, see formats.h
  std::vector<std::string> not_used;  // other folders or parts
};

// A folder holds train/CLASS/ and a folder of kTestParts with the same classes, or CLASS/ alone. Pictures lie
// anywhere below the folder of their class; classes are in the order of their names, as text. A table has a
// line of names: file (filename, image, path), label (class), and split where it says the parts; paths are
// seen from its folder, and labels that are all numbers are in their order. Names are known in any case.
// Without a test part a share of each class is drawn: the same for the same names and seed.
// Throws RunError naming the file, class or row: no pictures, fewer than two classes, classes that only one
// part has; UsageError where `source` asks for what is not there.
PictureList list_pictures(const PictureSource& source);

// The pictures among the files below a folder, or the file itself. Files that are none are added to
// `no_pictures`, those of formats that are not decoded to `other_formats`, where that is not null.
std::vector<std::string> pictures_below(const std::string& path, LeftOut& no_pictures,
                                        LeftOut* other_formats = nullptr);

}  // namespace lpmm
