// Documents that share a sequence: where they lie, for the ops that keep them apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/sequence.h"
#include "lpmm/data/batch.h"
#include "lpmm/program/builder.h"

namespace lpmm {

// A table of where the documents of a batch lie (Batch::starts), for sequences of `length`. Inference has one
// text and no table: a value without an id.
Value document_table(ProgramBuilder& b, int length);
// Reads the table for `rows` positions of all sequences; null: there is no table.
kernels::Documents documents_in(const std::byte* table, std::int64_t rows);

// The place of a row, of all sequences, in its document.
inline std::int32_t place_in_document(const Batch& batch, std::int64_t row, std::int64_t length) {
  const auto position = static_cast<std::int32_t>(row % length);
  return row < std::ssize(batch.starts) ? position - batch.starts[static_cast<std::size_t>(row)] : position;
}

}  // namespace lpmm
