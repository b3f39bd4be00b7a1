// The scores of tasks of sentences.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lpmm {

// The share of predicted classes `told` that equal the true ones `is`; here and below, both are not empty, of
// equal size and finite.
double accuracy(std::span<const std::int32_t> told, std::span<const std::int32_t> is);
// Matthews 1975, of two classes: 0 where one of the four counts makes it 0 / 0.
double matthews(std::span<const std::int32_t> told, std::span<const std::int32_t> is);
// F1 of class 1: 0 where nothing is of it.
double f1(std::span<const std::int32_t> told, std::span<const std::int32_t> is);
// F1 of all yes and no, (examples, classes), together: 0 where nothing is told and is.
double micro_f1(std::span<const std::uint8_t> told, std::span<const std::uint8_t> is);
// The share of examples whose `classes` are all right.
double exact_match(std::span<const std::uint8_t> told, std::span<const std::uint8_t> is, std::size_t classes);
// F1 of entities, runs of words that tags like B-LOC, I-LOC and O mark in sentences, as seqeval counts them:
// one is right where its kind and both of its ends are. 0 where none is.
using TagSequences = std::vector<std::vector<std::string_view>>;
double entity_f1(const TagSequences& told, const TagSequences& is);
// Returns true if tags mark entities in this way.
bool mark_entities(std::span<const std::string> tags);
// Correlation of numbers; 0 where one side does not vary. Spearman's is that of ranks, equal numbers sharing
// the mean of theirs.
double pearson(std::span<const double> told, std::span<const double> is);
double spearman(std::span<const double> told, std::span<const double> is);

// The cosine of two embeddings; 0 where one is all zeros.
double cosine(std::span<const float> a, std::span<const float> b);

}  // namespace lpmm
