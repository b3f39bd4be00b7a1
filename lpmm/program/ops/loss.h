// The losses of examples, and the outputs of a model.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

// Mean over the batch of the cross-entropy of its labels under softmax(logits), one class per channel.
void loss(ProgramBuilder& b, Value logits, double label_smoothing);
// Mean over the batch of the squares of what one channel is off its targets (Batch::targets).
void square_loss(ProgramBuilder& b, Value x);
// Mean over the batch and the classes, one per channel, of the cross-entropy of sigmoid(logits) and of what
// each example has of them (Batch::targets).
void sigmoid_loss(ProgramBuilder& b, Value logits);
// No loss: the channels are what is asked for. Such a program evaluates, but does not train.
void output(ProgramBuilder& b, Value x);

}  // namespace lpmm
