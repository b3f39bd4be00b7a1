// NumPy's .npy files (format versions 1 and 2), read and written as a stream.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lpmm {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

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
  std::string path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
  std::vector<std::int64_t> shape_;
  std::int64_t elements_ = 0;
  std::size_t element_bytes_ = 0;
  std::vector<std::uint8_t> raw_;
};

// Writes a C-order array of `type`: "<f4", "<i2", "<u2", "|u1", "<u4". Throws RunError where it cannot.
class NpyWriter {
 public:
  NpyWriter(const std::string& path, std::string_view type, std::span<const std::int64_t> shape);
  void write(const void* data, std::size_t bytes);
  void close();  // reports what buffered writes hid; a file that is not closed is not complete

 private:
  [[noreturn]] void fail() const;
  std::string path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
};

}  // namespace lpmm
