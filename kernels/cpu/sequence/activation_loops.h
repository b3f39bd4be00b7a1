// The loops of activations and of rotary positions (kernels/sequence.h) over one shard, serial; each picks
// the best instruction set at run time. sequence.cpp cuts the work.
#pragma once

#include <cstdint>

#include "kernels/sequence.h"

namespace lpmm::kernels::loops {

void gelu_forward(Compute type, GeluForm form, std::int64_t count, const void* x, void* y);
void gelu_backward(Compute type, GeluForm form, std::int64_t count, const void* x, const void* dy, void* dx,
                   bool accumulate);

void swiglu_forward(Compute type, std::int64_t rows, std::int64_t width, const void* x, void* y);
void swiglu_backward(Compute type, std::int64_t rows, std::int64_t width, const void* x, const void* dy,
                     void* dx, bool accumulate);

void tanh_forward(Compute type, std::int64_t count, const void* x, void* y);
void tanh_backward(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                   bool accumulate);

// The rows begin at position `first` of a sequence, modulo its length.
void rotary(const RotaryShape& shape, std::int64_t first, const float* angles, bool inverse, const void* x,
            void* y, bool accumulate);

}  // namespace lpmm::kernels::loops
