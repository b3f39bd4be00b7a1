#!/usr/bin/env bash
# Measures training with all threads against one thread, while as many loops as there are processors, twice as many, or none
# keep these busy, into OUT/busy.txt: step times, medians of three runs in turn. A minute on 2 cores.
# usage: [LPMM=build/lpmm] [BEFORE=PROGRAM] bash experiments/bench/measure_busy.sh [OUT]     BEFORE: another lpmm to compare
set -eu -o pipefail
cd "$(dirname "$0")/../.."
lpmm=${LPMM:-build/lpmm} before=${BEFORE:-} out=${1:-experiments/results/speed}
loops=()
stop() {
  if [ ${#loops[@]} -gt 0 ]; then kill "${loops[@]}"; wait "${loops[@]}" 2> /dev/null || true; fi
  loops=()
}
trap stop EXIT
milliseconds() {  # PROGRAM THREADS WORD...
  local program=$1 threads=$2
  shift 2
  "$program" bench train "$@" --device cpu --threads "$threads" --preset lpmm-min --json |
    sed -n 's/.*"step_milliseconds": *\([0-9.e+-]*\).*/\1/p'
}
compare() {  # NAME WORD...
  local name=$1 i ones="" alls="" befores=""
  shift
  for i in 1 2 3; do
    ones+="$(milliseconds "$lpmm" 1 "$@") "
    alls+="$(milliseconds "$lpmm" 0 "$@") "
    if [ -n "$before" ]; then befores+="$(milliseconds "$before" 0 "$@") "; fi
  done
  printf '%s\n%s\n%s\n' "$ones" "$alls" "$befores" | awk -v name="$name" -v loops=${#loops[@]} '
    NF == 0 { next }
    { for (i = 2; i <= NF; ++i) for (j = i; j > 1 && $j < $(j - 1); --j) { t = $j; $j = $(j - 1); $(j - 1) = t }
      median[++n] = $2 }
    END {
      printf "%s, %d loops: one thread %.2f ms, all threads %.2f times that", name, loops, median[1], median[2] / median[1]
      if (n > 2) printf ", before %.2f times", median[3] / median[1]
      printf "\n"
    }'
}
{
  for busy in 0 "$(nproc)" $((2 * $(nproc))); do
    for ((i = 0; i < busy; ++i)); do
      while :; do :; done &
      loops+=($!)
    done
    compare "GPT of 32 channels" experiments/configs/gpt_tiny_embedded.toml --steps 100 --set model.embedding=32 --set model.context=32 --set train.batch=4
    compare "GPT of 64 channels" experiments/configs/gpt_tiny_embedded.toml --steps 30
    compare "ResNet-8" experiments/configs/resnet8_drawn.toml --steps 5
    stop
  done
} | tee "$out/busy.txt"
