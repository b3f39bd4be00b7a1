#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: 17 to 28 minutes on 2 cores.
# usage: bash tests/run.sh [STAGE...]
#   style    layout, shell syntax, sizes           release  what users run, with CUDA where nvcc is found
#   python   the module for Python, with packages from PyPI; with optimizers, where python3 has torch
#   alone    each file compiles by itself; the newest first, for 30 seconds unless the stage is named
#   arm      packed memory for ARM, under an emulator, where the compiler for it is installed
#   asan     address and undefined behaviour      tsan     data races, on the tests that use threads
#   tidy     clang-tidy; the newest files first, for 30 seconds or as long as 20 minutes last, unless the stage is named
# LPMM_DATA may name a folder with cifar-10-batches-bin; tests on real data skip without it.
set -u -o pipefail
cd "$(dirname "$0")/.."
stages=${*:-style alone release python arm asan tsan tidy}
jobs=$(nproc)
passed=0 failed=0 skipped=0

heading() { printf '\n== %s  (%d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }
fail() {
  echo "FAILED: $1"
  failed=$((failed + 1))
}
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
  cmake --preset "$preset" -G Ninja -DLPMM_TESTS=ON -DCMAKE_UNITY_BUILD=ON -DCMAKE_CUDA_ARCHITECTURES=90 ||
    { fail "$preset does not configure; CMake's message above names what is missing"; return; }
  cmake --build "$folder" -j "$jobs" ${targets:+--target $targets} -- --quiet || { fail "$preset does not build; the compiler's first error above is the place"; return; }
  heading "$preset: test"
  rm -rf "$report" "$folder/reports"
  # One more than there are processors: some wait for files and processes.
  ctest --test-dir "$folder" -j $((jobs + 1)) --output-on-failure --output-junit "$report" "$@" |
    grep -vE '^ *Start +[0-9]+: |[0-9]+/[0-9]+ Test .*   Passed '
  local counts
  read -r -a counts < <(python3 tests/count.py "$report" "$folder/reports")
  if [ $((${counts[0]:-0} + ${counts[1]:-0})) -eq 0 ]; then
    fail "$preset ran no tests; see what ctest says above"
    return
  fi
  [ "${counts[1]}" -eq 0 ] || echo "One of them again: ctest --test-dir $folder --output-on-failure -R NAME (tests/README.md, On red)"
  passed=$((passed + counts[0])) failed=$((failed + counts[1])) skipped=$((skipped + counts[2]))
}

# The Python package against the libraries of the release build; its optimizers, where python3 has torch, once more with all
# tensors on the emulated GPU. In the venv that it makes, python3's own packages are seen.
test_python() {
  local venv=$PWD/build/python-venv tests targets=lpmm_python package report counts
  heading "python"
  if ! { [ -x "$venv/bin/pip" ] || python3 -m venv --system-site-packages "$venv"; } ||
    ! "$venv/bin/python" -m pip install -q --disable-pip-version-check nanobind numpy pytest; then
    echo "no venv, or PyPI out of reach: the Python package is not tested"
    skipped=$((skipped + 1))
    return
  fi
  ! "$venv/bin/python" -c 'import torch' 2>/dev/null || targets="lpmm_python lpmm_python_emulated"
  { cmake --preset release -G Ninja -DLPMM_TESTS=ON -DCMAKE_UNITY_BUILD=ON -DCMAKE_CUDA_ARCHITECTURES=90 \
    -DLPMM_PYTHON=ON -DPython_EXECUTABLE="$venv/bin/python" >/dev/null &&
    cmake --build build -j "$jobs" --target $targets lpmm_python_reference -- --quiet; } ||
    { fail "the Python module does not build; the first error above is the place"; return; }
  for package in ${targets//lpmm_/}; do
    tests=tests/python report=build/$package/junit.xml
    [ "$package" = python ] || tests=$(ls tests/python/{equal,numpy,torch}_test.py)
    PYTHONPATH=build/$package PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" -m pytest -q -rs -p no:cacheprovider $tests --junitxml "$report" ||
      fail "tests of the Python package; one of them again: PYTHONPATH=build/$package $venv/bin/python -m pytest tests/python -k NAME"
    read -r -a counts < <(python3 -c 'import sys, xml.etree.ElementTree as e
s = e.parse(sys.argv[1]).getroot()[0]; n = [int(s.get(k)) for k in ("tests", "failures", "errors", "skipped")]
print(n[0] - sum(n[1:]), n[3])' "$report")
    passed=$((passed + ${counts[0]:-0})) skipped=$((skipped + ${counts[1]:-0}))
  done
}

heading "packages"
bash experiments/packages.sh python3 python3-venv python3-dev xz-utils || fail "packages are missing; install what the line above names"
for stage in $stages; do
  case $stage in
    style)
      heading "style"
      for script in $(sources sh) .ci/run; do bash -n "$script" || fail "$script is no valid shell script"; done
      if command -v clang-format >/dev/null; then
        sources 'cpp|h|cu' | xargs clang-format --dry-run -Werror || fail "layout; clang-format -i mends it"
      else
        echo "clang-format is not installed: layout not checked"
      fi
      bash tests/house.sh || fail "files, functions or folders are larger than the house allows; split what is named above"
      ;;
    alone)
      heading "alone"
      limit=30
      [ $# -eq 0 ] || limit=0
      python3 tests/alone.py --seconds "$limit" || fail "files that do not compile by themselves; add the includes that the lines above name"
      ;;
    release)
      build_and_test release build
      heading "machine code of CUDA kernels"
      python3 tests/sass.py || fail "machine code of CUDA kernels; tests/sass.py says what the limits are"
      ;;
    python) test_python ;;
    arm)
      heading "arm"
      bash tests/arm.sh || fail "packed memory on ARM; the first error above is the place"
      ;;
    asan) targets="kernels_tests lpmm_tests models_tests experiments_tests" build_and_test asan build-asan -E '^install\.' ;;
    tsan) targets="kernels_tests lpmm_tests" build_and_test tsan build-tsan -E '^install\.' ;;
    tidy)
      heading "tidy"
      if ! command -v run-clang-tidy >/dev/null; then
        echo "no run-clang-tidy: not checked"
      elif [ $# -eq 0 ]; then
        limit=$((1180 - SECONDS))
        python3 tests/alone.py --compilers clang-tidy --seconds $((limit > 30 ? limit : 30)) || fail "clang-tidy; each line names its check"
      # clang cannot read the headers that gcc precompiled; five files as one take a third of the time.
      elif ! cmake --preset release -B build-tidy -G Ninja -DLPMM_PRECOMPILE=OFF -DLPMM_TESTS=OFF \
        -DCMAKE_UNITY_BUILD=ON >/dev/null; then
        fail "release does not configure"
      else
        status=0
        output=$(run-clang-tidy -quiet -j "$jobs" -p build-tidy \
          -extra-arg=-Wno-unknown-warning-option -extra-arg=-Wno-unused-command-line-argument -checks=-bugprone-suspicious-include \
          -header-filter="$PWD/(kernels|lpmm|models|theory|experiments)/.*" "$PWD/.*\.(cpp|cxx)" 2>&1) || status=$?
        findings=$(sed 's/\x1b\[[0-9;]*m//g' <<<"$output" | grep -E '(error|warning): ' | sort -u)
        [ $status -eq 0 ] && [ -z "$findings" ] || { echo "${findings:-$output}" | tail -n 100; fail "clang-tidy; each line names its check"; }
      fi
      ;;
    *) fail "there is no stage '$stage'" ;;
  esac
done
printf '\n%d skipped\n' "$skipped"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
