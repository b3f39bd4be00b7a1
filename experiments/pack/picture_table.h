// Pictures and their labels by a table: a .csv or .tsv.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/pack/picture_list.h"

namespace lpmm {

using PictureClasses = std::map<std::string, std::vector<std::string>>;  // names, paths of pictures
struct PictureParts {
  PictureClasses train, test;
};

bool is_picture_table(const std::string& path);  // by its ending
// Reads a table as list_pictures() says. Parts that are neither trained nor tested on go to list.not_used.
PictureParts read_picture_table(const PictureSource& source, PictureList& list);

}  // namespace lpmm
