#!/usr/bin/env bash
# Measures the packed update and the codecs, one JSON line each, into OUT/update.jsonl and OUT/codec_*.txt
# (experiments/results/update). Wants an idle machine; 35 minutes on 2 cores, 8 GB of memory.
# OLD: another lpmm to take turns with. PYTHON: one that has torch. Both are left out where empty.
# usage: [OLD=lpmm] [PYTHON=python3] bash experiments/bench/measure_update.sh [OUT]
set -eu -o pipefail
cd "$(dirname "$0")/../.."
lpmm=build/lpmm out=${1:-experiments/results/update}
mkdir -p "$out"
lscpu | grep -E '^(Model name|CPU\(s\)|Thread|L[123])' > "$out/machine.txt"
: > "$out/update.jsonl"

record() { # LABEL COMMAND...: one line {"what": LABEL, ...} of a command that prints one JSON object
  local label=$1
  shift
  printf '{"what": "%s", %s\n' "$label" "$("$@" 2> "$out/errors.txt" | tr -d '\n' | sed 's/^{//; s/  */ /g')" \
    | tee -a "$out/update.jsonl"
}
update() { # PROGRAM OPTIMIZER PRESET ELEMENTS THREADS [OPTION...]
  "$1" bench update --optimizer "$2" --preset "$3" --elements "$4" --threads "$5" --json "${@:6}"
}

presets="lpmm lpmm-compact lpmm-min lpmm-nano states8"
mi=$((1 << 20))
for simd in $("$lpmm" bench update --help | grep -o 'avx512\|avx2' | sort -u); do
  for turn in 1 2 3; do
    for optimizer in sgd adamw; do
      for preset in $presets; do
        record "roofline $turn" update "$lpmm" "$optimizer" "$preset" $((512 * mi)) 2 --simd "$simd"
      done
    done
  done
  specs="int8:block128 int12:block256 int7:block128 int5:block64 soft4:block128 soft3:block128"
  specs="$specs sqrt08:block128 sqrt04:block128 sqrt02:block128 de8:block256:rn ude8:block256:rn"
  # shellcheck disable=SC2046
  "$lpmm" bench codec --threads 2 --simd "$simd" $(printf -- '--spec %s ' $specs) 2> "$out/errors.txt" | tee "$out/codec_$simd.txt"
done
if [ -n "${OLD:-}" ]; then
  for turn in 1 2 3; do
    for optimizer in sgd adamw; do
      for preset in $presets; do
        record "old $turn" update "$OLD" "$optimizer" "$preset" $((64 * mi)) 2
        record "new $turn" update "$lpmm" "$optimizer" "$preset" $((64 * mi)) 2
      done
    done
  done
fi
if [ -n "${PYTHON:-}" ]; then
  for turn in 1 2 3; do
    for elements in 64 256; do
      for optimizer in sgd adamw; do
        record "torch $turn" "$PYTHON" experiments/bench/pytorch/update_speed.py --optimizer "$optimizer" \
          --elements $((elements * mi)) --threads 2
        for preset in $presets; do
          record "beside torch $turn" update "$lpmm" "$optimizer" "$preset" $((elements * mi)) 2
        done
      done
    done
  done
fi
for preset in lpmm-compact lpmm-min; do
  for threads in 1 2; do record threads update "$lpmm" adamw "$preset" $((64 * mi)) "$threads"; done
  for elements in 1 16 256 1024; do record elements update "$lpmm" adamw "$preset" $((elements * mi)) 2; done
done
rm "$out/errors.txt"
