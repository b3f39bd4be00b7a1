#!/usr/bin/env bash
# Draws every chart that lies below this folder beside its script, NAME.gp, again: ten seconds, without logs and data sets.
# --svg leaves an SVG beside each PNG. Wants build/lpmm and gnuplot. (results/draw.sh makes the scripts of runs anew, from
# their logs.)
set -euo pipefail
cd "$(dirname "$0")/.."
lpmm=build/lpmm
[[ -x $lpmm ]] || { echo "draw.sh: $lpmm is missing; build it: README.md, or bash experiments/quickstart.sh" >&2; exit 2; }
find experiments/results -name '*.gp' -print0 | sort -z | xargs -0 "$lpmm" plot "$@"
(cd experiments/pictures && gnuplot memory.gp) # of the README, an SVG
