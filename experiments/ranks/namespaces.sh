#!/usr/bin/env bash
# Two hosts in one: network namespaces joined by a link of 1 Gbit/s, with a rank in each, started by mpirun through a
# launch agent in place of ssh. Compares the bytes with those of one process, the time of a step of GPT-2 124M with
# that of MPI's own all-reduce of as many fp32 numbers, and takes the link down while ranks train.
# usage: bash experiments/ranks/namespaces.sh LPMM [DOWNS [BATCH [LENGTH]]]    as root; wants iproute2, Open MPI and mpicc
#   DOWNS: how often the link goes down (5); BATCH sequences (2) of LENGTH tokens (32): a step of GPT-2
# LPMM_DATA names a folder with gpt2-bpe; without it the steps of GPT-2 are left out. Exits 77 where it cannot run.
set -u -o pipefail
cd "$(dirname "$0")/../.."
lpmm=$(realpath "$1") downs=${2:-5} batch=${3:-2} length=${4:-32} timeout=4
for tool in ip tc mpirun mpicc unshare; do command -v $tool >/dev/null || { echo "skipped: no $tool here"; exit 77; }; done
[ "$(id -u)" -eq 0 ] || { echo "skipped: only root may make network namespaces"; exit 77; }
work=$(mktemp -d) a=lpmm$$a b=lpmm$$b
. experiments/ranks/same.sh
clean() {
  for netns in $a $b; do ip netns pids $netns 2>/dev/null | xargs -r kill -9; ip netns del $netns 2>/dev/null; done
  rm -rf "$work"
}
trap clean EXIT
for netns in $a $b; do ip netns add $netns || { echo "skipped: no network namespaces here"; exit 77; }; done
ip link add v$$a netns $a type veth peer name v$$b netns $b
ip -n $a addr add 10.77.0.1/24 dev v$$a
ip -n $b addr add 10.77.0.2/24 dev v$$b
for end in a b; do
  ip -n lpmm$$$end link set lo up
  ip -n lpmm$$$end link set v$$$end up
  ip netns exec lpmm$$$end tc qdisc add dev v$$$end root tbf rate 1gbit burst 256kb latency 50ms ||
    echo "no tbf in this kernel: the link is as fast as memory"
done
# Each has a name of its own, so that no rank sees the other's process.
cat >"$work/agent" <<AGENT
#!/bin/bash
shift; while [[ \$1 == -* ]]; do shift; done
exec ip netns exec $b unshare -u bash -c "hostname host-b; \$*"
AGENT
chmod +x "$work/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
two() {
  ip netns exec $a unshare -u sh -c 'hostname host-a; exec "$@"' sh mpirun -n 2 --host 10.77.0.1:1,10.77.0.2:1 \
    --map-by node --bind-to none --mca plm_rsh_agent "$work/agent" --mca btl tcp,self --mca pml ob1 \
    --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 "$@"
}
sent() { ip netns exec $a cat /sys/class/net/v$$a/statistics/tx_bytes; }
same_as_one "two namespaces" two

if [ -d "${LPMM_DATA:-}/gpt2-bpe" ]; then
  gpt=(gpt2_124m --preset lpmm-min --set train.microbatches=2 --set train.batch=$batch --set model.context=$length
    --set data.length=$length --set ranks.slots=2 --set log.every_steps=1 --set
    checkpoint.final=false --set log.underflow_every_steps=0 --set watch.every_steps=0 --quiet)
  before=$(sent)
  two "$lpmm" train "${gpt[@]}" --set train.steps=6 --out "$work/gpt" >"$work/out" 2>&1 || cat "$work/out"
  bytes=$((($(sent) - before) / 6))
  "$lpmm" train "${gpt[@]}" --set train.steps=6 --set ranks.reads=false --ranks 2 --out "$work/local" >"$work/out" 2>&1 || cat "$work/out"
  mpicc -O2 experiments/ranks/all_reduce.c -o "$work/all_reduce"
  two "$work/all_reduce" 124439808 5 >"$work/reduce"
  LPMM_BYTES=$bytes python3 - "$work" $batch $length <<'PYTHON'
import json, os, statistics, sys
def times(run):
    steps = [json.loads(line) for line in open(f"{sys.argv[1]}/{run}/log.jsonl")]
    ends = [s["seconds"] for s in steps if s["type"] == "step"]
    return [round(b - a, 2) for a, b in zip(ends, ends[1:])]
reduce = [float(line) for line in open(sys.argv[1] + "/reduce")]
far, near, other = (statistics.median(t) for t in (times("gpt"), times("local"), reduce))
print(f"GPT-2 124M, lpmm-min, clipped, {sys.argv[2]} sequences of {sys.argv[3]} tokens; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
print(f"  over the link: a step takes {far:.2f} s {times('gpt')}, {int(os.environ['LPMM_BYTES']) / 1e6:.1f} MB sent by a rank")
print(f"  the same two ranks over socket pairs: {near:.2f} s {times('local')}")
print(f"  fp32 all-reduce by MPI of 124,439,808 numbers over the link: {other:.2f} s {reduce}")
print(f"  a whole step takes {far / other:.2f} of that, and what the link adds to it {(far - near) / other:.2f}")
PYTHON
else
  echo "no gpt2-bpe in LPMM_DATA: steps of GPT-2 124M are left out"
fi

for ((i = 1; i <= downs; ++i)); do
  out=$work/down$i
  two "$lpmm" train "${small[@]}" --set train.steps=100000 --set ranks.timeout_seconds=$timeout --out "$out" >"$work/out" 2>&1 &
  mpirun=$!
  until [ -d "$out/checkpoints/step_00000005" ]; do sleep 0.1; done
  sleep 0.$((RANDOM % 10))
  ip -n $b link set v$$b down
  began=$(date +%s%N)
  while pgrep -f "^$lpmm train .* --out $out" >/dev/null && [ $((($(date +%s%N) - began) / 1000000000)) -lt 60 ]; do sleep 0.05; done
  took=$((($(date +%s%N) - began) / 1000000))
  said=$(grep -a '^lpmm: ' "$work/out" | sed "s|$work|FOLDER|g")
  right=0
  [ $took -lt $((timeout * 1000 + 3000)) ] && [[ $said == *"has not been heard of for $timeout s"*"go on with --resume"* ]] && right=1
  say $right "the link goes down: both ranks have ended after $took ms (deadline $timeout s); \"$said\""
  # mpirun may not notice for minutes, nor its helper on the other side.
  ip netns pids $a | xargs -r kill -9 2>/dev/null
  ip netns pids $b | xargs -r kill -9 2>/dev/null
  wait $mpirun 2>/dev/null
  ip -n $b link set v$$b up
done
[ $failed -eq 0 ] && echo "all hold" || exit 1
