// IDX files: MNIST (LeCun et al. 1998), Fashion-MNIST (Xiao et al. 2017) and others that took their format.
// Big-endian: a magic number, the count, of images their lines and columns; then bytes.
#pragma once

#include <string>

#include "lpmm/data/images.h"

namespace lpmm {

// Returns true if a folder holds train-images-idx3-ubyte, as it is or as .gz.
bool has_idx(const std::string& folder);
// {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte of a folder, each as it is or as .gz. The
// set is called `name`. Its classes are the labels of the training images, up to the largest. Throws RunError
// naming the file: missing, cut off, longer than its header says, of other sizes than the file beside it, a
// test label that no training image has.
ImageData load_idx(const std::string& folder, const std::string& name);

}  // namespace lpmm
