#!/usr/bin/env bash
# A SLURM of this one machine (Debian: slurm-wlm, munge), and runs that srun starts: their bytes against those of one
# process, and a time limit, whose signal saves a checkpoint.
# usage: bash experiments/ranks/slurm.sh LPMM    as root; exits 77 where it cannot run. Ends what it has started.
set -u -o pipefail
lpmm=$(realpath "$1")
for tool in slurmctld slurmd srun munged; do command -v $tool >/dev/null || { echo "skipped: no $tool here"; exit 77; }; done
[ "$(id -u)" -eq 0 ] || { echo "skipped: only root may start SLURM"; exit 77; }
work=$(mktemp -d) host=$(hostname -s) munged=
. "$(dirname "$0")/same.sh"
chmod 755 "$work"
clean() {
  for pid in slurmd slurmctld; do [ -f "$work/$pid.pid" ] && kill "$(cat "$work/$pid.pid")"; done
  [ -z "$munged" ] || kill "$munged"
  rm -rf "$work"
}
trap clean EXIT
if ! munge -n 2>/dev/null | unmunge >/dev/null 2>&1; then
  install -d -o munge -g munge /run/munge /var/log/munge /var/lib/munge
  runuser -u munge -- "$(command -v munged)" || { echo "skipped: munge does not start here"; exit 77; }
  munged=$(cat /run/munge/munged.pid)
fi
mkdir "$work/state" "$work/spool"
cat >"$work/slurm.conf" <<CONF
ClusterName=one
SlurmctldHost=$host
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
SlurmctldPort=16817
SlurmdPort=16818
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
NodeName=$host CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf
slurmctld -f "$SLURM_CONF" && slurmd -f "$SLURM_CONF" || { echo "skipped: SLURM does not start here"; exit 77; }
for ((i = 0; i < 100; ++i)); do sinfo -h -o %t 2>/dev/null | grep -q idle && break; sleep 0.2; done
srun -V
for ranks in 2 4; do same_as_one "srun -n $ranks" srun -n $ranks -O --mpi=pmix; done

said=$(srun -n 2 -O --mpi=none "$lpmm" train "${small[@]}" --out "$work/none" 2>&1 | grep -a '^lpmm: ')
[ ! -e "$work/none" ] && [[ $said == *"use srun --mpi=pmix"* ]] && right=1 || right=0
say $right "srun --mpi=none is refused: \"$said\""

# A minute is the shortest limit; the signal comes 50 seconds before its end, to within SLURM's 60.
cat >"$work/job" <<JOB
#!/bin/bash
srun --mpi=pmix -O $lpmm train ${small[*]} --set train.steps=1000000 --out $work/limited
JOB
chmod +x "$work/job"
for signal in USR1 TERM; do
  rm -rf "$work/limited"
  (cd "$work" && sbatch -n 2 -O --time=1 --signal=$signal@50 --wait -o "$work/out" "$work/job" >/dev/null)
  last=$(tail -1 "$work/limited/log.jsonl")
  step=$(sed -n 's/.*"steps":\([0-9]*\).*/\1/p' <<<"$last")
  [[ $last == *'"interrupted":true'* ]] && [ -d "$(printf '%s/limited/checkpoints/step_%08d' "$work" "$step")" ] && right=1 || right=0
  say $right "SIG$signal before the time limit: stopped and saved after step $step"
done
[ $failed -eq 0 ] && echo "all hold" || exit 1
