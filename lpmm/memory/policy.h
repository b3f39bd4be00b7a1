// The spec of each role of each tensor: a named preset plus overrides by name pattern.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/rules/rule.h"
#include "lpmm/memory/spec.h"

namespace lpmm {

struct OptimizerConfig;

// The use of a tensor of two or more dimensions. Some rules treat embeddings and the weights that make logits
// of the last layer's values otherwise.
enum class TensorKind : std::uint8_t { kHidden, kEmbedding, kHead };

struct TensorInfo {
  std::string name;
  std::vector<std::int64_t> shape;
  TensorKind kind = TensorKind::kHidden;
  std::int64_t parts = 1;  // matrices of which it is made, of shape[0] / parts rows each
  std::int64_t heads = 0;  // of attention, of as many rows each, in a weight of queries, keys and values
  bool is_shared = false;  // its gradient in a microbatch is the sum of several contributions
  // The model asks for momentum and variance in fp32, as a stable embedding does; an override of the policy
  // may give them a spec all the same.
  bool fp32_states = false;
  std::int64_t elements() const;
  // The number of values that the role has: for elements, rows or columns; rows may share them (roles.h).
  // Leading dimensions of 1 do not count there: 1 x 197 x 768 has 197 rows.
  std::int64_t values(Role role) const;
  TensorTraits traits() const;
};

// fp32 where a role is not per element. A compensation of fp32 would be exact; in its place fp32 stands for
// none.
using RoleSpecs = RoleArray<Spec>;
bool has_compensation(const RoleSpecs& specs);

// The spec of a role as configs give it: as parse_spec() and to_string() have it, but "none" for no
// compensation.
Spec parse_spec(Role role, std::string_view text);
std::string to_string(Role role, const Spec& spec);

struct PolicyOverride {
  std::string pattern;                   // shell pattern on the tensor's name: * and ?
  RoleArray<std::optional<Spec>> specs;  // the specs that it changes
  bool exempt = false;                   // or: all roles fp32
};

// The words that a config may give in place of an accumulator's spec.
inline constexpr std::string_view kInMomentum = "momentum", kNoAccumulator = "none";

struct Policy {
  std::string preset;
  RoleSpecs specs;
  std::vector<PolicyOverride> overrides;  // later ones win
  std::int64_t min_elements = 0;          // tensors with fewer stay fp32
  bool error_feedback = false;            // the parameters' rounding errors go into the momentum (ECO)
  // Gradients are folded straight into the momentum, and there is no accumulator; with Muon, of hidden
  // matrices. Its specs of accumulators are for the rest.
  bool accumulate_in_momentum = false;
  // A gradient updates its tensor as soon as it is known, and only tensors that are shared have an
  // accumulator: for one microbatch per step, without clipping.
  bool apply_at_once = false;
  bool keeps_peaks = false;  // two codes for each element that watches raise (kernels/peaks.h)
  // Beside each trained tensor the exponential moving average of its weights, which keeps this share of
  // itself at each update; 0: none. The spec is for tensors that are not exempt.
  double average = 0;
  Spec average_spec = {};
  std::set<std::string> averaged =
      {};  // of what is only looked at: tensors whose parameters are such averages
};

// What files call the average of a tensor.
inline constexpr std::string_view kAverageName = "average";
// The spec of averages where nobody says another one: of policies that pack parameters, and of others.
inline constexpr std::string_view kAverageSpec = "int8:block128:qr:sticky", kPlainAverageSpec = "fp32";

// The preset that packs nothing, of a config that names none.
inline constexpr std::string_view kPlainPreset = "fp32";
// From most bits to fewest.
std::span<const std::string_view> preset_names();
// One of them, without error feedback. Throws UsageError naming the nearest.
Policy make_policy(std::string_view preset);
// The same for this optimizer: with SGD and momentum, lpmm-compact and lpmm-min feed rounding errors back,
// and lpmm-nano, where can_accumulate says that it can, accumulates gradients in the momentum and feeds back
// as well, with specs of its own. With a rule whose variance is a sum, Adagrad, those of few bits store it
// otherwise.
Policy make_policy(std::string_view preset, const OptimizerConfig& optimizer);

// Turns every packed role to one rounding. With rn, steps of slow averages follow them (moving).
void set_rounding(Policy& policy, Rounding rounding);

// The spec of a tensor's average.
Spec average_spec_for(const Policy& policy, const TensorInfo& tensor);
// The specs of one tensor. 1-D tensors and those below min_elements are exempt (fp32) unless an override
// names them.
RoleSpecs specs_for(const Policy& policy, const TensorInfo& tensor);
bool is_exempt(const Policy& policy, const TensorInfo& tensor);
// Because of what: "one dimension"; empty where it is not.
std::string why_exempt(const Policy& policy, const TensorInfo& tensor);

// Refuses what may not be: an unsigned format for a signed role, a signed one for the variance, a sticky
// accumulator, rn with a sticky slow average, a compensation of what is exact, of another format than its
// unit is for, or besides error feedback, and overrides that match no tensor. Throws UsageError, which names
// the optimizer's rule.
void check_policy(const Policy& policy, const OptimizerConfig& optimizer,
                  std::span<const TensorInfo> tensors);

// Returns true if a shell pattern names one of the tensors, or none are known yet; near_tensors() gives the
// end of a message with the names that may have been meant.
bool matches_any(std::string_view pattern, std::span<const TensorInfo> tensors);
std::string near_tensors(std::string_view pattern, std::span<const TensorInfo> tensors);

}  // namespace lpmm
