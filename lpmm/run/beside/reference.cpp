#include "lpmm/run/beside/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <utility>

#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/ranks/ranks.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr const char *kReferenceTensor = "differences", *kReferenceFormat = "lpmm reference",
                     *kReferenceChecksum = "crc32", *kReferenceWeights = "weights";

Metadata metadata_of(const ReferredData& data, std::span<const float> numbers) {
  Metadata metadata = data.reference_key();
  metadata["format"] = kReferenceFormat;
  metadata[kReferenceChecksum] = fmt::format("{:08x}", crc32(std::as_bytes(numbers)));
  return metadata;
}

}  // namespace

std::vector<float> ask_reference(const ReferredData& data, Program& program, const ModelMemory& memory,
                                 const Buffers& buffers, int examples, const ProgressCall& progress) {
  Batch batch;
  std::vector<float> own, more;
  Ranks& ranks = memory.ranks();
  const std::int64_t all = data.all_examples(), batches = (all + examples - 1) / examples;
  // Neighbouring batches are of one rank, so that what ranks found is in order.
  const std::int64_t end = batches * (ranks.rank() + 1) / ranks.size();
  for (std::int64_t i = batches * ranks.rank() / ranks.size(); i < end && !InterruptGuard::asked(); ++i) {
    const std::int64_t first = i * examples;
    data.make_reference_batch(first, std::min<std::int64_t>(examples, all - first), batch);
    program.evaluate(memory, buffers, batch, &more);
    own.insert(own.end(), more.begin(), more.end());
    if (progress) progress(std::min(all, first + examples), all);
  }
  ranks.now_in(memory.last_step(), "reference");
  if (ranks.any(InterruptGuard::asked())) throw Interrupted();
  std::vector<float> numbers = ranks.all_of<float>(own);
  const auto lost = std::ranges::find_if(numbers, [](float x) { return !std::isfinite(x); });
  if (lost != numbers.end()) {
    throw RunError(
        fmt::format("{}: of pair {} the model says a probability that is no number, before it is trained: "
                    "start from other weights, or compute in fp32 (train.compute)",
                    data.name(), lost - numbers.begin() + 1));
  }
  return numbers;
}

std::string weights_checksum(const ModelMemory& memory) {
  std::uint32_t sum = 0;
  std::vector<float> values;
  for (int t = 0; t < memory.tensors(); ++t) {
    const std::int64_t all = memory.info(t).elements();
    for (std::int64_t first = 0; first < all; first += std::ssize(values)) {
      values.resize(static_cast<std::size_t>(std::min<std::int64_t>(all - first, 1 << 20)));
      memory.read(t, first, values);
      sum = crc32(std::as_bytes(std::span(values)), sum);
    }
  }
  return fmt::format("crc32 {:08x}", sum);
}

std::string referred_weights(const std::string& run) {
  const std::string path = fs::path(run) / kReferenceFile;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return "";
  try {
    const SafetensorsFile file(path);
    const auto at = file.metadata().find(kReferenceWeights);
    return at == file.metadata().end() ? "" : at->second;
  } catch (const RunError&) {
    return "";
  }
}

void keep_reference(const std::string& run, const ReferredData& data, const std::vector<float>& numbers,
                    const std::string& weights) {
  const SafetensorsSource tensor{kReferenceTensor, "F32", {std::ssize(numbers)}, [&](const auto& sink) {
                                   sink(std::as_bytes(std::span(numbers)));
                                 }};
  Metadata metadata = metadata_of(data, numbers);
  metadata[kReferenceWeights] = weights;
  write_safetensors(fs::path(run) / kReferenceFile, metadata, {&tensor, 1});
}

std::optional<std::vector<float>> kept_reference(const std::string& run, const ReferredData& data,
                                                 std::string& why) {
  const std::string path = fs::path(run) / kReferenceFile;
  const auto nothing = [&](const std::string& what) {
    why = fmt::format("{}: {}", path, what);
    return std::optional<std::vector<float>>();
  };
  std::error_code error;
  if (!fs::exists(path, error)) return nothing("is not there");
  std::vector<float> numbers(static_cast<std::size_t>(data.reference_size()));
  try {
    const SafetensorsFile file(path);
    const auto said = [&](const std::string& name) {
      const auto at = file.metadata().find(name);
      return at == file.metadata().end() ? "" : at->second;
    };
    if (said("format") != kReferenceFormat) return nothing("is no reference");
    for (const auto& [name, value] : data.reference_key()) {
      if (said(name) == value) continue;
      return nothing(fmt::format("is of another {}: {} there, {} now", name, said(name), value));
    }
    const SafetensorsEntry* entry = file.find(kReferenceTensor);
    if (entry == nullptr || entry->dtype != "F32" || entry->bytes != sizeof(float) * numbers.size()) {
      return nothing(fmt::format("has not {} numbers", numbers.size()));
    }
    file.read(*entry, 0, std::as_writable_bytes(std::span(numbers)));
    const bool are_numbers = std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); });
    if (!are_numbers || metadata_of(data, numbers).at(kReferenceChecksum) != said(kReferenceChecksum)) {
      return nothing("is damaged: its checksum is another");
    }
  } catch (const RunError& e) {
    why = e.what();
    return {};
  }
  return numbers;
}

std::shared_ptr<const DataSource> with_asked_reference(const std::shared_ptr<const DataSource>& data,
                                                       const std::string& run, Program& program,
                                                       const ModelMemory& memory, const Buffers& buffers,
                                                       int examples, const ProgressCall& progress) {
  const ReferredData* referred = data->referred();
  if (referred == nullptr) return data;
  std::vector<float> numbers = ask_reference(*referred, program, memory, buffers, examples, progress);
  if (!run.empty()) keep_reference(run, *referred, numbers, weights_checksum(memory));
  return referred->with_reference(std::move(numbers));
}

std::shared_ptr<const DataSource> with_kept_reference(const std::shared_ptr<const DataSource>& data,
                                                      const std::string& run) {
  const ReferredData* referred = data->referred();
  if (referred == nullptr) return data;
  std::string why;
  std::optional<std::vector<float>> numbers = kept_reference(run, *referred, why);
  if (numbers) return referred->with_reference(*std::move(numbers));
  throw RunError(fmt::format(
      "{}. The run compares with what it holds: put the file, or the data, back to go on; or start "
      "a new run from its weights (--init {} with another --out), which is compared with these",
      why, run));
}

}  // namespace lpmm
