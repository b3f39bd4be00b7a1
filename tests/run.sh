#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: at most 30 minutes on 2 cores.
# usage: bash tests/run.sh [STAGE...]   stages: style release asan tsan (default: all)
# LPMM_DATA may name a folder with cifar-10-batches-bin; tests on real data skip without it.
set -u -o pipefail
cd "$(dirname "$0")/.."
stages=${*:-style release asan tsan}
jobs=$(nproc)
passed=0
failed=0
skipped=0

heading() { printf '\n== %s (%d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }
count() { sed -n "s/.*<testsuite.*[[:space:]]$2=\"\([0-9]*\)\".*/\1/p" <(tr -d '\n' <"$1"); }
fail() {
  echo "FAILED: $1"
  failed=$((failed + 1))
}

# build_and_test PRESET [ctest arguments...]: configures, builds and tests one preset of CMakePresets.json.
build_and_test() {
  local preset=$1 folder
  shift
  folder=build-$preset
  [ "$preset" != release ] || folder=build
  heading "$preset: build"
  cmake --preset "$preset" -G Ninja -DLPMM_TESTS=ON >"/dev/null" || { fail "$preset does not configure"; return; }
  cmake --build --preset "$preset" -j "$jobs" -- --quiet || { fail "$preset does not build"; return; }
  heading "$preset: test"
  local report=$PWD/$folder/junit.xml
  rm -f "$report"
  ctest --test-dir "$folder" -j "$jobs" --output-on-failure --progress --output-junit "$report" "$@" || true
  if [ ! -s "$report" ] || [ "$(count "$report" tests)" -eq 0 ]; then
    fail "$preset ran no tests"
    return
  fi
  local bad omitted
  bad=$(count "$report" failures)
  omitted=$(($(count "$report" skipped) + $(count "$report" disabled)))
  failed=$((failed + bad))
  skipped=$((skipped + omitted))
  passed=$((passed + $(count "$report" tests) - bad - omitted))
}

sources() { git ls-files 'kernels/*' 'lpmm/*' 'models/*' 'theory/*' 'experiments/*' 'tests/*' | grep -E "\.($1)\$"; }

for stage in $stages; do
  case $stage in
    style)
      heading "packages"
      bash experiments/packages.sh || fail "packages are missing"
      heading "style"
      if command -v clang-format >/dev/null; then
        sources 'cpp|h|cu' | xargs clang-format --dry-run -Werror || fail "clang-format -i mends this"
      else
        echo "clang-format is not installed: not checked"
      fi
      ;;
    *) build_and_test "$stage" ;;
  esac
done
printf '\n%d skipped\n' "$skipped"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
