#!/usr/bin/env bash
# Packs folders of runs beside themselves: OUT/NAME -> OUT/NAME.tar.xz, or NAME.1.tar.xz, NAME.2.tar.xz, ... where one would
# be over 1 MB. The same runs always give the same bytes. Checkpoints stay out: a log is all that figures are drawn from.
#   bash experiments/results/pack.sh experiments/results/frontier/text experiments/results/underflow/*/
set -euo pipefail
shopt -s nullglob
most=1000000

pack() {  # ARCHIVE PATH... : paths below the current folder
  tar --sort=name --mtime=2026-01-01 --owner=0 --group=0 --numeric-owner --mode=u=rw,go=r,a+X --exclude=checkpoints \
    --exclude=output.txt --exclude='*.lock' -cf - "${@:2}" | xz -9e >"$1"
}

for folder in "$@"; do
  (
    cd "$(dirname "$folder")"
    name=$(basename "$folder")
    all=("$name"/*)
    for ((parts = 1; ; ++parts)); do
      rm -f "$name".tar.xz "$name".[0-9]*.tar.xz
      fits=true
      for ((part = 0; part < parts && ${#all[@]} > 0; ++part)); do
        first=$((part * ${#all[@]} / parts)) end=$(((part + 1) * ${#all[@]} / parts))
        archive=$name.$((part + 1)).tar.xz
        ((parts > 1)) || archive=$name.tar.xz
        pack "$archive" "${all[@]:first:end-first}"
        (($(stat -c %s "$archive") <= most)) || { fits=false; break; }
      done
      ! $fits || break
    done
    echo "$folder: $parts archive(s)"
  )
done
