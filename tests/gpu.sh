#!/usr/bin/env bash
# For a machine with an NVIDIA GPU, with no network: builds for its GPU, runs the GPU's tests and the sanitizers,
# measures, and writes one JSON object, which grows part by part. Ten minutes on 16 cores. PyTorch is measured
# beside where PYTHON (python3) has one for CUDA, and bitsandbytes where it has that.
# usage: [LPMM_DEPS_DIR=FOLDER] [PYTHON=python3] bash tests/gpu.sh --out FILE.json [OPTION...]
#   LPMM_DEPS_DIR      holds the dependencies that are not installed (fmt, CLI11, toml++, nlohmann-json, Highway,
#                      Eigen, utf8proc, GoogleTest)
#   --build FOLDER     where to build (build-gpu)
#   --binaries FOLDER  builds nothing: lpmm, kernels_tests and models_tests are there
#   --seconds N        what all parts may take together (600)
#   --parts PATTERN    only parts whose names match it, as in '@(tests|update_*)'
# Parts that do not fit into that time are left out, and said to be.
set -u -o pipefail
cd "$(dirname "$0")/.."
out='' build=build-gpu binaries='' seconds=600 parts='*' python=${PYTHON:-python3}
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=${2:?--out wants a file} && shift 2 ;;
    --build) build=${2:?--build wants a folder} && shift 2 ;;
    --binaries) binaries=${2:?--binaries wants a folder} && shift 2 ;;
    --seconds) seconds=${2:?--seconds wants a number} && shift 2 ;;
    --parts) parts=${2:?--parts wants a pattern} && shift 2 ;;
    *) sed -n 's/^# \{0,1\}//; /^usage/,/^Parts/p' "$0" >&2 && exit 2 ;;
  esac
done
[ -n "$out" ] || { echo "gpu.sh: name the file to write: --out FILE.json" >&2; exit 2; }
logs=$build/gpu-logs
. tests/gpu_parts.sh
find_card gpu.sh
mkdir -p "$logs" || exit 1

# line SECONDS NAME COMMAND...: a command whose last line tells.
line() {
  part "$@" && put "$2" "$(quoted "$(tail -1 "$logs/$2.txt")")"
}

put card "$(quoted "$card")"
put commit "$(quoted "$(git rev-parse HEAD 2>/dev/null || echo unknown)")"
if [ -z "$binaries" ]; then
  binaries=$build
  build_for_card lpmm kernels_tests models_tests
fi
lpmm=$binaries/lpmm
measured 20 info "$lpmm" info --json

# Runs the tests of `ctest -L gpu`, each in a process of its own: an error that stays with one device spoils no other.
gpu_tests() {
  local tests=$logs/test-names passed=0 failed=0 skipped=0 state name
  for binary in kernels_tests models_tests; do
    "$binaries/$binary" --gtest_list_tests --gtest_filter='Gpu*' |
      awk -v binary="$binaries/$binary" '/^[^ ]*\.$/ { suite = $1 } /^  / { print binary, suite $1 }'
  done >"$tests"
  [ -s "$tests" ] || { echo "no tests" && return 1; }
  xargs -P 6 -n 2 bash -c 'log=$0/$(tr / _ <<<"$2").txt state=failed
    timeout --foreground 80 "$1" --gtest_brief=1 --gtest_filter="$2" >"$log" 2>&1 && state=passed
    grep -q "SKIPPED" "$log" && state=skipped
    [ $state = passed ] && rm "$log"
    echo $state "$2"' "$logs/tests" <"$tests" >"$logs/test-states"
  while read -r state name; do
    declare $state=$((${!state} + 1))
    [ $state = passed ] || { echo "$state: $name" && grep -vE '^Note|^$' "$logs/tests/$(tr / _ <<<"$name").txt" | head -30; }
  done <"$logs/test-states"
  echo "$passed passed, $failed failed, $skipped skipped"
  [ $failed -eq 0 ] && [ $passed -gt 0 ]
}
# The tools of the sanitizer beside each other, the slow one in shards; the last line says what each found.
# Convolutions are those without cuDNN, whose kernels are not ours to check.
sanitizers() {
  local small='Gpu/*-*EverySize*:*32Bits*:*FiniteDifferences*:*PackedBytes.AreTheCpus*:*ConvolutionTest*/cuda'
  local tool shard log failed=0 found=''
  local -A shards=([memcheck]=1 [racecheck]=10 [initcheck]=1)
  rm -f "$logs"/*.code
  for tool in "${!shards[@]}"; do
    for ((shard = 0; shard < ${shards[$tool]}; ++shard)); do
      log=$logs/$tool-$shard
      (GTEST_TOTAL_SHARDS=${shards[$tool]} GTEST_SHARD_INDEX=$shard timeout --foreground 190 compute-sanitizer \
        --tool "$tool" --error-exitcode 1 "$binaries/kernels_tests" --gtest_brief=1 --gtest_filter="$small" \
        >"$log.txt" 2>&1; echo $? >"$log.code") &
    done
  done
  wait
  for tool in "${!shards[@]}"; do
    local states
    states=$(cat "$logs/$tool"-*.code | sed 's/^0$/no error/; s/^124$/not done in time/' | sort | uniq -c | tr -s ' \n' ' ')
    found+="; $tool:$states"
    grep -qvx 0 "$logs/$tool"-*.code && failed=1 && grep -h '^=========' "$logs/$tool"-*.txt | head -20
  done
  echo "${found#; }"
  [ $failed -eq 0 ]
}
# PyTorch compiles its models, which takes a minute, while the tests run. They measure in turn, when the lock is free.
pytorch=experiments/bench/pytorch lock=$logs/lock models=() processes=()
exec 9>"$lock" && flock 9
torch_model() { # NAME PROGRAM OPTION...
  local name=$1 program=$2 left=$((seconds - SECONDS))
  shift 2
  [[ $name == $parts ]] || return
  rm -f "$logs/$name.ready"
  timeout $((left > 1 ? left : 1)) "$python" "$pytorch/$program" --device cuda --turn "$lock" "$logs/$name.ready" "$@" \
    >"$logs/$name.txt" 2>&1 9>&- &
  models+=("$name") processes+=($!)
}
are_ready() { # or have ended
  local i
  for i in "${!models[@]}"; do
    [ -e "$logs/${models[i]}.ready" ] || ! kill -0 "${processes[i]}" 2>/dev/null || return 1
  done
}
if "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  has_pytorch=1
  torch_model pytorch_gpt2 gpt2_speed.py --compile --sequences 8 --length 1024 --steps 20 --microbatches 1 8
  for how in compile graphs; do
    torch_model pytorch_resnet20_$how resnet20_speed.py --$how --seconds 2
    torch_model pytorch_resnet18_$how resnet20_speed.py --$how --seconds 2 --resnet18
  done
else
  has_pytorch=
  put pytorch '"left out: no PyTorch for CUDA"'
fi
export -f gpu_tests sanitizers
export logs binaries
mkdir -p "$logs/tests"
line 120 tests bash -c gpu_tests 9>&-
if command -v compute-sanitizer >/dev/null; then
  line 200 sanitizers bash -c sanitizers 9>&-
else
  put sanitizers '"left out: no compute-sanitizer"'
fi
until are_ready; do sleep 0.5; done # nothing runs beside what is measured
flock -u 9
for i in "${!models[@]}"; do
  name=${models[i]}
  if wait "${processes[i]}"; then
    put "$name" "$(quoted "$(grep '^PyTorch' "$logs/$name.txt" | tr '\n' ' ')")"
  else
    failed=$((failed + 1))
    put "${name}_failed" "$(quoted "$(tail -1 "$logs/$name.txt")")"
  fi
done

mi=$((1 << 20))
for run in adamw:lpmm-compact adamw:lpmm adamw:lpmm-min sgd:lpmm sgd:lpmm-compact adamw:fp32; do
  optimizer=${run%:*} preset=${run#*:}
  measured 40 "update_${optimizer}_${preset//-/_}" "$lpmm" bench update --device cuda --json --optimizer "$optimizer" \
    --preset "$preset" --elements $((1024 * mi))
done
measured 30 codec "$lpmm" bench codec --device cuda --json --elements $((256 * mi)) --spec int8:block128 \
  --spec int12:block256 --spec soft4:block128 --spec sqrt08:block128
measured 20 plan_llama2_7b "$lpmm" plan experiments/configs/llama2_7b.toml --device cuda --json
measured 30 quantiles "$lpmm" bench quantiles --device cuda --json --to $((16 * mi))
text_of_sources >"$logs/text"
gpt2=(experiments/configs/gpt2_124m.toml --set data.path="$logs/text" --set data.tokenizer=bytes --set data.length=1024
  --set model.vocabulary=50257)
for preset in lpmm lpmm-compact lpmm-min fp32; do
  name=${preset//-/_}
  measured 60 "gpt2_k1_$name" "$lpmm" bench train "${gpt2[@]}" --device cuda --json --warm-up 3 --steps 20 \
    --set train.batch=8 --preset $preset
  measured 60 "gpt2_k8_$name" "$lpmm" bench train "${gpt2[@]}" --device cuda --json --warm-up 1 --steps 4 \
    --set train.batch=64 --set train.microbatches=8 --preset $preset
done
for net in resnet20 resnet18; do
  measured 40 $net "$lpmm" bench train experiments/configs/${net}_cifar10.toml --device cuda --json --steps 200 \
    --set data.set=drawn --set train.microbatches=1
done
part 60 trains "$lpmm" train experiments/configs/resnet8_drawn.toml --device cuda --out "$logs/run" --set train.epochs=2

# planned_against_used NAME ARGUMENT...: the most memory of the card that a training takes, beside its plan.
planned_against_used() {
  local name=$1
  shift
  most_used "$logs/$name-used" "$lpmm" train "$@" --device cuda --out "$logs/$name" --set train.steps=10 \
    --set checkpoint.final=false >"$logs/$name-train" 2>&1
  printf '{"planned_bytes": %s, "used_bytes": %s, "idle_bytes": %s}\n' "$(planned_bytes "$@" --device cuda)" $used $idle
}
export -f planned_against_used planned_bytes most_used memory_used
export lpmm
for net in resnet20 resnet18; do
  measured 30 memory_$net bash -c 'planned_against_used "$@"' _ memory_$net experiments/configs/${net}_cifar10.toml --set data.set=drawn
done
measured 30 memory_gpt2 bash -c 'planned_against_used "$@"' _ memory_gpt2 "${gpt2[@]}" --set train.batch=8

for optimizer in adamw sgd adamw8bit; do
  [ -n "$has_pytorch" ] || break
  [ $optimizer = adamw8bit ] && ! "$python" -c 'import bitsandbytes' 2>/dev/null && continue
  measured 40 "pytorch_update_$optimizer" "$python" $pytorch/update_speed.py --device cuda --optimizer "$optimizer" \
    --elements $((1024 * mi))
done
put failed "$failed"
printf '%d parts failed, %d s; %s holds the figures, %s the output\n' "$failed" "$SECONDS" "$out" "$logs"
[ "$failed" -eq 0 ]
