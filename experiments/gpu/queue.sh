# Measurements that wait for a GPU, most valuable first; run.sh reads them. At the end, one after the other:
#   entry NAME MINUTES WHERE DECIDES FUNCTION [ARGUMENT...]
# NAME.json will hold the figures. MINUTES, at most 9, are an estimate for an H100. WHERE is the table that the figures fill,
# DECIDES what they decide. FUNCTION measures by `once SECONDS PART COMMAND...`, whose command prints one JSON object.

data=${LPMM_DATA:-${HOME:-}/.cache/lpmm} steps=20 warm_up=5 elements=$((1 << 30)) small=() small_gpt=()
if [ $mode = rehearse ]; then
  steps=1 warm_up=0 elements=4096
  small=(--set model.layers=1 --set model.embedding=32 --set model.heads=2 --set model.kv_heads=1 --set model.mlp_width=64
    --set model.vocabulary=256 --set data.length=16 --set train.batch=1 --set train.microbatches=1)
  small_gpt=(--set model.layers=1 --set model.embedding=32 --set model.heads=2 --set model.vocabulary=256 --set data.length=16
    --set data.tokenizer=bytes --set train.steps=2 --set train.batch=2)
fi
export device mode steps warm_up lpmm

# beside_plan ARGUMENT...: the speed of a training, and the most memory of the card that it took beside its plan.
beside_plan() {
  local speed
  speed=$(mktemp)
  most_used "$speed.used" "$lpmm" bench train "$@" --warm-up "$warm_up" --steps "$steps" --json >"$speed" || return
  printf '{"planned_bytes": %s, "used_bytes": %s, "idle_bytes": %s, "speed":\n%s\n}\n' "$(planned_bytes "$@")" "$used" "$idle" \
    "$(sed 's/^/ /' "$speed")"
  rm "$speed" "$speed.used"
}
# kernel_shares FOLDER ARGUMENT...: where the time of two steps goes, by Nsight Compute. It skips the kernels that make initial
# values, two per 2^18 weights; the test at the end, one sequence forward, is in it.
kernel_shares() {
  local run=$1 parameters profiler=()
  shift
  if [ "$mode" = run ]; then
    command -v ncu >/dev/null || { echo '{"left_out": "there is no ncu"}' && return; }
    parameters=$("$lpmm" plan "$@" --json | sed -n 's/.*"parameters": *\([0-9]*\).*/\1/p' | head -1)
    profiler=(ncu --csv --print-units base --clock-control none --cache-control none --metrics gpu__time_duration.sum
      --launch-skip $((parameters >> 17)))
  fi
  rm -rf "$run"
  "${profiler[@]}" "$lpmm" train "$@" --set train.steps=2 --out "$run" --quiet >"$run.csv" || return
  if [ "$mode" = run ]; then awk -f experiments/gpu/kernel_shares.awk "$run.csv"; else echo '{"left_out": "no GPU"}'; fi
}
# printed COMMAND...: its lines as a JSON object.
printed() {
  set -o pipefail
  "$@" | python3 -c 'import json, sys; print(json.dumps({"printed": sys.stdin.read().splitlines()}))'
}
export -f printed beside_plan kernel_shares most_used memory_used planned_bytes
# llama MODEL SEQUENCES ARGUMENT...: sets `run` to steps of so many sequences of 1,024 tokens of sources.
llama() {
  run=(experiments/configs/llama2_7b.toml --device "$device" --set model.name="$1" --set train.batch="$2" --set data.length=1024
    --set data.path="$logs/text" --set data.validation_share=0.001 "${@:3}" "${small[@]}")
  [ $mode != rehearse ] || [[ $1 != *-a3b ]] || run+=(--set model.experts=8 --set model.expert_width=32)
  [ $mode = dry ] || text_of_sources >"$logs/text"
  [ $mode != rehearse ] || truncate -s 400000 "$logs/text"
}

# losses: of the entry's run, step by step as its log has them.
losses() {
  [ $mode = dry ] || put losses "[$(sed -n 's/^{"type":"step","step":\([0-9]*\),.*"loss":\([-0-9.e]*\),.*/[\1, \2]/p' \
    "$logs/run/log.jsonl" | paste -sd,)]"
}

# shape MODEL SEQUENCES: what a model of this shape takes with its activations kept, and with them recomputed.
shape() {
  local run
  llama "$@"
  once 200 kept beside_plan "${run[@]}" --set model.recompute=false
  once 200 recomputed beside_plan "${run[@]}" --set model.recompute=true
  once 200 kernels kernel_shares "$logs/run" "${run[@]}" --set model.recompute=false
}
# documents: windows of one text, and documents of 10 to 600 bytes that share sequences, in a model of Qwen2.5-0.5B's shape.
documents() {
  local run
  llama qwen2-0.5b 8
  once 200 windows beside_plan "${run[@]}"
  [ $mode = dry ] || tr -cd 'a-z \n' <"$logs/text" | awk '{ line = line " " $0 } length(line) > 10 + (NR * 7919) % 590 {
    printf "{\"text\": \"%s\"}\n", line; line = "" }' >"$logs/documents.jsonl"
  once 200 documents beside_plan "${run[@]}" --set data.set=conversations --set data.path="$logs/documents.jsonl"
}
# average: the same training without an average of the weights, and with one beside them.
average() {
  local run share
  llama qwen2-0.5b 8
  for share in 0 0.999; do once 200 "average_$share" beside_plan "${run[@]}" --set train.average=$share; done
}
# ranks: one process, and two that read each other's memory or send it, by the host or by NCCL, with all weights in each and
# with weights in shares: speed, how they did it, and whether all store the same. NCCL takes no two ranks of one GPU.
ranks() {
  local run same=true name stage
  [ $mode = dry ] || text_of_sources >"$logs/text"
  [ $mode != rehearse ] || truncate -s 4000 "$logs/text"
  run=(experiments/configs/gpt2_124m.toml --device "$device" --preset lpmm-min --set data.path="$logs/text" --set data.length=1024
    --set train.batch=16 --set train.steps="$steps" --set checkpoint.final=true "${small_gpt[@]}" --set train.microbatches=2
    --set ranks.slots=2 --json --quiet)
  once 120 one "$lpmm" train "${run[@]}" --out "$logs/one"
  for stage in 1 3; do
    for name in read sent nccl; do
      once 120 ${name}_$stage "$lpmm" train "${run[@]}" --ranks 2 --set ranks.stage=$stage \
        --set ranks.reads=$([ $name = read ] && echo true || echo false) \
        --set ranks.nccl=$([ $name = nccl ] && echo true || echo false) --out "$logs/${name}_$stage"
    done
  done
  [ $mode != dry ] || return 0
  for name in {read,sent,nccl}_{1,3}; do
    cmp -s "$logs/one/checkpoints"/step_*/model.safetensors "$logs/$name/checkpoints"/step_*/model.safetensors || same=false
  done
  put same_bytes $same
}
# small_card: real steps of Llama-2-7B, and their speed, in less than 24 GB; 32 sequences in four parts.
small_card() {
  local run
  llama llama-2-7b 32 --set train.microbatches=4
  once 200 steps "$lpmm" train "${run[@]}" --set train.steps="$steps" --set log.every_steps=1 --out "$logs/run" --resume --json
  losses
  once 200 speed beside_plan "${run[@]}"
}
# python_package: its module with CUDA, its bytes beside the CPU's, and its step and memory beside torch's, where python3 has
# torch for this GPU, and nanobind.
python_package() {
  local with=$work/python_module package part
  if [ $mode = run ] && ! python3 -c 'import torch, nanobind, pytest; torch.zeros(1, device="cuda")' 2>/dev/null; then
    missing='python3 has no torch for this GPU, no nanobind or no pytest'
    return
  fi
  if [ $mode = rehearse ]; then
    put left_out '"no GPU"'
    return
  fi
  package=(env PYTHONPATH="$with/python" LPMM_BUILD="$with" LPMM_DEVICE=cuda python3)
  once 200 build printed bash -c 'cmake -S . -B "$1" -DCMAKE_BUILD_TYPE=Release -DLPMM_PACKED_ONLY=ON -DLPMM_PYTHON=ON \
    -DLPMM_TESTS=ON -DCMAKE_UNITY_BUILD=ON -DLPMM_DEPS_DIR="${LPMM_DEPS_DIR:-}" -DPython_EXECUTABLE="$(command -v python3)" &&
    cmake --build "$1" -j "$(nproc)" --target lpmm_python lpmm_python_reference' _ "$with"
  once 100 same_bytes printed "${package[@]}" -m pytest -q tests/python/equal_test.py -k 'not Muon' # whose products are cuBLAS's
  for part in step "step --bf16" memory; do
    [ "$part" != memory ] || python3 -c 'import transformers' 2>/dev/null || [ $mode = dry ] || continue
    once 60 "${part/ --/_}" printed "${package[@]}" experiments/bench/python.py $part --device cuda
  done
}
# rules PRESET: the update of every rule, 2^30 weights.
rules() {
  local rule
  for rule in sgd adam adamw lion lamb lars lars_clip rmsprop adagrad ademamix adam_mini adamw_factored adafactor muon; do
    once 60 "$rule" "$lpmm" bench update --device "$device" --optimizer "$rule" --preset "$1" --elements "$elements" --json
  done
}
# text PRESET SEED: GPT-2 124M from nothing on 100 million tokens of source code and manuals, then the loss of a million others.
text() {
  local packed=$data/linux.tokens.xz facts=$data/linux.json tokens=$work/linux.tokens share=0.01
  if [ $mode = rehearse ]; then
    tokens=$logs/text && text_of_sources >"$tokens" && truncate -s 4000 "$tokens"
  elif [ $mode = run ]; then
    wants "$packed" "python3 experiments/gpu/make_text.py $data makes it"
    wants "$facts" "python3 experiments/gpu/make_text.py $data makes it"
    [ -z "$missing" ] || return
    [ -e "$tokens" ] || part 60 unpack bash -c 'xz -dc "$1" >"$2.new" && mv "$2.new" "$2"' _ "$packed" "$tokens" || return
    put data "$(cat "$facts")" && share=$(sed -n 's/.*"validation_share": *\([0-9.]*\).*/\1/p' "$facts")
  fi
  once 540 run "$lpmm" train experiments/configs/gpt2_124m.toml --device "$device" --preset "$1" --set train.seed="$2" \
    --set data.path="$tokens" --set data.validation_share="$share" --set data.length=1024 --set train.batch=16 \
    --set train.microbatches=2 --set train.steps=6104 --set schedule.warmup_steps=300 --set log.every_steps=100 \
    --set checkpoint.every_steps=1000 --set checkpoint.keep=1 "${small_gpt[@]}" --out "$logs/run" --resume --json --quiet
  losses
}

documents='results/cuda, documents'
qwen='results/cuda, Qwen2.5' card24='results/cuda, 24 GB' updates='results/cuda, every rule' texts='results/cuda, 100 million tokens'
entry llama2-7b_24gb 5 "$card24" 'does Llama-2-7B train with AdamW below 24 GB, at 11,000 tokens/s or more?' small_card
entry qwen2.5-7b 7 "$qwen" 'are the 13,800 tokens/s reached that LLMQ has on an H100 in bf16?' shape qwen2.5-7b 8
entry qwen2.5-0.5b 3 "$qwen" 'are 149,000 tokens/s reached?' shape qwen2-0.5b 8
entry qwen2.5-1.5b 4 "$qwen" 'are 59,000 tokens/s reached?' shape qwen2.5-1.5b 8
entry qwen2.5-3b 5 "$qwen" 'are 31,000 tokens/s reached?' shape qwen2.5-3b 8
entry text_fp32_1 6 "$texts" 'what fp32 loses per token: packed runs are compared with it' text fp32 1
entry text_lpmm-min_1 6 "$texts" 'does lpmm-min end at most 0.02 nats above fp32?' text lpmm-min 1
entry text_lpmm-nano_1 6 "$texts" 'does lpmm-nano end at most 0.04 nats above fp32?' text lpmm-nano 1
entry text_lpmm_1 6 "$texts" 'does lpmm end at most 0.01 nats above fp32?' text lpmm 1
entry python 8 'lpmm/python' 'does the package store on a GPU what it stores on a CPU, at 1.5 times the speed of torch fused?' python_package
entry rules_lpmm-min 4 "$updates" 'how many weights per second does each of the 14 rules update?' rules lpmm-min
entry rules_fp32 4 "$updates" 'which rule is slower packed than in fp32?' rules fp32
for seed in 2 3; do
  for preset in fp32 lpmm-min lpmm-nano lpmm; do
    entry text_${preset}_$seed 6 "$texts" 'does the gap of seed 1 hold with another one?' text $preset $seed
  done
done
entry documents 3 "$documents" 'are 0.95 of the tokens per second of windows reached where documents share sequences?' documents
entry average 3 "$documents" 'does an average of the weights cost less than a tenth of a step?' average
entry experts 4 "$qwen" 'which share of the speed of a dense model with as many active weights (qwen2.5-3b) has a Qwen3-MoE?' shape qwen3-30b-a3b 4 --set model.layers=12
entry ranks 5 'results/cuda, two processes on one GPU' 'do two processes on one GPU store what one does, and does reading in the GPU cost less than sending through the host?' ranks
