#!/usr/bin/env bash
# Packed memory for 64-bit ARM: its library cross-compiled, and tests of it under qemu, where NEON must give the bits of
# the scalar loops. Says so and exits with 0 where Debian's g++-aarch64-linux-gnu, qemu-user-static and googletest are
# not installed.
# usage: bash tests/arm.sh [FOLDER]
set -eu -o pipefail
cd "$(dirname "$0")/.."
folder=${1:-build-arm} gtest=/usr/src/googletest/googletest compiler=aarch64-linux-gnu-g++
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
if ! command -v $compiler >/dev/null || [ -z "$emulator" ] || [ ! -d $gtest ]; then
  echo "skipped: g++-aarch64-linux-gnu, qemu-user-static or googletest is not installed"
  exit 0
fi
mkdir -p "$folder/include"
rm -f "$folder"/*.o  # their sources may be gone
for library in hwy fmt nlohmann; do ln -sfn "/usr/include/$library" "$folder/include/$library"; done  # and nothing else of /usr
sources=(kernels/formats/maps.cpp kernels/orthogonal.cpp kernels/threads/*.cpp kernels/cpu/*.cpp kernels/cpu/packed/*.cpp
  kernels/cpu/sets/*.cpp)
# As one file: most of the time would go into parsing the same headers.
printf '#include "%s"\n' lpmm/memory/*.cpp lpmm/memory/slots/*.cpp lpmm/ranks/ranks.cpp lpmm/base/text.cpp lpmm/files/files.cpp \
  lpmm/files/json.cpp lpmm/files/safetensors.cpp >"$folder/model_memory_all.cpp"
sources+=("$folder/model_memory_all.cpp")
tests=(tests/kernels/{codec,fused,scales,simd}_test.cpp $gtest/src/{gtest-all,gtest_main}.cc)
export compiler gtest folder
compile() {
  $compiler -std=c++20 -O1 -ffp-contract=off -DFMT_HEADER_ONLY -I. -isystem "$folder/include" \
    -isystem $gtest/include -isystem $gtest -c "$1" -o "$folder/$(basename "${1%.*}").o"
}
export -f compile
printf '%s\n' "${sources[@]}" "${tests[@]}" | xargs -P "$(nproc)" -I{} bash -c 'compile {}'
$compiler -static -o "$folder/packed_tests" "$folder"/*.o -pthread
# The whole of Simd and Codec takes minutes under an emulator.
"$emulator" "$folder/packed_tests" --gtest_brief=1 \
  --gtest_filter='Maps.*:Planes.*:Steps.*:StoredSteps.*:Fused.EverySet*:Simd.RaisesPeaks*'
