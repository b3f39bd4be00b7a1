// The formats of `lpmm quantize`: a spec of packed memory, or a code book of quantiles.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/device.h"
#include "lpmm/files/files.h"

namespace lpmm {

// Elements held at a time; a multiple of every block, packing group and panel of quantiles.
inline constexpr std::int64_t kStoredChunk = kernels::kQuantilePanel;

class Stored {
 public:
  virtual ~Stored() = default;
  Stored() = default;
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;

  virtual std::string name() const = 0;
  virtual bool is_signed() const = 0;
  // The bits per element of an array of so many elements, steps and code books included.
  virtual double bits_per_element(std::int64_t elements) const = 0;
  // after <- what is stored of `before`, the elements from `first` on, a multiple of kStoredChunk.
  virtual void store(std::int64_t first, std::span<const float> before, std::span<float> after) = 0;
  // The codes of the last chunk, one per element, each as the integer it stands for.
  virtual const char* code_type() const = 0;  // as an .npy file names it
  virtual void write_codes(File& file) const = 0;
};

// Calls with all chunks of an array, in order.
using ChunkVisitor = std::function<void(std::int64_t first, std::span<const float> values)>;
using ChunkSource = std::function<void(const ChunkVisitor& visit)>;

// Makes one by a spec, or by the name of a code book, whose levels are made from the chunks. Throws
// UsageError if the text is neither, or asks for steps of rows of more than a chunk.
std::unique_ptr<Stored> make_stored(std::string_view spec, Device& host,
                                    const std::vector<std::int64_t>& shape, std::uint64_t seed,
                                    const ChunkSource& chunks);

}  // namespace lpmm
