#include "kernels/cuda/counted.h"

#include <algorithm>
#include <list>
#include <new>

namespace lpmm::kernels {
namespace {

DeviceMemory room_of(PackedDevice& host, std::int64_t bytes) {
  if (bytes == 0) return {};
  DeviceMemory memory = host.allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// A part of a role of a tensor on the host; what is not of it is never touched.
class HostRole {
 public:
  HostRole(PackedDevice& device, const RoleView& role, std::int64_t first, std::int64_t end)
      : device_(device), role_(role), there_(role) {
    codes_ = room_of(device.host(), code_bytes(role.codec.format, role.elements));
    steps_ = room_of(device.host(), step_bytes(role.codec, role.elements));
    there_.codes = reinterpret_cast<std::uint8_t*>(codes_.get());
    there_.steps = reinterpret_cast<std::uint16_t*>(steps_.get());
    first_code_ = code_bytes(role.codec.format, first);
    first_step_ = step_bytes(role.codec, first);
    code_bytes_ = code_bytes(role.codec.format, end) - first_code_;
    step_bytes_ = step_bytes(role.codec, end) - first_step_;
    device.download(codes_.get() + first_code_, role.codes + first_code_, code_bytes_);
    if (step_bytes_ > 0) {
      device.download(steps_.get() + first_step_, role.steps + first_step_ / 2, step_bytes_);
    }
  }
  const RoleView& view() const { return there_; }
  void put_back() {
    device_.upload(role_.codes + first_code_, codes_.get() + first_code_, code_bytes_);
    if (step_bytes_ > 0) {
      device_.upload(role_.steps + first_step_ / 2, steps_.get() + first_step_, step_bytes_);
    }
  }

 private:
  PackedDevice& device_;
  RoleView role_, there_;
  DeviceMemory codes_, steps_;
  std::int64_t first_code_, first_step_, code_bytes_, step_bytes_;
};

}  // namespace

void fold_counted(PackedDevice& device, const Fold& fold) {
  HostRole role(device, fold.accumulator, fold.first, fold.first + fold.gradient.count);
  const DeviceMemory values = room_of(device.host(), fold.gradient.bytes());
  device.download(values.get(), fold.gradient.data, fold.gradient.bytes());
  Fold there = fold;
  there.accumulator = role.view();
  there.gradient.data = values.get();
  device.host().fold({&there, 1});
  role.put_back();
}

void update_counted(PackedDevice& device, const TensorUpdate& tensor, const std::function<void()>& measure) {
  std::list<HostRole> roles;
  TensorUpdate there = tensor;
  there.watched = nullptr;
  for (const Role r : kEveryRole) {
    const RoleView& role = tensor.args.roles[r];
    if (role.codes == nullptr) continue;
    there.args.roles[r] = roles.emplace_back(device, role, 0, role.elements).view();
  }
  measure();
  device.host().update({&there, 1});
  for (HostRole& role : roles) role.put_back();
}

}  // namespace lpmm::kernels
