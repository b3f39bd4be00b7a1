// Cross-entropy of the next token.
#pragma once

#include <string>

#include "lpmm/program/builder.h"
#include "lpmm/program/model_config.h"

namespace lpmm {

struct TokenLossConfig {
  double smoothing = 0;   // share of the target spread over the vocabulary
  std::string bias = {};  // of the logits: a tensor (vocabulary), zero; empty: none
  // Negative labels count for nothing. The mean is over those that count in all microbatches of a step
  // (Batch::step_labels).
  bool may_lack = false;
  // The loss of pairs of documents (Batch::preferences) if beta is above 0: the mean over the pairs in all
  // microbatches of a step (Batch::step_labels). It hands out the differences of the pairs' log-probabilities
  // in place of logits.
  PreferenceLoss preferences = {};
};

// Mean over the tokens of the cross-entropy of their labels under logits = x times the transpose of
// `name`.weight (vocabulary, channels), normal of that deviation.
void token_loss(ProgramBuilder& b, const std::string& name, Value x, int vocabulary, double deviation,
                const TokenLossConfig& config = {});
// The same with the weight of an embedding before it, which both share.
void tied_token_loss(ProgramBuilder& b, const std::string& embedding, Value x,
                     const TokenLossConfig& config = {});

// The same of classes of positions: tensors `name`.weight (classes, channels), a head, and .bias. Negative
// labels count for nothing (TokenLossConfig::may_lack); of the others the logits are what the model says.
void position_loss(ProgramBuilder& b, const std::string& name, Value x, int classes, double deviation,
                   double smoothing);

}  // namespace lpmm
