// The fast kernels of packed memory. Compiled by nvcc, and by the host's compiler for the emulated device.
#include "kernels/cuda/packed/fused.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/cuda/packed/fused_plain.h"
#include "kernels/cuda/packed/fused_units.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE::fast {
namespace {

template <class R>
struct UpdateKernel {
  void (*run)(UpdateTable<R>, std::uint32_t, std::uint32_t) = nullptr;  // null: there is none
  int blocks = 0;                                                       // at once on a multiprocessor
  std::uint32_t shared_bytes = 0;
};

template <class R, int kSet, bool kFeedback, bool kUsual>
UpdateKernel<R> kernel_of() {
  using Unit = UnitUpdate<R, kSet, kFeedback, kUsual>;
  return {update_units<R, kSet, kFeedback, kUsual>, Unit::kBlocks, shared_bytes_of<Unit>};
}
template <class R, int kSet, bool kFeedback>
UpdateKernel<R> kernel_of_scalars(const R& rule) {
  if constexpr (kHasUsual<R>) {
    if (!is_usual(rule)) {
      if constexpr (kSet < fused::kCodecSets) return kernel_of<R, kSet, kFeedback, false>();
      return {};
    }
  }
  return kernel_of<R, kSet, kFeedback, true>();
}
template <class R>
bool feeds_back(const R& rule) {
  if constexpr (FeedsBack<R>) return !same(rule.feedback, 0.0F);
  return false;
}
// Plain values may be a framework's, which begin anywhere: fours of them are read at once.
bool is_aligned(const RoleView& role) {
  const std::size_t four = role.codec.format.map == Map::kFp32   ? alignof(FourFloats)
                           : role.codec.format.map == Map::kBf16 ? alignof(FourHalves)
                                                                 : 1;
  return reinterpret_cast<std::uintptr_t>(role.codes) % four == 0;
}
// Sets behind those of the presets have plain parameters or gradients, of a framework or summed over slots:
// the usual rules have kernels for them, with usual scalars. These kernels take bf16 for fp32.
RoleArray<RoleView> plain_as_fp32(RoleArray<RoleView> roles) {
  for (const Role role : {Role::kParameter, Role::kAccumulator}) {
    if (roles[role].codec.format.map == Map::kBf16) roles[role].codec = fused::kFp32;
  }
  return roles;
}
template <class R, int kSet>
UpdateKernel<R> kernel_of_set(const R& rule, const RoleArray<RoleView>& roles) {
  constexpr fused::Codecs kCodecs = fused::codecs_of<R, kSet>();
  constexpr Codec kParameter = kCodecs[Role::kParameter];
  constexpr bool kIsOfPreset = kSet < fused::kCodecSets;
  if (!std::all_of(roles.begin(), roles.end(), is_aligned)) return {};
  if constexpr (!kIsOfPreset && !is_packed(kParameter.format) && fused::is_compiled<R>(kSet)) {
    if (!fused::serves(kCodecs, plain_as_fp32(roles)) || feeds_back(rule)) return {};
    return kernel_of_scalars<R, kSet, false>(rule);
  } else if constexpr (is_packed(kParameter.format) && fused::takes<R>(kCodecs) &&
                       (kIsOfPreset || fused::is_compiled<R>(kSet))) {
    if (!fused::serves(kCodecs, kIsOfPreset ? roles : plain_as_fp32(roles))) return {};
    if constexpr (FeedsBack<R>) {
      if (feeds_back(rule)) return kernel_of_scalars<R, kSet, true>(rule);
    }
    return kernel_of_scalars<R, kSet, false>(rule);
  } else if constexpr (kSet == kPlainSet) {
    if (!fused::serves(kCodecs, roles) || feeds_back(rule)) return {};
    return {update_plain_units<R>, kPlainBlocks, 0};
  }
  return {};
}
template <class R, int... kSet>
UpdateKernel<R> find_kernel(const R& rule, const RoleArray<RoleView>& roles,
                            std::integer_sequence<int, kSet...>) {
  UpdateKernel<R> found;
  ((found = found.run == nullptr ? kernel_of_set<R, kSet>(rule, roles) : found), ...);
  return found;
}

__global__ void set_flags(bool* const* flags, std::int32_t count) {
  begin_kernel();
  const auto i = static_cast<std::int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count && flags[i] != nullptr) *flags[i] = true;
}

// The tensors of rules of one arithmetic.
template <class R>
class Update {
 public:
  void add(const R& rule, const TensorUpdate& tensor, const R* completed) {
    const auto kernel =
        find_kernel(rule, tensor.args.roles, std::make_integer_sequence<int, fused::kAllSets>());
    tensors_.push_back({kernel, rule, &tensor, completed});
    is_fast_ = is_fast_ || kernel.run != nullptr;
  }
  bool is_fast() const { return is_fast_; }

  void run(Stream stream) {
    if (tensors_.empty()) return;
    // Tensors of one kernel side by side; those without one first.
    std::stable_sort(tensors_.begin(), tensors_.end(), [](const Tensor& a, const Tensor& b) {
      return std::less<>()(a.kernel.run, b.kernel.run);
    });
    for (const Tensor& tensor : tensors_) list(tensor);
    first_units_.push_back(units_);
    const std::int64_t sizes[] = {padded(jobs_), padded(first_units_), padded(flags_),
                                  padded(left_) + std::int64_t{4} * units_};
    const std::int64_t bytes = std::accumulate(std::begin(sizes), std::end(sizes), std::int64_t{0});
    StreamMemory room(bytes, stream);
    std::vector<std::byte> lists(static_cast<std::size_t>(bytes - std::int64_t{4} * units_));
    std::int64_t at = 0;
    const auto copied = [&]<class T>(const std::vector<T>& from, std::int64_t size) {
      std::memcpy(lists.data() + at, from.data(), sizeof(T) * from.size());
      return reinterpret_cast<T*>(static_cast<std::byte*>(room.data()) + std::exchange(at, at + size));
    };
    UpdateTable<R> table = {};
    table.jobs = copied(jobs_, sizes[0]);
    table.first_units = copied(first_units_, sizes[1]);
    table.tensors = static_cast<std::int32_t>(jobs_.size());
    for (table.stride = 1; table.stride * kWarp < table.tensors;) table.stride *= kWarp;
    bool* const* flags = copied(flags_, sizes[2]);
    left_[0] = static_cast<std::uint32_t>(left_.size() - 1);
    table.left = copied(left_, sizes[3]);
    copy_to_device(room.data(), lists.data(), std::ssize(lists), stream);
    launch_all(table, flags, stream);
  }

 private:
  struct Tensor {
    UpdateKernel<R> kernel;
    R rule;
    const TensorUpdate* update;
    const R* completed;
  };
  template <class T>
  static std::int64_t padded(const std::vector<T>& of) {
    return static_cast<std::int64_t>(sizeof(T) * of.size() + 15) / 16 * 16;
  }
  void list(const Tensor& tensor) {
    const UpdateArgs& args = tensor.update->args;
    jobs_.push_back(cuda::make_update(tensor.rule, args, tensor.update->storable, device_table));
    jobs_.back().completed = tensor.completed;
    flags_.push_back(tensor.update->storable);
    first_units_.push_back(units_);
    const auto units = static_cast<std::uint32_t>(cuda::units(jobs_.back()));
    for (std::uint32_t i = 0; tensor.kernel.run == nullptr && i < units; ++i) left_.push_back(units_ + i);
    units_ += units;
    shared_bytes_ = std::max(shared_bytes_, 4 * cuda::shared_words(jobs_.back()));
  }

  void launch_all(const UpdateTable<R>& table, bool* const* flags, Stream stream) {
    const auto tensors = static_cast<std::int64_t>(tensors_.size());
    launch(set_flags, (tensors + kThreads - 1) / kThreads, kThreads, 0, stream, flags, table.tensors);
    constexpr std::int64_t kUnitsOfBlock = kFusedThreads / kWarp;
    for (std::size_t i = 0, end = 0; i < tensors_.size(); i = end) {
      const UpdateKernel<R>& kernel = tensors_[i].kernel;
      for (end = i; end < tensors_.size() && tensors_[end].kernel.run == kernel.run;) ++end;
      const std::uint32_t first = first_units_[i], last = first_units_[end];
      if (kernel.run == nullptr) continue;
      // Each warp goes on with the next unit.
      const std::int64_t most = std::int64_t{kernel.blocks} * multiprocessors();
      launch(kernel.run, std::min((last - first + kUnitsOfBlock - 1) / kUnitsOfBlock, most), kFusedThreads,
             kernel.shared_bytes, stream, table, first, last);
    }
    const std::uint32_t blocks = std::min(units_, kMostBlocksOfLeft);
    launch(update_left<R>, blocks, kThreads, shared_bytes_, stream, table, blocks);
  }

  static constexpr std::uint32_t kMostBlocksOfLeft = 1024;
  std::vector<Tensor> tensors_;
  bool is_fast_ = false;
  std::vector<cuda::UpdateJob<R>> jobs_;
  std::vector<bool*> flags_;
  std::vector<std::uint32_t> first_units_, left_ = {0};
  std::uint32_t units_ = 0;
  std::int64_t shared_bytes_ = 0;
};

template <class R>
using ArithmeticOf = typename fused::ArithmeticOf<R>::Type;
template <class R>
inline constexpr bool kHasUpdate = is_for_units<ArithmeticOf<R>>();
// An update for each arithmetic of these rules that is one for units.
template <class... R>
auto updates_of(std::type_identity<std::variant<R...>>) {
  return std::tuple_cat(std::conditional_t < kHasUpdate<R> && std::is_same_v<R, ArithmeticOf<R>>,
                        std::tuple<Update<R>>, std::tuple < >> ()...);
}

}  // namespace

bool update(std::span<const TensorUpdate> tensors, std::span<const void* const> completed, Stream stream) {
  auto updates = updates_of(std::type_identity<Rule>());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto add = [&]<class R>(const R& rule) {
      if constexpr (kHasUpdate<R>) {
        std::get<Update<ArithmeticOf<R>>>(updates).add(rule, tensors[i], static_cast<const R*>(completed[i]));
      }
      return kHasUpdate<R>;
    };
    if (!std::visit(add, tensors[i].rule)) return false;
  }
  return std::apply(
      [&](auto&... update) {
        if (!(update.is_fast() || ...)) return false;
        (update.run(stream), ...);
        return true;
      },
      updates);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE::fast
