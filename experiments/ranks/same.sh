# Read by namespaces.sh and slurm.sh: a short run, and whether ranks store what one process stores. They set `lpmm`, the
# program, and `work`, a folder; `failed` is 1 afterwards where something does not hold.
failed=0
say() {  # WHETHER-IT-HOLDS TEXT
  if [ "$1" = 1 ]; then echo "equal   $2"; else echo "DIFFER  $2"; failed=1; fi
}
small=(resnet8_drawn --preset lpmm --set train.microbatches=4 --set train.batch=64 --set data.train_images=2000
  --set data.test_images=200 --set ranks.slots=4 --set checkpoint.every_steps=5 --set checkpoint.keep=0 --set log.every_steps=1 --quiet)
# same_as_one NAME LAUNCHER...: the short run by a launcher.
same_as_one() {
  local name=$1 same=1 step file
  shift
  [ -d "$work/one" ] || "$lpmm" train "${small[@]}" --set train.steps=20 --out "$work/one" >"$work/out" || cat "$work/out"
  rm -rf "$work/ranks"
  "$@" "$lpmm" train "${small[@]}" --set train.steps=20 --out "$work/ranks" >"$work/out" 2>&1 || cat "$work/out"
  for step in 10 15 20; do
    file=checkpoints/step_000000$step/model.safetensors
    cmp "$work/one/$file" "$work/ranks/$file" || same=0
  done
  say $same "$name against one process: 3 checkpoints of resnet8"
}
