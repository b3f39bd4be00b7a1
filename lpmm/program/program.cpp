#include "lpmm/program/program.h"

#include <cmath>

#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"

namespace lpmm {

void Program::infer(const ModelMemory& /*memory*/, std::span<const std::int32_t> /*tokens*/,
                    Inference& /*state*/) {
  throw UsageError("this program does not go on with a text; only one of a language model does");
}
std::unique_ptr<Program> Model::build_inference(int /*length*/, ValueType /*compute*/,
                                                Device& /*device*/) const {
  throw UsageError("this model does not go on with a text; only a language model does");
}

std::unique_ptr<Program> Model::build_decoder(int /*sequences*/, int /*length*/, ValueType /*compute*/,
                                              Device& /*device*/) const {
  throw UsageError("this model does not translate; only one of pairs does");
}

void Inference::reorder(std::span<const std::int32_t> parents, Device& device) {
  const auto is_same = [&](std::size_t i) { return parents[i] == static_cast<std::int32_t>(i); };
  for (Cache& kept : cache) {
    if (kept.position_bytes == 0) continue;
    const std::int64_t used = position * kept.position_bytes;
    const DeviceMemory copy = allocate(device, std::ssize(parents) * used, "keys and values", "fewer beams");
    for (std::size_t i = 0; i < parents.size(); ++i) {
      if (is_same(i)) continue;
      device.copy(copy.get() + static_cast<std::int64_t>(i) * used,
                  kept.memory.get() + parents[i] * kept.sequence_bytes, used);
    }
    for (std::size_t i = 0; i < parents.size(); ++i) {
      if (is_same(i)) continue;
      device.copy(kept.memory.get() + static_cast<std::int64_t>(i) * kept.sequence_bytes,
                  copy.get() + static_cast<std::int64_t>(i) * used, used);
    }
  }
}

std::int64_t buffer_bytes(std::span<const BufferInfo> infos) {
  std::int64_t bytes = 0;
  for (const BufferInfo& info : infos) bytes += 4 * TensorInfo{info.name, info.shape}.elements();
  return bytes;
}

Buffers::Buffers(std::vector<BufferInfo> infos, Device& device) : device_(device), infos_(std::move(infos)) {
  constexpr const char* kAdvice = "a smaller model";
  const std::int64_t bytes = buffer_bytes(infos_);
  values_ = allocate(device, bytes, "statistics", kAdvice);
  proposals_ = allocate(device, bytes, "proposals of statistics", kAdvice);
  if (infos_.empty()) return;
  finite_ = device.allocate_shared(std::ssize(infos_));
  if (finite_ == nullptr) throw RunError("no memory for the results of statistics");
  std::vector<float> initial;
  for (const BufferInfo& info : infos_) {
    offsets_.push_back(std::ssize(initial));
    initial.resize(initial.size() + static_cast<std::size_t>(TensorInfo{info.name, info.shape}.elements()),
                   info.initial);
  }
  offsets_.push_back(std::ssize(initial));
  device.upload(values_.get(), initial.data(), bytes);
  begin();
}
std::span<float> Buffers::part(const DeviceMemory& memory, int buffer) const {
  const auto b = static_cast<std::size_t>(buffer);
  return {reinterpret_cast<float*>(memory.get()) + offsets_[b],
          static_cast<std::size_t>(offsets_[b + 1] - offsets_[b])};
}
bool* Buffers::finite(int buffer) const {
  return reinterpret_cast<bool*>(finite_.get()) + buffer;
}
std::span<float> Buffers::proposal(int buffer) {
  changed_[static_cast<std::size_t>(buffer)] = true;
  return part(proposals_, buffer);
}
void Buffers::begin_apart() {
  if (!infos_.empty()) device_.fill_with_zeros(proposals_.get(), buffer_bytes(infos_));
}
std::vector<float> Buffers::proposed() const {
  std::vector<float> values(static_cast<std::size_t>(infos_.empty() ? 0 : offsets_.back()));
  if (!infos_.empty()) device_.download(values.data(), proposals_.get(), buffer_bytes(infos_));
  return values;
}
void Buffers::propose(std::span<const float> of_microbatches) {
  if (infos_.empty()) return;
  std::vector<float> values(static_cast<std::size_t>(offsets_.back()));
  device_.download(values.data(), values_.get(), buffer_bytes(infos_));
  for (std::size_t b = 0; b < infos_.size(); ++b) {
    bool is_finite = true;
    for (auto i = static_cast<std::size_t>(offsets_[b]);
         changed_[b] && i < static_cast<std::size_t>(offsets_[b + 1]); ++i) {
      for (std::size_t at = i; at < of_microbatches.size(); at += values.size()) {
        values[i] = static_cast<float>((1 - kernels::kBatchNormMomentum) * values[i] + of_microbatches[at]);
      }
      is_finite = is_finite && std::isfinite(values[i]);
    }
    *finite(static_cast<int>(b)) = is_finite;
  }
  device_.upload(proposals_.get(), values.data(), buffer_bytes(infos_));
}
void Buffers::begin() {
  changed_.assign(infos_.size(), false);
  device_.copy(proposals_.get(), values_.get(), buffer_bytes(infos_));
  for (std::size_t b = 0; b < infos_.size(); ++b) *finite(static_cast<int>(b)) = true;
}
void Buffers::commit() {
  device_.copy(values_.get(), proposals_.get(), buffer_bytes(infos_));
}
std::string Buffers::failed_proposal() const {
  for (std::size_t b = 0; b < infos_.size(); ++b) {
    if (!*finite(static_cast<int>(b))) return infos_[b].name;
  }
  return "";
}

}  // namespace lpmm
