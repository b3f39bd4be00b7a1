// Updates whose step is an orthogonal matrix (kernels/rules/muon.h): the passes over the tensor, and what is
// between them.
#pragma once

#include <functional>

#include "kernels/packed_device.h"

namespace lpmm::kernels {

// Makes one pass of the rule: an update that has no `storable`, as a device notes that for all of them.
using UpdatePass = std::function<void(const TensorUpdate& pass)>;

// Makes singular values of `x` (rows, columns; fp32, row-major, of the device), from a 500th of its Frobenius
// norm to all of it, lie between 0.68 and 1.21, with the singular vectors as they are, by `iterations` of
// Newton and Schulz's polynomial of fifth order with Jordan's coefficients; zeros stay zeros. Products are of
// fp32 factors, the norm is fp64 in the order of kernels/sums.h. `workspace` is 64-byte aligned.
void make_orthogonal(PackedDevice& device, std::int64_t rows, std::int64_t columns, int iterations, float* x,
                     std::byte* workspace, const UpdatePass& pass);
std::int64_t orthogonal_workspace_bytes(const PackedDevice& device, std::int64_t rows, std::int64_t columns);

// The bytes of TensorUpdate::workspace on this device; most rules take none.
std::int64_t update_workspace_bytes(const PackedDevice& device, const Rule& rule);

// True if an update by this rule takes the passes of update_orthogonal().
bool is_orthogonal(const Rule& rule);
void update_orthogonal(PackedDevice& device, const TensorUpdate& tensor, const UpdatePass& pass);

}  // namespace lpmm::kernels
