#!/usr/bin/env bash
# Builds targets of a preset (release, debug, asan, tsan). Prints nothing if everything is up to date.
# While it builds, a terminal shows one line that is updated, and a pipe gets a line per minute.
#   tools/build.sh PRESET [TARGET...]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
preset=$1
shift
build=$root/build/$preset
# Objects are shared between checkouts. Without the sloppiness, ccache does not cache files that use precompiled headers.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}
# A cold build would otherwise preprocess every file twice and hash the precompiled headers, of 100 MB each, for every
# file, which takes 12 % more processor time than without ccache.
export CCACHE_DEPEND=1 CCACHE_INODECACHE=1

if ! mkdir -p "$build" 2>/dev/null || [ ! -w "$build" ]; then
  printf '[build] cannot write to %s: use a checkout that you can write to\n' "$build" >&2
  exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# True if CMake has to run: in a new build folder, after a change of the presets, or if a target is unknown because
# something that it needs was missing.
needs_configuring() {
  [ -f "$build/build.ninja" ] && [ ! "$root/CMakePresets.json" -nt "$build/build.ninja" ] || return 0
  local target
  for target in "$@"; do grep -q "^build $target:" "$build/build.ninja" || return 0; done
  return 1
}

# "[123/456] building build/release, about 3 min left", from the last step that ninja has logged. The estimate assumes
# that the remaining steps take as long as the finished ones.
progress() {
  local steps finished total left=''
  steps=$(sed -n 's,^\[\([0-9]*\)/\([0-9]*\)\].*,\1 \2,p' "$log" | tail -n 1)
  [ -n "$steps" ] || steps='0 0'
  read -r finished total <<<"$steps"
  local elapsed=$(($(date +%s) - begin))
  if [ "$finished" -ge 10 ] && [ "$elapsed" -ge 10 ]; then
    left=$((elapsed * (total - finished) / finished))
    if [ "$left" -ge 90 ]; then left=", about $(((left + 30) / 60)) min left"; else left=", about $left s left"; fi
  fi
  printf '[%d/%d] building build/%s%s' "$finished" "$total" "$preset" "$left"
}

if needs_configuring "$@"; then
  printf '[build] configuring build/%s\n' "$preset"
  (cd "$root" && cmake --preset "$preset") >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
begin=$(date +%s)
ninja -C "$build" "$@" >"$log" 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; rm -f "$log"' EXIT
# An up-to-date build ends within two seconds and prints nothing.
for _ in {1..20}; do
  kill -0 "$pid" 2>/dev/null || break
  sleep 0.1
done
shown=no
if kill -0 "$pid" 2>/dev/null; then
  shown=yes
  [ -t 1 ] || printf '[build] building build/%s; the first build takes some minutes\n' "$preset"
  last=$begin
  while kill -0 "$pid" 2>/dev/null; do
    if [ -t 1 ]; then
      printf '\r\033[K%s' "$(progress)"
    elif [ $(($(date +%s) - last)) -ge 60 ]; then
      last=$(date +%s)
      printf '%s\n' "$(progress)"
    fi
    sleep 1
  done
  if [ -t 1 ]; then printf '\r\033[K'; fi
fi
if ! wait "$pid"; then
  # ninja prints the output of a step that failed after a line that starts with FAILED.
  if grep -q '^FAILED' "$log"; then sed -n '/^FAILED/,$p' "$log" | head -n 80 >&2; else tail -n 60 "$log" >&2; fi
  exit 1
fi
# The project's own files are kept free of warnings with GCC 12, the compiler of Debian 12; in CI its warnings are errors. Other
# compilers, such as clang in the builds with sanitizers, know other warnings. GCC also reports code of the standard library that it has inlined, where nothing is wrong.
own_warning="^(\.\./\.\.|$root)/[^:]*:[0-9]+:[0-9]+: warning: "
if [[ $preset != [at]san ]] && grep -qE "$own_warning" "$log"; then
  grep -E -A 5 "$own_warning" "$log" | head -n 80 >&2
  if [ "${CI:-}" = true ] && [ "$(c++ -dumpversion)" = 12 ]; then exit 1; fi
fi
[ "$shown" = no ] || printf '[build] built build/%s in %d s\n' "$preset" "$(($(date +%s) - begin))"
