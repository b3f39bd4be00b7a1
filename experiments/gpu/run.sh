#!/usr/bin/env bash
# Runs what waits for an NVIDIA GPU (queue.sh), most valuable first: for a machine that is at hand for minutes and has no network.
# usage: [LPMM_DEPS_DIR=FOLDER] [LPMM_DATA=FOLDER] bash experiments/gpu/run.sh [OPTION...]
#   --minutes N         what all may take together, the build too (9); an entry that does not fit is left out
#   --out FOLDER        where ENTRY.json goes (experiments/results/cuda); an entry whose file lies here or there is done
#   --entries PATTERN   only entries whose names match it, as in 'qwen*'
#   --again             also those that are done
#   --build FOLDER      where to build, and where parts and runs lie (build-gpu): a second call goes on with them
#   --binaries FOLDER   builds nothing: lpmm is there
#   --list              says what there is, and runs nothing
#   --dry               says each command, and runs nothing
#   --rehearse          the same commands with tiny models on the emulated GPU; `build` is where lpmm is
# Folders are relative to the repository.
# Exit code: 0 all are done, 1 one failed, 2 bad usage, 3 some were left out.
set -u -o pipefail
cd "$(dirname "$0")/../.."
kept=experiments/results/cuda
folder='' pattern='*' again='' build=build-gpu binaries='' mode=run minutes=9
while [ $# -gt 0 ]; do
  case $1 in
    --minutes) minutes=${2:?--minutes wants a number} && shift 2 ;;
    --out) folder=${2:?--out wants a folder} && shift 2 ;;
    --entries) pattern=${2:?--entries wants a pattern} && shift 2 ;;
    --build) build=${2:?--build wants a folder} && shift 2 ;;
    --binaries) binaries=${2:?--binaries wants a folder} && shift 2 ;;
    --again) again=1 && shift ;;
    --list | --dry | --rehearse) mode=${1#--} && shift ;;
    *) sed -n 's/^# \{0,1\}//; /^usage/,/^Exit/p' "$0" >&2 && exit 2 ;;
  esac
done
[[ $minutes =~ ^[1-9][0-9]{0,3}$ ]] || { echo "run.sh: --minutes $minutes: a number from 1 to 9999 was expected" >&2; exit 2; }
end=$((minutes * 60)) seconds=$((minutes * 60)) parts='*' device=cuda lpmm=lpmm work=$build/queue
. tests/gpu_parts.sh

# once SECONDS NAME COMMAND...: a command or function that prints one JSON object; not again where an earlier call has it.
once() {
  local limit=$1 name=$2
  shift 2
  if [ $mode = dry ]; then
    printf '  %s:' "$name" && printf ' %q' "$@" && echo
    return
  fi
  if [ -e "$logs/$name.done" ]; then
    put "$name" "$(figures "$name")"
    return
  fi
  [ "$(type -t "$1")" != function ] || set -- bash -c '"$@"' _ "$@"
  local failures=$failed
  if measured "$limit" "$name" "$@"; then
    touch "$logs/$name.done"
  elif [[ ${fields[-1]} == *'exit code 124'* ]]; then # stopped by the limit: goes on with the next call
    failed=$failures && put "$name" '"left out: no time"'
  fi
}
# wants PATH HOW: notes what an entry cannot do without, and how one gets it.
missing=''
wants() { [ -e "$1" ] || [ $mode != run ] || missing="$1 is missing: $2"; }

# entry NAME MINUTES WHAT DECIDES COMMAND...: one of the queue; queue.sh explains.
total=0 finished=0
entry() {
  local name=$1 takes=$2 what=$3 decides=$4 state=waits before=$failed left
  shift 4
  [[ $name == $pattern ]] || return 0
  total=$((total + 1))
  if [ -e "$kept/$name.json" ] || [ -e "$folder/$name.json" ]; then state='is done'; fi
  case $mode in
    list)
      printf '%-18s %2d minutes, %s. %s: %s\n' "$name" "$takes" "$state" "$what" "$decides"
      return ;;
    dry)
      echo "$name"
      logs=$work/$name && "$@"
      return ;;
    run)
      if [ "$state" = 'is done' ] && [ -z "$again" ]; then
        finished=$((finished + 1)) && echo "$name: is done"
        return
      fi
      left=$((end - SECONDS))
      if [ $left -lt $((takes * 60)) ]; then
        echo "$name: left out: takes $takes minutes, $((left / 60)):$(printf %02d $((left % 60))) are left"
        return
      fi ;;
  esac
  echo "$name: $decides"
  logs=$work/$name out=$work/$name/all.json fields=() missing=''
  [ -z "$again" ] || rm -rf "$logs"
  mkdir -p "$logs"
  seconds=$((end < SECONDS + 540 ? end : SECONDS + 540))
  put entry "$(quoted "$name")" && put card "$(quoted "$card")" && put commit "$(quoted "$commit")"
  "$@"
  if [ -n "$missing" ]; then
    echo "left out: $missing"
  elif [ "$failed" -gt "$before" ] || grep -q '"left out: no time"' "$out"; then
    cp "$out" "$folder/$name.unfinished.json"
  else
    cp "$out" "$folder/$name.json" && rm -f "$folder/$name.unfinished.json" && finished=$((finished + 1))
  fi
}

case $mode in
  rehearse)
    device=cuda-emulated card='rehearsed on the emulated GPU' binaries=${binaries:-build} seconds=3600 end=3600
    memory_used() { echo 0; } # there is no nvidia-smi
    work=$(mktemp -d) && trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
    folder=${folder:-$work} ;;
  run) find_card run.sh ;;
esac
folder=${folder:-$kept}
if [ $mode = run ] || [ $mode = rehearse ]; then
  mkdir -p "$folder" && probe=$(mktemp -p "$folder") && rm "$probe" || exit 1
  commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)
  if [ -z "$binaries" ]; then
    binaries=$build logs=$build/queue out=$build/queue/build.json
    mkdir -p "$logs" && build_for_card lpmm
  fi
  lpmm=$binaries/lpmm
  [ -x "$lpmm" ] || { echo "run.sh: $lpmm is no program: build it, or name its folder with --binaries" >&2; exit 1; }
  # Parts belong to the program that made them.
  [ $mode = rehearse ] || work=$work/$(cksum <"$lpmm" | cut -d' ' -f1)
fi
. experiments/gpu/queue.sh
[ $mode = run ] || [ $mode = rehearse ] || exit 0
[ "$folder" = "$work" ] || where="; figures in $folder" # else they are gone at the end
echo "$finished of $total done, $failed parts failed, $SECONDS s${where:-}"
[ $failed -eq 0 ] || exit 1
[ $finished -eq $total ] || exit 3
