# Read by tests/gpu.sh and experiments/gpu/run.sh: the card, the build for it, and parts, whose figures go into one JSON object
# that grows part by part. Whoever reads it sets
#   build      the folder to build in
#   out        the file of figures; fields=() begins another one
#   logs       the folder for what parts print
#   seconds    after so many seconds since the start no part runs
#   parts      the pattern that names of parts match
failed=0 fields=()
trap 'kill $(jobs -p) 2>/dev/null' EXIT

# find_card PROGRAM: sets `card`, its name, compute capability and driver, and `architecture`, as 90.
find_card() {
  command -v nvidia-smi >/dev/null || { echo "$1: there is no nvidia-smi, so no NVIDIA driver" >&2; exit 1; }
  card=$(nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader | head -1)
  [ -n "$card" ] || { echo "$1: nvidia-smi finds no GPU" >&2; exit 1; }
  architecture=$(cut -d, -f2 <<<"$card" | tr -d ' .')
}
# build_for_card TARGET...: two parts; LPMM_DEPS_DIR holds the dependencies that are not installed.
build_for_card() {
  part 60 configure cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CUDA_ARCHITECTURES="$architecture" \
    -DLPMM_ONEDNN=OFF -DLPMM_DOWNLOAD=OFF -DLPMM_TESTS=ON -DCMAKE_UNITY_BUILD=ON \
    ${LPMM_DEPS_DIR:+-DLPMM_DEPS_DIR="$LPMM_DEPS_DIR"} || exit 1
  part 300 build cmake --build "$build" -j "$(nproc)" --target "$@" || exit 1
}

# put NAME JSON: one more field; the file is replaced as a whole.
put() {
  fields+=("\"$1\": $2")
  local text
  text=$(printf ',\n %s' "${fields[@]}")
  printf '{%s\n}\n' "${text:1}" >"$out.tmp" && mv "$out.tmp" "$out"
}
quoted() { printf '"%s"' "$(tr -d '\000-\037' <<<"$1" | sed 's/\\/\\\\/g; s/"/\\"/g')"; }
# part SECONDS NAME COMMAND...: runs it within its limit and what is left; its output lies in $logs/NAME.txt.
part() {
  local limit=$1 name=$2 start=$SECONDS code=0
  shift 2
  [[ $name == $parts || $name == @(configure|build) ]] || return 1
  [ $((seconds - SECONDS)) -ge "$limit" ] || limit=$((seconds - SECONDS))
  if [ "$limit" -lt 5 ]; then
    put "$name" '"left out: no time"'
    return 1
  fi
  printf '== %s (%d s)\n' "$name" "$SECONDS"
  timeout -k 20 "$limit" "$@" >"$logs/$name.txt" 2>&1 &
  wait $! || code=$? # a signal ends a wait at once, and then the trap ends the command
  put "${name}_seconds" $((SECONDS - start))
  [ $code -eq 0 ] && return 0
  failed=$((failed + 1))
  tail -3 "$logs/$name.txt"
  put "${name}_failed" "$(quoted "exit code $code: $(tail -1 "$logs/$name.txt")")"
  return 1
}
# measured SECONDS NAME COMMAND...: a command that prints one JSON object.
measured() {
  part "$@" && put "$2" "$(figures "$2")"
}
figures() { sed -n '/^{/,/^}/p' "$logs/$1.txt"; }

# A text of some size, for speeds.
text_of_sources() { find kernels lpmm models -name '*.cpp' -exec cat {} +; }
# most_used FILE COMMAND...: runs it; the most bytes of the card that were in use meanwhile are `used`, those before `idle`.
memory_used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0 "$@"; }
most_used() {
  local samples=$1 watcher code=0
  shift
  idle=$(($(memory_used) << 20))
  memory_used -lms 20 >"$samples" &
  watcher=$!
  "$@" || code=$?
  kill $watcher 2>/dev/null
  used=$(sort -n "$samples" | tail -1)
  used=$((${used:-0} << 20))
  return $code
}
# planned_bytes ARGUMENT...: of the card's memory, as `lpmm plan` says.
planned_bytes() { "$lpmm" plan "$@" --json | sed -n 's/.*"device_bytes": *\([0-9]*\).*/\1/p'; }
