#!/usr/bin/env bash
# Draws every chart of experiments/results again, and trains nothing. A chart comes from the logs of its runs where these
# are kept (NAME.tar.xz), else from its own script, NAME.gp or NAME.gp.xz. Wants build/lpmm and gnuplot, but no data set.
# usage: bash experiments/draw.sh [--check] [--svg]
#   --check   draws charts of logs into a temporary folder only; exits 1 where one is not drawn, where a table (NAME.csv)
#             is not the one kept here, or where the logs of NAME.tar.xz belong to no chart and no table below
#   --svg     leaves an SVG beside each PNG
# LPMM_BUILD names another folder than build/.
set -euo pipefail
cd "$(dirname "$0")/.."
lpmm=${LPMM_BUILD:-build}/lpmm results=experiments/results
check=false svg=()
for word in "$@"; do
  case $word in
    --check) check=true ;;
    --svg) svg=(--svg) ;;
    *) echo "draw.sh: there is no option '$word'; there are --check and --svg" >&2; exit 2 ;;
  esac
done
[[ -x $lpmm ]] || { echo "draw.sh: $lpmm is missing; build it: README.md, or bash experiments/quickstart.sh" >&2; exit 2; }
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
failed=0 drawn=0
fail() {
  echo "draw.sh: $1" >&2
  failed=$((failed + 1))
}

# The logs of FOLDER/NAME.tar.xz, in the temporary folder.
unpack() {
  mkdir -p "$new/$(dirname "$1")"
  tar -xJf "$results/$1.tar.xz" -C "$new/$(dirname "$1")"
  touch "$new/$1.used"
}

# Takes the figure NAME: with --check its table must be as before, else its files replace the old ones.
take() {
  local name=$1
  if [[ ! -s $new/$name.png ]]; then
    fail "$name: no chart was drawn"
    return
  fi
  drawn=$((drawn + 1))
  if $check; then
    [[ ! -e $results/$name.csv || ! -e $new/$name.csv ]] || cmp "$results/$name.csv" "$new/$name.csv" >&2 ||
      fail "$name.csv: the logs say other numbers"
    return
  fi
  for kind in csv png svg; do
    [[ ! -e $new/$name.$kind ]] || cp "$new/$name.$kind" "$results/$name.$kind"
  done
}

# figure NAME [OPTION...] RUN...: curves of runs or logs.
figure() {
  local name=$1
  mkdir -p "$new/$(dirname "$name")"
  "$lpmm" plot "${@:2}" --out "$new/$name" ${svg[@]+"${svg[@]}"} >/dev/null || true
  take "$name"
}

# figure_of_presets NAME RUN...: runs of the archive, each called by its preset, as in CONFIG__PRESET__...
figure_of_presets() {
  local name=$1 labels=() runs=() run preset
  for run in "${@:2}"; do
    preset=${run#*__}
    runs+=("$new/$(dirname "$name")/runs/$run") labels+=(--label "${preset%%__*}")
  done
  unpack "$(dirname "$name")/runs"
  figure "$name" "${runs[@]}" "${labels[@]}"
}

# Runs that are in tables and texts only: their logs are read.
numbers() {
  local logs log options=()
  unpack "$1"
  mapfile -t logs < <(find "$new/$1" -name '*.jsonl' | sort)
  for log in "${logs[@]}"; do options+=(--label "$log"); done
  "$lpmm" plot "${logs[@]}" "${options[@]}" --csv "$new/$1.csv" >/dev/null || fail "$1: its logs cannot be read"
}

for experiment in underflow microbatch convergence frontier; do
  for archive in "$results/$experiment"/*.tar.xz; do
    part=$(basename "$archive" .tar.xz)
    [[ -e experiments/$experiment/$part.toml ]] || continue
    unpack "$experiment/$part"
    "$lpmm" experiment "$experiment" --parts "$part" --draw --out "$new/$experiment" ${svg[@]+"${svg[@]}"} || true
    take "$experiment/$part"
  done
done
figure_of_presets cifar10/convergence resnet20_cifar10__{fp32,lpmm,lpmm-compact}__seed1
figure_of_presets gpt_char/convergence \
  gpt_char_shakespeare__{fp32,lpmm,lpmm-compact,lpmm-min}__optimizer.learning_rate=2e-3__seed1
figure_of_presets gpt_char_384/convergence gpt_char_shakespeare_384__{fp32,lpmm,lpmm-min}__seed1
for name in quickstart quickstart_cifar10; do
  unpack "$name/runs"
  figure "$name/convergence" "$new/$name/runs"/{fp32,compact_sr,compact_rn}.jsonl --label fp32 --label "lpmm-compact, sr" \
    --label "lpmm-compact, rn"
done
numbers frontier/three_bit_momentum
numbers gpt_char/rates
numbers memory/runs
numbers gpt_large/runs
for archive in "$results"/states/*.tar.xz; do numbers "states/$(basename "$archive" .tar.xz)"; done

while IFS= read -r archive; do
  [[ -e $new/${archive%.tar.xz}.used ]] || fail "$archive: no chart and no table is made of it; say here which, or remove it"
done < <(cd "$results" && find . -name '*.tar.xz' -printf '%P\n' | sort)
if ! $check; then
  find "$results" -name '*.gp' -print0 | sort -z | xargs -0 "$lpmm" plot ${svg[@]+"${svg[@]}"}
  while IFS= read -r name; do
    mkdir -p "$new/$(dirname "$name")"
    xz -dc "$results/$name.gp.xz" >"$new/$name.gp"
    "$lpmm" plot "$new/$name.gp" ${svg[@]+"${svg[@]}"}
    take "$name"
  done < <(cd "$results" && find . -name '*.gp.xz' -printf '%P\n' | sed 's/\.gp\.xz$//' | sort)
  (cd experiments/pictures && gnuplot memory.gp) # the README's, an SVG
fi
echo "draw.sh: $drawn charts of logs, $failed errors"
[[ $failed -eq 0 ]]
