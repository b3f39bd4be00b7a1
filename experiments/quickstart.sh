#!/usr/bin/env bash
# Builds lpmm, trains one ResNet three times (fp32, packed with stochastic rounding, packed with nearest), prints
# one table and draws the curves; then shows the memory of a network of 100 M parameters, fp32 against packed.
# Takes at most 10 minutes on 2 cores. Stopped half-way, it goes on where it was.
# usage: bash experiments/quickstart.sh [STEPS]
# CIFAR-10 is used where LPMM_DATA (or ~/.cache/lpmm) holds cifar-10-batches-bin/, else a set the program draws.
set -eu -o pipefail
cd "$(dirname "$0")/.."
lpmm=build/lpmm

heading() { printf '\n== %s (%d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }

heading "packages"
bash experiments/packages.sh

heading "build $lpmm"
if nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  cuda=-DCMAKE_CUDA_ARCHITECTURES=native
else
  cuda=-DLPMM_CUDA=OFF
  echo "no NVIDIA GPU here: building for the processor (cmake -DLPMM_CUDA=ON build builds for GPUs, too)"
fi
avx512=-DLPMM_AVX512=ON
if grep -q '^flags' /proc/cpuinfo 2>/dev/null && ! grep -q avx512f /proc/cpuinfo; then
  avx512=-DLPMM_AVX512=OFF
  echo "no AVX-512 here: building without its loops (cmake -DLPMM_AVX512=ON build builds them, for other machines)"
fi
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DLPMM_TESTS=OFF -DCMAKE_UNITY_BUILD=ON "$cuda" "$avx512" >/dev/null
cmake --build build --target lpmm

if [ -d "${LPMM_DATA:-${HOME:-}/.cache/lpmm}/cifar-10-batches-bin" ]; then
  name=resnet20_cifar10 steps=${1:-150}
else
  name=resnet8_drawn steps=${1:-468}
  echo "no CIFAR-10 here ($lpmm data get cifar10 downloads it): training on images that the program draws"
fi
# This leaves out error feedback, which makes up for what rounding to nearest loses: the packed runs differ in rounding alone.
settings=(--set "train.steps=$steps" --set log.every_steps=5 --set log.underflow_every_steps=25 --set memory.error_feedback=false)
out=runs/quickstart/${name}_$steps
train() { # FOLDER CONFIG [arguments...]
  local folder=$1 config=$2
  shift 2
  $lpmm train "experiments/configs/$config.toml" "$@" --out "$out/$folder" --resume >/dev/null
}

heading "1/5 $name, fp32, $steps steps"
train fp32 "$name" --preset fp32 "${settings[@]}"
heading "2/5 $name, lpmm-compact, stochastic rounding"
train compact_sr "$name" --preset lpmm-compact --rounding sr "${settings[@]}"
heading "3/5 $name, lpmm-compact, rounding to nearest"
train compact_rn "$name" --preset lpmm-compact --rounding rn "${settings[@]}"
heading "4/5 100 M parameters, 5 steps, fp32"
train mlp_fp32 mlp_100m --preset fp32
heading "5/5 100 M parameters, 5 steps, lpmm-min"
train mlp_min mlp_100m --preset lpmm-min

heading "$name after $steps steps"
runs=("$out"/{fp32,compact_sr,compact_rn} --label fp32 --label "lpmm-compact, sr" --label "lpmm-compact, rn")
$lpmm plot "${runs[@]}" --table --out "$out/convergence"
$lpmm report "${runs[@]}" --out "$out/report.html"
heading "an MLP of 100 M parameters"
$lpmm plot "$out"/{mlp_fp32,mlp_min} --label fp32 --label lpmm-min --table
heading "done; runs, plots and report.html are in $out"
