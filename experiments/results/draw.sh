#!/usr/bin/env bash
# Draws the figures of the READMEs again from the logs packed here, and trains nothing: two minutes. Unpacks NAME.tar.xz to
# NAME/ beside it (git ignores those). Words given are passed on to every drawing: --svg leaves an SVG beside each.
# Wants build/lpmm, and tinyshakespeare: `build/lpmm data get tinyshakespeare`.
set -euo pipefail
cd "$(dirname "$0")/../.."
lpmm=build/lpmm results=experiments/results
[[ -x $lpmm ]] || { echo "draw.sh: $lpmm is missing; build it: README.md, or bash experiments/quickstart.sh" >&2; exit 2; }

find "$results" -name '*.tar.xz' -print0 | while IFS= read -r -d '' archive; do
  tar -xJf "$archive" -C "$(dirname "$archive")" --skip-old-files
done
for name in underflow microbatch convergence frontier; do
  $lpmm experiment "$name" --out "$results/$name" "$@"
done

# figure FOLDER/NAME RUN... : CONFIG__PRESET__..., each called by its preset
figure() {
  local prefix=$1 labels=() runs=() run name
  shift
  while (($# > 0)) && [[ $1 != -- ]]; do
    run=$1 name=$(basename "$1")
    name=${name#*__}
    runs+=("$results/$run") labels+=(--label "${name%%__*}")
    shift
  done
  $lpmm plot "${runs[@]}" "${labels[@]}" --out "$results/$prefix" "${@:2}"
}
figure cifar10/convergence cifar10/runs/resnet20_cifar10__{fp32,lpmm,lpmm-compact}__seed1 -- "$@"
figure gpt_char/convergence \
  gpt_char/runs/gpt_char_shakespeare__{fp32,lpmm,lpmm-compact,lpmm-min}__optimizer.learning_rate=2e-3__seed1 -- "$@"
figure gpt_char_384/convergence gpt_char_384/runs/gpt_char_shakespeare_384__{fp32,lpmm,lpmm-min}__seed1 -- "$@"
for name in quickstart quickstart_cifar10; do
  $lpmm plot $results/$name/{fp32,compact_sr,compact_rn}.jsonl --label fp32 --label "lpmm-compact, sr" \
    --label "lpmm-compact, rn" --out "$results/$name/convergence" "$@"
done
(cd experiments/pictures && gnuplot memory.gp) # of the README
