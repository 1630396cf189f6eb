#!/usr/bin/env bash
# Builds TARGETS of a preset (release, debug, asan, tsan, fuzz); says nothing where nothing is to do.
#   tools/build.sh PRESET [TARGET...]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
preset=$1
shift
build=$root/build/$preset
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

if ! mkdir -p "$build" 2>/dev/null || [ ! -w "$build" ]; then
  printf '[build] cannot write to %s: build in a checkout of your own\n' "$build" >&2
  exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ ! -f "$build/build.ninja" ] || [ "$root/CMakePresets.json" -nt "$build/build.ninja" ]; then
  printf '[build] configuring build/%s\n' "$preset"
  (cd "$root" && cmake --preset "$preset") >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
if ninja -C "$build" -n "$@" 2>/dev/null | grep -q 'no work to do'; then exit 0; fi
printf '[build] building build/%s (the first time takes some minutes)\n' "$preset"
begin=$(date +%s)
if [ -t 1 ]; then
  ninja -C "$build" "$@"
else
  ninja -C "$build" "$@" >"$log" 2>&1 || { tail -n 60 "$log"; exit 1; }
fi
printf '[build] done in %d s\n' "$(($(date +%s) - begin))"
