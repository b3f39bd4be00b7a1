// NumPy's .npy files (format versions 1 and 2), read and written as a stream.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/files/files.h"

namespace lpmm {

// Reads '<f4', '<f2' and '<f8' in C order as fp32. Throws RunError that names the file and what is wrong with
// it: not an .npy file, another type or order, a shape that overflows, a length that does not fit the shape.
class NpyReader {
 public:
  explicit NpyReader(const std::string& path);
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t elements() const { return elements_; }
  // The next out.size() elements, at most those that are left. fp64 is rounded to the nearest fp32.
  void read(std::span<float> out);

 private:
  File file_;
  std::uint64_t at_ = 0;
  std::vector<std::int64_t> shape_;
  std::int64_t elements_ = 0;
  std::size_t element_bytes_ = 0;
  std::vector<std::byte> raw_;
};

// Writes the header of a C-order array of `type` ("<f4", "<i2", "<u2", "<u4", "|u1"); the data follow it.
void write_npy_header(File& file, std::string_view type, std::span<const std::int64_t> shape);

}  // namespace lpmm
