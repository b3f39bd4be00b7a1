#!/usr/bin/env bash
# Measures the packed update of every rule under every preset of our own, one JSON line each, into OUT/rules.jsonl. Wants an
# idle machine; ten minutes on 2 cores, 2 GB of memory.
# usage: [LPMM=build/lpmm] bash experiments/bench/measure_rules.sh [OUT]
set -eu -o pipefail
cd "$(dirname "$0")/../.."
lpmm=${LPMM:-build/lpmm} out=${1:-experiments/results/optimizers}
mkdir -p "$out"
: > "$out/rules.jsonl"
rules=$("$lpmm" info --json | tr -d '\n' | sed -n 's/.*"rules": *\[\([^]]*\)\].*/\1/p' | tr -d '",')
[ -n "$rules" ] || { echo "measure_rules.sh: lpmm info lists no rules" >&2; exit 1; }
for rule in $rules; do
  for preset in fp32 lpmm lpmm-compact lpmm-min lpmm-nano; do
    "$lpmm" bench update --optimizer "$rule" --preset "$preset" --threads 2 --json | tr -d '\n' | sed 's/  */ /g' >> "$out/rules.jsonl"
    echo >> "$out/rules.jsonl"
  done
done
