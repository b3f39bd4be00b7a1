#include "lpmm/program/forward_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <stdexcept>

#include "kernels/noise.h"

namespace lpmm {
namespace {

// Initial values of four elements: a pure function of (seed, tensor, element). Normals by Box and Muller.
std::array<float, 4> initial_values(const Initial& initial, const Noise& noise, std::int64_t element) {
  std::array<float, 4> values;
  if (initial.kind == InitialKind::kConstant) {
    values.fill(static_cast<float>(initial.scale));
    return values;
  }
  const PhiloxWords words = noise_words(noise, static_cast<std::uint32_t>(element / 4));
  const auto uniform = [&](std::size_t i) { return (words.x[i] + 0.5) * 0x1p-32; };
  for (std::size_t i = 0; i < 4; i += 2) {
    if (initial.kind == InitialKind::kUniform) {
      values[i] = static_cast<float>(initial.scale * (2 * uniform(i) - 1));
      values[i + 1] = static_cast<float>(initial.scale * (2 * uniform(i + 1) - 1));
      continue;
    }
    const double radius = std::sqrt(-2 * std::log(uniform(i)));
    const double angle = 2 * std::numbers::pi * uniform(i + 1);
    values[i] = static_cast<float>(initial.scale * radius * std::cos(angle));
    values[i + 1] = static_cast<float>(initial.scale * radius * std::sin(angle));
  }
  return values;
}

// Programs for several lengths of sequences, which take turns in one room.
class ProgramsByLength : public Program {
 public:
  explicit ProgramsByLength(std::map<int, std::unique_ptr<Program>> programs)
      : programs_(std::move(programs)) {}
  std::int64_t activation_bytes() const override { return programs_.begin()->second->activation_bytes(); }
  std::int64_t workspace_bytes() const override { return programs_.begin()->second->workspace_bytes(); }
  std::int64_t largest_transient_bytes() const override {
    std::int64_t most = 0;
    for (const auto& [length, program] : programs_) most = std::max(most, program->largest_transient_bytes());
    return most;
  }
  int passes() const override { return programs_.begin()->second->passes(); }
  PendingLoss train(const ModelMemory& memory, Step& step, Buffers& buffers, const Batch& batch,
                    int microbatch) override {
    return of(batch).train(memory, step, buffers, batch, microbatch);
  }
  BatchResult evaluate(const ModelMemory& memory, const Buffers& buffers, const Batch& batch,
                       std::vector<float>* outputs) override {
    return of(batch).evaluate(memory, buffers, batch, outputs);
  }

 private:
  Program& of(const Batch& batch) const {
    const auto at = programs_.find(batch.length);
    if (at == programs_.end()) {
      throw std::logic_error(fmt::format("no program for sequences of {} tokens", batch.length));
    }
    return *at->second;
  }
  std::map<int, std::unique_ptr<Program>> programs_;
};

class ForwardModel : public Model {
 public:
  ForwardModel(std::vector<ForwardOfLength> forwards, bool continues, bool translates, bool gathers)
      : forwards_(std::move(forwards)), continues_(continues), translates_(translates), gathers_(gathers) {
    ProgramBuilder declaring;
    if (gathers_) declaring.gather_gradients();
    forwards_.front().forward(declaring);
    tensors_ = declaring.tensors();
    initials_ = declaring.initials();
    buffers_ = declaring.buffers();
  }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const std::vector<BufferInfo>& buffers() const override { return buffers_; }

  void initialize(ModelMemory& memory, std::uint64_t seed, const ProgressCall& progress) const override {
    constexpr std::int64_t kRange = 64 * kernels::kTile;
    const std::int64_t all = memory.ledger().parameters;
    std::int64_t done = 0;
    std::vector<float> values;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const std::int64_t elements = tensors_[t].elements();
      const Noise noise{seed, static_cast<std::uint32_t>(t), 0,
                        static_cast<std::uint32_t>(Stream::kInitialize)};
      for (std::int64_t first = 0; first < elements; first += kRange) {
        const std::int64_t count = std::min(kRange, elements - first);
        values.resize(static_cast<std::size_t>(count));
        memory.device().host_pool().for_each(
            (count + kernels::kTile - 1) / kernels::kTile, [&](std::int64_t tile, int) {
              const std::int64_t end = std::min(count, (tile + 1) * kernels::kTile);
              for (std::int64_t i = tile * kernels::kTile; i < end; i += 4) {
                const auto four = initial_values(initials_[t], noise, first + i);
                std::copy_n(four.begin(), std::min<std::int64_t>(4, end - i), values.begin() + i);
              }
            });
        memory.initialize(static_cast<int>(t), first, values);
        done += count;
        if (progress) progress(done, all);
      }
    }
  }

  std::unique_ptr<Program> build(int batch, ValueType compute, Device& device, int longest) const override {
    const auto room = make_program_room();
    std::map<int, std::unique_ptr<Program>> programs;
    for (const auto& [length, forward] : forwards_) {
      ProgramBuilder builder(batch, compute, device);
      if (gathers_) builder.gather_gradients();
      forward(builder);
      programs[length] = builder.finish(room);
      if (longest > 0 && length >= longest) break;
    }
    if (programs.size() == 1) return std::move(programs.begin()->second);
    return std::make_unique<ProgramsByLength>(std::move(programs));
  }

  std::unique_ptr<Program> build_inference(int length, ValueType compute, Device& device) const override {
    if (!continues_) return Model::build_inference(length, compute, device);
    ProgramBuilder builder(1, compute, device, length);
    forwards_.front().forward(builder);
    return builder.finish();
  }

  std::unique_ptr<Program> build_decoder(int sequences, int length, ValueType compute,
                                         Device& device) const override {
    if (!translates_) return Model::build_decoder(sequences, length, compute, device);
    const auto of_length =
        std::ranges::find_if(forwards_, [&](const ForwardOfLength& f) { return f.length == length; });
    if (of_length == forwards_.end()) {
      throw std::logic_error(fmt::format("no program for sources of {} tokens", length));
    }
    ProgramBuilder builder(sequences, compute, device, 1);
    of_length->forward(builder);
    return builder.finish();
  }

 private:
  std::vector<ForwardOfLength> forwards_;
  bool continues_, translates_, gathers_;
  std::vector<TensorInfo> tensors_;
  std::vector<Initial> initials_;
  std::vector<BufferInfo> buffers_;
};

}  // namespace

std::unique_ptr<Model> make_forward_model(std::vector<ForwardOfLength> forwards, bool continues,
                                          bool translates, bool gathers) {
  return std::make_unique<ForwardModel>(std::move(forwards), continues, translates, gathers);
}
std::unique_ptr<Model> make_forward_model(Forward forward, bool continues) {
  return make_forward_model({{0, std::move(forward)}}, continues);
}

}  // namespace lpmm
