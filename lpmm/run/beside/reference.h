// The reference of a run whose loss compares with what the model said before it was trained (ReferredData). A
// run computes it once, with its packed weights as they begin, and keeps it in its folder, so that it goes on
// with the same one and never has two models in memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lpmm/base/progress.h"
#include "lpmm/data/batch.h"
#include "lpmm/program/program.h"

namespace lpmm {

inline constexpr const char* kReferenceFile = "reference.safetensors";

// What the model of `memory` says of all examples of the data, so many at a time; its ranks share them and
// get the same. Throws Interrupted where that was asked for, RunError where it says what is no number.
std::vector<float> ask_reference(const ReferredData& data, Program& program, const ModelMemory& memory,
                                 const Buffers& buffers, int examples, const ProgressCall& progress);

// The checksum of all parameters, decoded.
std::string weights_checksum(const ModelMemory& memory);

// Into that folder, with the checksum of the weights that were asked: the file is whole or not there.
void keep_reference(const std::string& run, const ReferredData& data, const std::vector<float>& numbers,
                    const std::string& weights);
// That checksum in a run's folder; empty: it holds no reference.
std::string referred_weights(const std::string& run);

// What a run's folder holds for this data; nothing, and `why`, where it is not there, damaged or of other
// data.
std::optional<std::vector<float>> kept_reference(const std::string& run, const ReferredData& data,
                                                 std::string& why);

// The data as a run that begins is trained on it: asks its model, and keeps what that says in the folder, or
// nowhere where that is empty. What compares with nothing is as it was.
std::shared_ptr<const DataSource> with_asked_reference(const std::shared_ptr<const DataSource>& data,
                                                       const std::string& run, Program& program,
                                                       const ModelMemory& memory, const Buffers& buffers,
                                                       int examples, const ProgressCall& progress);
// The data as a run that goes on is trained on it; what compares with nothing is as it was. Throws RunError
// that says what to do where the folder has no reference for it.
std::shared_ptr<const DataSource> with_kept_reference(const std::shared_ptr<const DataSource>& data,
                                                      const std::string& run);

}  // namespace lpmm
