#include "lpmm/program/program.h"

#include "lpmm/base/error.h"

namespace lpmm {

void Program::infer(const ModelMemory& /*memory*/, std::span<const std::int32_t> /*tokens*/,
                    Inference& /*state*/) {
  throw UsageError("this program reads images; only one of text goes on with a text");
}
std::unique_ptr<Program> Model::build_inference(int /*length*/, Compute /*compute*/,
                                                Device& /*device*/) const {
  throw UsageError("this model reads images; only a model of text goes on with one");
}

Buffers::Buffers(std::vector<BufferInfo> infos) : infos_(std::move(infos)) {
  offsets_.push_back(0);
  for (const BufferInfo& info : infos_) {
    std::int64_t elements = 1;
    for (const std::int64_t n : info.shape) elements *= n;
    offsets_.push_back(offsets_.back() + elements);
    values_.resize(static_cast<std::size_t>(offsets_.back()), info.initial);
  }
  proposals_ = values_;
}

namespace {

template <class T>
std::span<T> part(T* data, const std::vector<std::int64_t>& offsets, int buffer) {
  const auto b = static_cast<std::size_t>(buffer);
  return {data + offsets[b], static_cast<std::size_t>(offsets[b + 1] - offsets[b])};
}

}  // namespace

std::span<float> Buffers::value(int buffer) {
  return part(values_.data(), offsets_, buffer);
}
std::span<const float> Buffers::value(int buffer) const {
  return part(values_.data(), offsets_, buffer);
}
std::span<float> Buffers::proposal(int buffer) {
  return part(proposals_.data(), offsets_, buffer);
}
std::int64_t Buffers::bytes() const {
  return static_cast<std::int64_t>(4 * values_.size());
}
void Buffers::begin() {
  proposals_ = values_;
}
void Buffers::commit() {
  values_ = proposals_;
}

}  // namespace lpmm
