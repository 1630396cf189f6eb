#!/usr/bin/env bash
# Builds the programs and packs them with run.sh into build/gpu/quire-gpu-probe.tar.xz, for a machine with a GPU.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build/gpu
name=quire-gpu-probe

"$root/tools/install_cuda.sh" nvcc cutlass
mkdir -p "$build"
cmake -S "$here" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >"$build/configure.log"
ninja -C "$build" gpu_programs >"$build/build.log" || { tail -n 40 "$build/build.log" >&2; exit 1; }
rm -rf "${build:?}/$name"
mkdir -p "$build/$name/bin"
cp "$here/run.sh" "$build/$name"
for program in "$build"/bin/probe_*; do strip -o "$build/$name/bin/$(basename "$program")" "$program"; done
git -C "$root" describe --always --abbrev=12 --dirty >"$build/$name/commit" 2>/dev/null || echo unknown >"$build/$name/commit"
tar -C "$build" -cJf "$build/$name.tar.xz" "$name"
printf 'packed build/gpu/%s.tar.xz (%d KB)\n' "$name" $(($(stat -c %s "$build/$name.tar.xz") / 1024))
