#include "experiments/quantiles/stored.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "experiments/quantiles/code_book.h"
#include "kernels/formats/codec.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/policy.h"
#include "lpmm/memory/spec.h"

namespace lpmm {
namespace {

class StoredBySpec : public Stored {
 public:
  StoredBySpec(const Spec& spec, Device& device, std::int64_t longest, std::uint64_t seed)
      : spec_(spec),
        device_(device),
        seed_(seed),
        codes_(static_cast<std::size_t>(code_bytes(spec.format, longest) + 63) / 64),
        steps_(static_cast<std::size_t>(step_bytes(spec, longest) / 2)) {}
  std::string name() const override { return to_string(spec_); }
  bool is_signed() const override { return lpmm::is_signed(spec_.format.map); }
  double bits_per_element(std::int64_t elements) const override {
    return lpmm::bits_per_element(spec_, elements);
  }
  void store(std::int64_t first, std::span<const float> before, std::span<float> after) override {
    count_ = std::ssize(before);
    std::fill(steps_.begin(), steps_.end(), std::uint16_t{0});
    const Noise noise = {seed_, 0, 0, noise_stream(Role::kParameter),
                         static_cast<std::uint32_t>(first / kGroup)};
    device_.encode({view(), 0, count_, before.data(), noise});
    device_.decode(view(), 0, count_, after.data());
  }
  const char* code_type() const override {
    if (spec_.format.map == Map::kFp32) return "<u4";
    if (spec_.format.map == Map::kBf16) return "<u2";
    return has_signed_codes(spec_.format.map) ? "<i2" : "|u1";
  }
  void write_codes(File& file) const override {
    const Format format = spec_.format;
    const std::uint8_t* stored = codes_.data()->bytes;
    const auto count = static_cast<std::size_t>(count_);
    if (!is_packed(format)) {
      file.write(std::as_bytes(std::span(stored, count * (format.bits / 8U))));
    } else if (has_signed_codes(format.map)) {
      std::vector<std::int16_t> codes(count);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t code = load_code(stored, format, static_cast<std::int64_t>(i));
        codes[i] = static_cast<std::int16_t>(sign_extend(code, format.bits));
      }
      file.write(std::as_bytes(std::span(codes)));
    } else {
      std::vector<std::uint8_t> codes(count);
      for (std::size_t i = 0; i < count; ++i) {
        codes[i] = static_cast<std::uint8_t>(load_code(stored, format, static_cast<std::int64_t>(i)));
      }
      file.write(std::as_bytes(std::span(codes)));
    }
  }

 private:
  struct alignas(64) Line {
    std::uint8_t bytes[64];
  };
  kernels::RoleView view() { return {spec_, codes_.data()->bytes, steps_.data(), count_}; }

  Spec spec_;
  Device& device_;
  std::uint64_t seed_;
  std::vector<Line> codes_;
  std::vector<std::uint16_t> steps_;
  std::int64_t count_ = 0;
};

class StoredByCodeBook : public Stored {
 public:
  StoredByCodeBook(const CodeBookSpec& spec, Device& device, const ChunkSource& chunks) : spec_(spec) {
    const PanelSource relative = [&](const PanelVisitor& visit) {
      chunks([&](std::int64_t, std::span<const float> values) {
        relative_.resize(values.size());
        (void)relative_to_steps(values, spec_.block, relative_);
        visit(relative_.data(), std::ssize(relative_));
      });
    };
    levels_ = quantile_levels(device, relative, spec.bits, spec.is_signed);
  }
  std::string name() const override { return to_string(spec_); }
  bool is_signed() const override { return spec_.is_signed; }
  double bits_per_element(std::int64_t elements) const override {
    return lpmm::bits_per_element(spec_, elements);
  }
  void store(std::int64_t, std::span<const float> before, std::span<float> after) override {
    relative_.resize(before.size());
    codes_.assign(before.size(), 0);
    const std::vector<std::uint16_t> steps = relative_to_steps(before, spec_.block, relative_);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::uint16_t step = steps[i / static_cast<std::size_t>(spec_.block)];
      if (step != 0) codes_[i] = static_cast<std::uint8_t>(nearest_level(levels_, relative_[i]));
      after[i] = step != 0 ? levels_[codes_[i]] * bf16_to_float(step) : 0.0F;
    }
  }
  const char* code_type() const override { return "|u1"; }
  void write_codes(File& file) const override { file.write(std::as_bytes(std::span(codes_))); }

 private:
  CodeBookSpec spec_;
  Levels levels_;
  std::vector<float> relative_;
  std::vector<std::uint8_t> codes_;
};

}  // namespace

std::unique_ptr<Stored> make_stored(std::string_view text, Device& host,
                                    const std::vector<std::int64_t>& shape, std::uint64_t seed,
                                    const ChunkSource& chunks) {
  if (names_code_book(text)) return std::make_unique<StoredByCodeBook>(parse_code_book(text), host, chunks);
  const TensorInfo array{"", shape};
  const Spec spec = fit_spec(parse_spec(text), array.traits());
  if (!has_blocks(spec) && array.elements() > kStoredChunk) {
    throw UsageError(
        fmt::format("{} needs the whole array at once, and {} elements are more than {}; use blockN", text,
                    array.elements(), kStoredChunk));
  }
  return std::make_unique<StoredBySpec>(spec, host, std::min(kStoredChunk, array.elements()), seed);
}

}  // namespace lpmm
