// Event files for TensorBoard, derived from a run's log.
#pragma once

#include <span>
#include <string>

#include "lpmm/run/log.h"

namespace lpmm {

// The content of an event file: records with masked CRC-32C around Event messages (TensorFlow's tfrecord and
// event.proto), one of scalars_of(records) each. Wall times are the run's start plus the seconds trained.
std::string tensorboard_events(std::span<const Json> records);

}  // namespace lpmm
