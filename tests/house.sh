#!/usr/bin/env bash
# The measures of the house: files of at most 450 lines, functions of at most 60, folders of at most 16 sources
# (a header beside its source counts once), no tracked file over 1 MB, 15 MB in all.
# usage: bash tests/house.sh     prints what is larger; exits 1 where anything is
set -u -o pipefail
cd "$(dirname "$0")/.."
sources() {
  find kernels lpmm models experiments -type f -not -path '*/results/*' | grep -E '\.(cpp|cu|cuh|h)$' | sort
}
{
  sources | xargs wc -l | awk '$2 != "total" && $1 > 450 { print $2 ": " $1 " lines, at most 450" }'

  # As clang-format lays code out, a function ends with a lone brace in the column where its first line begins.
  sources | xargs awk '
    FNR == 1 { split("", begin) }
    /^ *$/ || /^ *#/ || /^ *\/\// { next }
    {
      match($0, /^ */)
      indent = RLENGTH
      if (indent <= 2 && $0 ~ /^ *}$/ && indent in begin) {
        lines = FNR - begin[indent] + 1
        if (lines > 60) print FILENAME ":" begin[indent] ": a function of " lines " lines, at most 60"
      }
      begin[indent] = FNR
    }'

  sources | sed -E 's/\.(cpp|cu|cuh|h)$//' | sort -u | sed -E 's|/[^/]*$||' | sort | uniq -c |
    awk '$1 > 16 { print $2 ": " $1 " sources, at most 16" }'

  # An archive of the sources, or a machine without git, does not say what is tracked.
  { git ls-files -z 2>/dev/null || true; } | xargs -0 -r stat -c '%s %n' 2>/dev/null | awk '
    $1 > 1048576 { print $2 ": " $1 " bytes, at most 1 MB" }
    { all += $1 }
    END { if (all > 15 * 1048576) print "all tracked files: " all " bytes, at most 15 MB: keep logs as experiments/results/pack.py leaves them" }'
} | { ! grep .; }
