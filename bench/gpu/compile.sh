#!/usr/bin/env bash
# Runs a command of nvcc. Fails also if ptxas reports that it serialized wgmma instructions, which is not one of its
# warnings.
set -uo pipefail
output=$("$@" 2>&1)
status=$?
[ -z "$output" ] || printf '%s\n' "$output" >&2
case $output in *C7510*) echo "compile.sh: wgmma instructions are serialized" >&2; exit 1 ;; esac
exit "$status"
