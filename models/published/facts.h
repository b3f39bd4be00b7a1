// Special tokens and names of classes, as they come and go in config.json.
#pragma once

#include <string>

#include "lpmm/program/model_config.h"
#include "lpmm/program/published_facts.h"
#include "models/published/config.h"

namespace lpmm {

struct ReadFacts : PublishedFacts {
  std::string left_out;   // ids that are no tokens of the model, for a message; empty: none
  std::string otherwise;  // what generation_config.json says otherwise than config.json, in the same way
};
// The facts of published weights at `path`, which are that model's: tokens of generation_config.json, else of
// config.json; class names of config.json, as transformers writes them (id2label, but for LABEL_0, LABEL_1,
// ...) or timm (label_names). Nothing where neither file is there. Throws RunError naming file and key where
// the names are not one for each class.
ReadFacts read_published_facts(const std::string& path, const ModelConfig& model);

// Returns true if the weights of an image model are a backbone alone, without the layer that tells classes.
bool lacks_image_head(const std::string& path);
// Says so for people, and what is not used for that reason; empty where there is a head.
std::string remark_on_image_head(const std::string& path);

// Sets the kind of a sentence model's head with so many classes (0: it has none) by problem_type. Throws
// RunError for numbers of several kinds.
void read_head(const PublishedConfig& config, int classes, ModelConfig& model);
// The same as config.json has it, with names of classes.
void add_head(const PublishedFacts& facts, const ModelConfig& model, Json& config);

// Adds the tokens that `config` leaves open.
void add_tokens(const PublishedFacts& facts, Json& config);
// The names of so many classes; nothing where there are not as many.
void add_id2label(const PublishedFacts& facts, std::int64_t classes, Json& config);
void add_label_names(const PublishedFacts& facts, std::int64_t classes, Json& config);

}  // namespace lpmm
