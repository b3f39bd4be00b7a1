#!/usr/bin/env bash
# Disturbs a small training in three ways, resumes it until it ends, and compares its last checkpoint, byte for
# byte, with that of a run that nothing disturbed:
#   kill     SIGKILL after a random time
#   killed   SIGKILL in a call that changes a file of the run; a write gets half its bytes to the file
#   failed   one such call fails with ENOSPC, EIO or EROFS; the program must not crash of it
# usage: bash tests/soak/run.sh [CASES]     of each kind, spread over all places; without it 176 random times and
#                                           every second call that changes a file, for both other kinds
# SOAK_DEVICE names the device (cpu), LPMM_BUILD the build folder (build) with `lpmm` and `libfault.so`, SOAK_FOLDER where runs lie (/dev/shm).
# Nine cases of it are the test soak.short.
set -u -o pipefail
cd "$(dirname "$0")/../.."
device=${SOAK_DEVICE:-cpu} build=$(realpath "${LPMM_BUILD:-build}") config=$PWD/tests/soak/training.toml
errors=(ENOSPC EIO EROFS)

train() { "$build/lpmm" train "$config" --device "$device" --out "$1" --resume --quiet; }
faulty() {  # RUN AT KIND
  FAULT_FOLDER=$1 FAULT_AT=$2 FAULT_KIND=$3 LD_PRELOAD=$build/libfault.so train "$1"
}
# All but the time, the length of the log and its checksum (it may hold steps twice), and the checksum over all.
state() { grep -vE '"(train_seconds|log_bytes|log_crc32|crc32)"' "$1/state.json"; }
finding() {
  echo "FINDING: $*"
  exit 1
}

# one_case KIND NUMBER AT: says `ok KIND`, or why the run ends otherwise than the undisturbed one.
one_case() {
  local kind=$1 number=$2 at=$3 run=$SOAK_WORK/$1_$2 error status=0
  local log=$run.log
  case $kind in
    kill)
      "$build/lpmm" train "$config" --device "$device" --out "$run" --resume --quiet >"$log" 2>&1 &
      local process=$!
      sleep "$at"
      kill -9 $process 2>/dev/null
      wait $process 2>/dev/null
      ;;
    killed)
      faulty "$run" "$at" KILL >"$log" 2>&1
      status=$?
      [ $status -eq 137 ] || finding "$kind at call $at: ended with $status, not by SIGKILL: $(tail -1 "$log")"
      ;;
    failed)
      error=${errors[$((number % 3))]}
      faulty "$run" "$at" "$error" >"$log" 2>&1
      status=$?
      [ $status -lt 126 ] || finding "$error at call $at: crashed with $status: $(tail -1 "$log")"
      ;;
  esac
  if [ "$kind" != failed ] || [ $status -ne 0 ]; then
    train "$run" >"$log" 2>&1 || finding "$kind ${error:-} at $at: does not resume: $(tail -1 "$log")"
  fi
  local last=checkpoints/step_00000034
  cmp -s "$run/$last/model.safetensors" "$SOAK_WORK/calm/$last/model.safetensors" ||
    finding "$kind ${error:-} at $at: other weights than those of the undisturbed run"
  cmp -s <(state "$run/$last") <(state "$SOAK_WORK/calm/$last") || finding "$kind ${error:-} at $at: another state"
  rm -rf "$run" "$log"
  echo "ok $kind"
}

if [ "${1:-}" = case ]; then
  shift
  one_case "$@"
  exit
fi

memory=/dev/shm
[ -w $memory ] || memory=$build
SOAK_WORK=$(realpath "$(mktemp -d -p "${SOAK_FOLDER:-$memory}" soak.XXXXXX)")
export SOAK_WORK
trap 'rm -rf "$SOAK_WORK"' EXIT
begin=$(date +%s%N)
FAULT_COUNT=$SOAK_WORK/count faulty "$SOAK_WORK/calm" 0 "" >/dev/null || finding "the undisturbed run fails"
microseconds=$((($(date +%s%N) - begin) / 1000))
calls=$(cat "$SOAK_WORK/count") || finding "no call was counted: is $build/libfault.so another program's?"
random=${1:-176} places=${1:-$(((calls + 1) / 2))}
echo "calls that change a file: $calls; seed of the random times: ${SOAK_SEED:=$RANDOM}"
RANDOM=$SOAK_SEED
{
  for ((i = 0; i < random; i++)); do
    after=$(((RANDOM * 32768 + RANDOM) % microseconds))
    printf 'kill %d %d.%06d\n' $i $((after / 1000000)) $((after % 1000000))
  done
  # Odd calls in full runs; where they are fewer than all, the middles of equal parts.
  for kind in killed failed; do
    for ((i = 0; i < places; i++)); do echo $kind $i $(((2 * i + 1) * calls / (2 * places) + 1)); done
  done
} >"$SOAK_WORK/cases"
xargs -P "$(nproc)" -L 1 bash tests/soak/run.sh case <"$SOAK_WORK/cases" >"$SOAK_WORK/results" 2>&1
grep -v '^ok ' "$SOAK_WORK/results"
bad=0
for kind in kill killed failed; do
  cases=$(grep -c "^$kind " "$SOAK_WORK/cases") same=$(grep -cx "ok $kind" "$SOAK_WORK/results")
  printf '%-7s %5d cases, %5d identical\n' $kind "$cases" "$same"
  bad=$((bad + cases - same))
done
exit $((bad > 0))
