#!/usr/bin/env bash
# Installs the Debian packages that are missing, and says so; does nothing where none is.
# usage: bash experiments/packages.sh [more packages...]
set -eu
packages=(g++ cmake ninja-build libdnnl-dev ocl-icd-opencl-dev libhwy-dev libeigen3-dev libfmt-dev libtomlplusplus-dev libcli11-dev
  nlohmann-json3-dev libutf8proc-dev libpcre2-dev libsentencepiece-dev zlib1g-dev libcurl4-openssl-dev libarchive-dev libssl-dev
  ca-certificates libgtest-dev libpng-dev libjpeg-dev libboost-dev gnuplot-nox "$@")
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "packages: no apt here; going on with what is installed (needed: ${packages[*]})"
  exit 0
fi
missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "packages: missing ${missing[*]}; install them as root, or install sudo" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "packages: installing ${missing[*]} (apt-get${as_root[*]:+ through sudo})"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
