#include "lpmm/program/ops/sequence/lengths.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/compute.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"

namespace lpmm {

std::int64_t lengths_room(const Device& device, int batch) {
  return room_on(device, 4 * batch);
}
std::int64_t lengths_host_room(int batch) {
  return kernels::aligned(4 * batch);
}

const std::int32_t* lengths_of(const RunState& run, int batch, int longest, std::byte* room) {
  const std::vector<std::int32_t>& lengths = run.batch.lengths;
  if (lengths.empty()) return nullptr;
  auto* const host = reinterpret_cast<std::int32_t*>(run.host_workspace);
  std::fill_n(host, batch, longest);
  for (std::size_t i = 0; i < std::min(lengths.size(), static_cast<std::size_t>(batch)); ++i) {
    if (lengths[i] < 1 || lengths[i] > longest) {
      throw RunError(fmt::format("sequence {} of a batch has {} positions: 1 to {} are possible", i,
                                 lengths[i], longest));
    }
    host[i] = lengths[i];
  }
  return on_device(run.device, host, batch, room);
}

}  // namespace lpmm
