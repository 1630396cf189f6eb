#!/usr/bin/env bash
# Runs stages of ./test several times while every core is busy with something else, and lists the tests that did not always pass.
# The reports of each run stay in build/repeat.
#   tools/repeat.sh N STAGE...     for example: tools/repeat.sh 5 unit e2e python
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
if [ $# -lt 2 ] || ! [[ $1 =~ ^[1-9][0-9]*$ ]]; then sed -n '2,4s/^# \{0,1\}//p' "$0" && exit 2; fi
runs=$1
shift
tools/setup.sh repeat || exit 1
rm -rf build/repeat
load=''
trap '[ -z "$load" ] || kill "$load" 2>/dev/null' EXIT
for run in $(seq "$runs"); do
  rm -rf build/*/reports
  stress-ng --cpu "$(nproc)" --quiet &
  load=$!
  mkdir -p "build/repeat/$run"
  "$root/test" "$@" >"build/repeat/$run/log" 2>&1
  kill "$load" 2>/dev/null
  wait "$load" 2>/dev/null
  load=''
  find build/*/reports -name '*.xml' -exec cp -t "build/repeat/$run" {} +
  printf '[repeat] run %s of %s: %s\n' "$run" "$runs" "$(tail -n 1 "build/repeat/$run/log")"
done
tools/unsteady_tests.py build/repeat/*/
