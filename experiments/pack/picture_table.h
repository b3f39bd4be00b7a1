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
// As list_pictures() says. What is in no part that is trained or tested on is named in list.not_used.
PictureParts read_picture_table(const PictureSource& source, PictureList& list);

}  // namespace lpmm
