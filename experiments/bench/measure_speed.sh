#!/usr/bin/env bash
# Measures what the README says about speed and writes the raw output, one file a figure, to OUT
# (experiments/results/speed). Wants an otherwise idle machine; 20 minutes on 2 cores, 8 GB of memory.
# PyTorch's side needs Debian's python3-torch and is left out where /usr/bin/python3 has none.
# usage: bash experiments/bench/measure_speed.sh [OUT]
set -eu -o pipefail
cd "$(dirname "$0")/../.."
lpmm=build/lpmm out=${1:-experiments/results/speed} threads=2
mkdir -p "$out"

record() { # FILE COMMAND...: keeps the command, the load before it and the output
  local file=$out/$1
  shift
  echo "== $*"
  { echo "# $*"; echo "# load $(cut -d' ' -f1-3 /proc/loadavg), $(date -u +%F)"; "$@"; } | tee "$file.tmp"
  mv "$file.tmp" "$file"
}

record machine.txt lscpu
for optimizer in sgd adamw; do
  for preset in lpmm lpmm-compact lpmm-min states8; do
    record "update_${optimizer}_$preset.json" "$lpmm" bench update --optimizer "$optimizer" --preset "$preset" \
      --elements 536870912 --threads "$threads" --json
  done
done
record codec.txt "$lpmm" bench codec --threads "$threads"
config=experiments/configs/resnet20_cifar10.toml
train=("$lpmm" bench train "$config" --threads "$threads" --set data.set=drawn --set train.microbatches=1)
record train_lpmm_bf16.txt "${train[@]}"
if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  record train_pytorch_bf16.txt /usr/bin/python3 experiments/bench/pytorch/resnet20_speed.py --threads "$threads"
  record train_pytorch_fp32.txt /usr/bin/python3 experiments/bench/pytorch/resnet20_speed.py --threads "$threads" --fp32
fi
record train_lpmm_fp32.txt "${train[@]}" --set 'train.compute="fp32"'
resnet50=("$lpmm" bench train experiments/configs/resnet50_224.toml --threads "$threads" --warm-up 1 --steps 5)
for type in bf16 fp32; do
  record "resnet50_lpmm_$type.txt" "${resnet50[@]}" --set "train.compute=\"$type\""
  if /usr/bin/python3 -c 'import torchvision' 2>/dev/null; then
    options=(--threads "$threads")
    [ "$type" = bf16 ] || options+=(--fp32)
    record "resnet50_pytorch_$type.txt" /usr/bin/python3 experiments/bench/pytorch/resnet_speed.py "${options[@]}"
  fi
done
gpt2=("$lpmm" bench train experiments/configs/gpt2_124m.toml --threads "$threads" --warm-up 1)
for microbatches in 1 4; do
  record "gpt2_lpmm_k$microbatches.txt" "${gpt2[@]}" --steps 3 --set train.batch=$((4 * microbatches)) \
    --set train.microbatches="$microbatches"
  if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
    for type in bf16 fp32; do
      options=(--threads "$threads" --microbatches "$microbatches" --steps 1)
      [ "$type" = bf16 ] || options+=(--fp32)
      record "gpt2_pytorch_${type}_k$microbatches.txt" /usr/bin/python3 experiments/bench/pytorch/gpt2_speed.py "${options[@]}"
    done
  fi
done
