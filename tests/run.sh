#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: at most 30 minutes on 2 cores.
# usage: bash tests/run.sh [STAGE...]
#   style    layout, shell syntax, sizes           release  what users run, with CUDA where nvcc is found
#   asan     address and undefined behaviour      tsan     data races, on the tests that use threads
#   tidy     clang-tidy; without being named it runs only where the others left time
# LPMM_DATA may name a folder with cifar-10-batches-bin; tests on real data skip without it.
set -u -o pipefail
cd "$(dirname "$0")/.."
stages=${*:-style release asan tsan tidy}
jobs=$(nproc)
passed=0 failed=0 skipped=0

heading() { printf '\n== %s  (%d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }
fail() {
  echo "FAILED: $1"
  failed=$((failed + 1))
}
# An attribute of ctest's report: tests, failures, disabled or skipped.
attribute() { tr '\n\t' '  ' <"$1" | sed -n "s/.*<testsuite [^>]* $2=\"\([0-9]*\)\".*/\1/p"; }
sources() {
  find kernels lpmm models theory experiments tests -type f -not -path '*/results/*' | grep -E "\.($1)\$" | sort
}

# build_and_test PRESET FOLDER [ctest arguments...]: one preset of CMakePresets.json; of $targets only, where it is
# set.
build_and_test() {
  local preset=$1 folder=$2 report=$PWD/$2/junit.xml
  shift 2
  heading "$preset: build"
  # One architecture of GPUs: enough to compile every kernel.
  cmake --preset "$preset" -G Ninja -DLPMM_TESTS=ON -DCMAKE_UNITY_BUILD=ON -DCMAKE_CUDA_ARCHITECTURES=90 || { fail "$preset does not configure"; return; }
  cmake --build "$folder" -j "$jobs" ${targets:+--target $targets} -- --quiet || { fail "$preset does not build"; return; }
  heading "$preset: test"
  rm -f "$report"
  ctest --test-dir "$folder" -j "$jobs" --output-on-failure --output-junit "$report" "$@" |
    grep -vE '^ *Start +[0-9]+: |[0-9]+/[0-9]+ Test .*   Passed '
  if [ ! -s "$report" ] || [ "$(attribute "$report" tests)" -eq 0 ]; then
    fail "$preset ran no tests"
    return
  fi
  local bad omitted
  bad=$(attribute "$report" failures)
  omitted=$(($(attribute "$report" skipped) + $(attribute "$report" disabled)))
  failed=$((failed + bad))
  skipped=$((skipped + omitted))
  passed=$((passed + $(attribute "$report" tests) - bad - omitted))
}

heading "packages"
bash experiments/packages.sh || fail "packages are missing"
for stage in $stages; do
  case $stage in
    style)
      heading "style"
      for script in $(sources sh) .ci/run; do bash -n "$script" || fail "$script"; done
      if command -v clang-format >/dev/null; then
        sources 'cpp|h|cu' | xargs clang-format --dry-run -Werror || fail "layout; clang-format -i mends it"
      else
        echo "clang-format is not installed: layout not checked"
      fi
      bash tests/house.sh || fail "files, functions or folders are larger than the house allows"
      ;;
    release)
      build_and_test release build
      heading "machine code of CUDA kernels"
      if command -v python3 >/dev/null; then
        python3 tests/sass.py || fail "machine code of CUDA kernels"
      else
        echo "no python3: not checked"
      fi
      ;;
    asan)
      # Runs whose results are compared with theory or fp32, and those on both devices of formats whose kernels
      # other presets or tests run here, train in release alone.
      runs='MovesAsTheorySays|QuickRunLeaves|^Trajectory|^Logistic\.Packed|^Gates\.|StayNearUnpacked|FollowFp64|FiftyPacked'
      formats='AtEveryStep/(lpmmcompact|aofp8|ao4|bnb8|thu4|solo2|flash|muon8|adammini8)'
      build_and_test asan build-asan -E "^install\.|Bench|$runs|$formats"
      ;;
    tsan)
      targets="kernels_tests lpmm_tests" \
        build_and_test tsan build-tsan -R 'Pool|Thread|Prefetch|Program.L|Trainer|Memory'
      ;;
    tidy)
      heading "tidy"
      if ! command -v run-clang-tidy >/dev/null; then
        echo "no run-clang-tidy: not checked"
      # clang cannot read the headers that gcc precompiled; five files as one take a third of the time.
      elif ! cmake --preset release -B build-tidy -G Ninja -DLPMM_PRECOMPILE=OFF -DLPMM_TESTS=OFF \
        -DCMAKE_UNITY_BUILD=ON >/dev/null; then
        fail "release does not configure"
      elif [ $# -eq 0 ] && [ $SECONDS -gt 1260 ]; then
        echo "no time left: not checked (bash tests/run.sh tidy)"
      else
        limit=1600
        [ $# -gt 0 ] || limit=$((limit - SECONDS))
        findings=$(timeout $limit run-clang-tidy -quiet -j "$jobs" -p build-tidy \
          -extra-arg=-Wno-unknown-warning-option -checks=-bugprone-suspicious-include \
          -header-filter="$PWD/(kernels|lpmm|models|theory|experiments)/.*" "$PWD/.*\.(cpp|cxx)" 2>/dev/null)
        [ $? -ne 124 ] || echo "stopped before all files were checked"
        findings=$(sed 's/\x1b\[[0-9;]*m//g' <<<"$findings" | grep -E '(error|warning): ' | sort -u)
        [ -z "$findings" ] || { echo "$findings"; fail "clang-tidy"; }
      fi
      ;;
    *) fail "there is no stage '$stage'" ;;
  esac
done
printf '\n%d skipped\n' "$skipped"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
