#!/usr/bin/env bash
# Builds the Python wheel with the compiler cache of tools/build.sh and prints its path. With auditwheel in the environment of
# PYTHON, the wheel gets the manylinux tag that it fits.
#   tools/build_wheel.sh PYTHON DIRECTORY
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=$1
directory=$2
# Objects are those of the release build if the compiler has the same name; Python suggests the one that it was built with.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros} CXX=${CXX:-c++}
mkdir -p "$directory"
work=$(mktemp -d "$directory/.build-XXXXXX")
trap 'rm -rf "$work"' EXIT
"$python" -m pip wheel --disable-pip-version-check --no-deps --wheel-dir "$work" "$root" >"$work/log" 2>&1 ||
  { tail -n 60 "$work/log" >&2; exit 1; }
if "$python" -m auditwheel --version >/dev/null 2>&1; then
  PATH=$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))'):$PATH \
    "$python" -m auditwheel repair --wheel-dir "$work/repaired" "$work"/*.whl >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  rm "$work"/*.whl
  mv "$work"/repaired/*.whl "$work"
fi
name=$(basename "$work"/*.whl)
mv "$work/$name" "$directory/$name"
echo "$directory/$name"
