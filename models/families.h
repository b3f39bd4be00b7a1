// The families of this folder. A program hands the list to what reads configurations.
#pragma once

#include "lpmm/program/family.h"
#include "lpmm/run/config.h"
#include "lpmm/run/tasks/tasks.h"

namespace lpmm {

const FamilyList& families();
// The options with that list.
ConfigOptions with_families(ConfigOptions options = {});

// The rows, each defined in its own file.
Family resnet();
Family imagenet_resnet();
Family vit();
Family mlp();
Family gpt();
Family llama();
Family llama_sentences();
Family bert();
Family modernbert();
Family transformer();

// Models of text have it. complete() fills it in; with a low of 0 it stays 0, as runs of a GPT-2 store it.
ModelSetting mlp_width(int low = 1);
// Settings that classifiers share.
ModelSetting label_smoothing();
ModelSetting multi_label();
// Models that make vectors have kWeightedEmbeds.
inline constexpr std::string_view kWeightedEmbeds = "weighted_embeds";
ModelSetting weighted_embeds();
// Throws UsageError if the family's other way to a vector, the flag `other`, is set too.
void check_one_embedding(const ModelConfig& c, std::string_view other);
// The loss of what a head tells of sentences: a class, several of them (kMultiLabel), or a number.
void sentence_loss(ProgramBuilder& b, Value told, const ModelConfig& c);

}  // namespace lpmm
