// Cross-entropy of classes.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

// Mean over the batch of the cross-entropy of its labels under softmax(logits), one class per channel.
void loss(ProgramBuilder& b, Value logits, double label_smoothing);

}  // namespace lpmm
