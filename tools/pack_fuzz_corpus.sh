#!/usr/bin/env bash
# Keeps what the fuzz targets have found: for each, the smallest set of inputs with the coverage of those in build/fuzz/corpus, as
# tests/fuzz/corpus/NAME.tar.xz. Run it after ./test fuzz with a large QUIRE_FUZZ_SECONDS.
set -euo pipefail
cd "$(dirname "$0")/.."

for target in build/asan/fuzz/fuzz_*; do
  name=${target##*/fuzz_}
  [ -d "build/fuzz/corpus/$name" ] || continue
  rm -rf "build/fuzz/merged/$name"
  mkdir -p "build/fuzz/merged/$name"
  "$target" -merge=1 -max_len=16384 -rss_limit_mb=4096 "build/fuzz/merged/$name" "build/fuzz/corpus/$name" >"build/fuzz/$name-merge.log" 2>&1
  # Nothing but the inputs, so that equal sets give equal archives.
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "build/fuzz/merged/$name" -cf - . |
    xz -9e >"tests/fuzz/corpus/$name.tar.xz"
  printf '%-16s %5d inputs, %s\n' "$name" "$(find "build/fuzz/merged/$name" -type f | wc -l)" \
    "$(du -h "tests/fuzz/corpus/$name.tar.xz" | cut -f1)"
done
