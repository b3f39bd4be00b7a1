// The kinds of data, each defined in its own file.
#pragma once

#include "lpmm/program/task_row.h"

namespace lpmm {

extern const TaskRow kImageTask, kTextTask, kSentenceTask, kPairTask;

// Sets that models of texts read too; the second has pairs of answers.
extern const PathSet kConversationSet, kPreferenceSet;

}  // namespace lpmm
