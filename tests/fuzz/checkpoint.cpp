// Checkpoints: state.json up to the first zero byte, then model.safetensors. Checksums that no mutation would
// hit are set right where the state is JSON, so that what lies behind them is reached.
#include <nlohmann/json.hpp>

#include "kernels/cpu.h"
#include "lpmm/files/files.h"
#include "lpmm/run/checkpoint_files.h"
#include "lpmm/run/stored_weights.h"
#include "tests/fuzz/input.h"

namespace {

lpmm::fuzz::MemoryFile state_file, model_file;

std::string make_folder() {
  std::string folder = lpmm::fuzz::memory_folder() + "/step_00000001";
  std::filesystem::create_directory(folder);
  lpmm::fuzz::place(folder, lpmm::kStateFile, state_file);
  lpmm::fuzz::place(folder, lpmm::kModelFile, model_file);
  return folder;
}

std::string sealed(lpmm::fuzz::Bytes text, lpmm::fuzz::Bytes model) {
  lpmm::Json state = lpmm::Json::parse(lpmm::fuzz::text(text), nullptr, false);
  if (!state.is_object()) return std::string(lpmm::fuzz::text(text));
  state.erase("crc32");
  state["files"][lpmm::kModelFile] = {{"bytes", model.size()},
                                      {"crc32", lpmm::checksum_text(lpmm::crc32(std::as_bytes(model)))}};
  return lpmm::seal_state(state);
}

}  // namespace

LPMM_FUZZ_TARGET(bytes) {
  static const std::string folder = make_folder();
  static lpmm::CpuDevice device(1);
  const auto [text, model] = lpmm::fuzz::split(bytes);
  std::string state;
  try {
    state = sealed(text, model);
  } catch (const lpmm::Json::exception&) {  // "files" is no object, or text is no UTF-8
    state = lpmm::fuzz::text(text);
  }
  state_file.set({reinterpret_cast<const std::uint8_t*>(state.data()), state.size()});
  model_file.set(model);
  const lpmm::StoredWeights weights(folder);
  for (const lpmm::CheckpointTensor& tensor : weights.tensors()) {
    weights.read(tensor, device, [](std::int64_t, std::span<const float>) {});
  }
}
