// The kinds of data, each defined in its own file.
#pragma once

#include "lpmm/program/task_row.h"

namespace lpmm {

extern const TaskRow kImageTask, kTextTask, kSentenceTask, kPairTask;

// For data.set = "conversations" and "preferences", which models of texts read too.
std::shared_ptr<Task> make_conversation_task();
std::shared_ptr<Task> make_preference_task();

}  // namespace lpmm
