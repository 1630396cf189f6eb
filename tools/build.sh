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
# True where the build has to be configured: for the first time, anew, or because what a target needs was missing then.
needs_configuring() {
  [ -f "$build/build.ninja" ] && [ ! "$root/CMakePresets.json" -nt "$build/build.ninja" ] || return 0
  local target
  for target in "$@"; do grep -q "^build $target:" "$build/build.ninja" || return 0; done
  return 1
}
if needs_configuring "$@"; then
  printf '[build] configuring build/%s\n' "$preset"
  (cd "$root" && cmake --preset "$preset") >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
begin=$(date +%s)
ninja -C "$build" "$@" >"$log" 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; rm -f "$log"' EXIT
# What is up to date takes a moment: nothing is said of it.
for _ in {1..20}; do
  kill -0 "$pid" 2>/dev/null || break
  sleep 0.1
done
if kill -0 "$pid" 2>/dev/null; then
  printf '[build] building build/%s (the first time takes some minutes)\n' "$preset"
  if [ -t 1 ] || [ -t 2 ]; then tail -n +1 -f --pid="$pid" "$log" >&2; fi
  said=yes
fi
wait "$pid" || { tail -n 60 "$log" >&2; exit 1; }
[ -z "${said:-}" ] || printf '[build] done in %d s\n' "$(($(date +%s) - begin))"
