// The lengths of a batch's sequences where the device reads them.
#pragma once

#include <cstdint>

#include "lpmm/program/op.h"

namespace lpmm {

// Bytes of the device's workspace, and of the host's, that lengths_of() needs.
std::int64_t lengths_room(const Device& device, int batch);
std::int64_t lengths_host_room(int batch);
// Null where all sequences are whole. Sequences that a last batch lacks count as whole. Throws RunError for a
// length that is none of 1 to `longest`.
const std::int32_t* lengths_of(const RunState& run, int batch, int longest, std::byte* room);

}  // namespace lpmm
