#!/usr/bin/env bash
# Measures the GPU of this machine (docs/gpu.md). Needs the NVIDIA driver and the programs that pack.sh packs, nothing else.
#   run.sh [--out DIR] [--cublaslt LIBRARY] [--bin DIR] [PART...]
# Parts: start start_without_driver copy launch model bits cublaslt_bits gemm attention; all by default. Each ends within its
# limit, at most 8.5 minutes. Parts that crash, hang or cannot run do not stop the others. After each part, DIR/results.json
# and DIR/summary.txt have the results of all parts that ran so far, also in earlier runs with the same DIR.
# Exit code: 0 = measured, parts that this machine cannot run excepted; 1 = a part failed; 2 = usage; 3 = no usable GPU.
set -uo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
readonly all_parts=(start start_without_driver copy launch model bits cublaslt_bits gemm attention)
out=gpu-results bin='' cublaslt='' parts=()

limit_of() {  # PART: seconds
  case "$1" in
    start | start_without_driver) echo 60 ;;
    copy | launch) echo 240 ;;
    *) echo 510 ;;
  esac
}

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }

parse() {
  while [ $# -gt 0 ]; do
    case "$1" in
      --out | --bin | --cublaslt)
        [ $# -ge 2 ] || usage
        case "$1" in --out) out=$2 ;; --bin) bin=$2 ;; --cublaslt) cublaslt=$2 ;; esac
        shift 2 ;;
      -*) usage ;;
      *)
        [[ " ${all_parts[*]} " == *" $1 "* ]] || { echo "run.sh: unknown part '$1'" >&2; usage; }
        parts+=("$1")
        shift ;;
    esac
  done
  [ ${#parts[@]} -gt 0 ] || parts=("${all_parts[@]}")
  if [ -z "$bin" ]; then
    bin=$here/bin
    [ -d "$bin" ] || bin=$here/../../build/gpu/bin
  fi
  [ -d "$bin" ] || { echo "run.sh: the programs are missing; bench/gpu/pack.sh builds them" >&2; exit 2; }
}

# A string for JSON: ASCII without control characters, with quotes.
json() { printf '"%s"' "$(printf '%s' "$*" | tr '\n\t' '  ' | tr -cd '[:print:]' | sed 's/\\/\\\\/g; s/"/\\"/g')"; }

commit() { cat "$here/commit" 2>/dev/null || git -C "$here" describe --always --abbrev=12 --dirty 2>/dev/null || echo unknown; }

smi() { timeout 20 nvidia-smi --format=csv,noheader,nounits "$@" 2>/dev/null; }

# Prints the path of cuBLASLt, if it is installed: for the dynamic linker, with the toolkit, or as a Python package.
find_cublaslt() {
  local found
  found=$(ldconfig -p 2>/dev/null | sed -n 's/.*libcublasLt\.so\.1[23] .*=> //p' | head -n 1)
  [ -n "$found" ] || found=$(timeout 20 find /usr /opt /root /home -name 'libcublasLt.so.1[23]' 2>/dev/null | sort -V | tail -n 1)
  printf '%s' "$found"
}

child=
end_child() {
  [ -z "$child" ] || kill -KILL "$child" 2>/dev/null
  [ -z "$sampler" ] || kill "$sampler" 2>/dev/null
}
sampler=
trap 'end_child; exit 130' INT TERM

# Runs a command for at most LIMIT seconds. Returns its exit code, 124 if it had to be ended, 125 if it could not be.
run_limited() {  # LIMIT COMMAND...
  local end=$((SECONDS + $1)) late=no status
  shift
  "$@" &
  child=$!
  while kill -0 "$child" 2>/dev/null; do
    if [ $SECONDS -ge "$end" ]; then
      # A process in an uninterruptible call of the driver does not end, and is left behind.
      [ $late = no ] || { disown "$child"; child=; return 125; }
      late=yes
      end=$((SECONDS + 10))
      kill -KILL "$child" 2>/dev/null
    fi
    sleep 0.1
  done
  wait "$child" 2>/dev/null
  status=$?
  child=
  if [ $late = yes ]; then return 124; fi
  return $status
}

run_program() {  # LIMIT PART
  local limit=$1 part=$2 records=$out/parts/$2.records
  local arguments=(--records "$records")
  [ -z "$cublaslt" ] || arguments+=(--cublaslt "$cublaslt")
  case "$part" in
    model | bits | cublaslt_bits) run_limited "$limit" "$bin/probe_bits" "$part" "${arguments[@]}" ;;
    start_without_driver)
      # An empty file in front of the driver's library makes it impossible to open.
      local directory status
      directory=$(mktemp -d)
      : >"$directory/libcuda.so.1"
      LD_LIBRARY_PATH=$directory run_limited "$limit" "$bin/probe_start"
      status=$?
      rm -rf "$directory"
      [ $status = 3 ] || { echo "probe_start ended with $status instead of 3" >&2; return 1; }
      echo "  starts, and reports that there is no driver"
      printf '{"measurement": "start without a driver", "text": "reports that there is no driver"}\n' >>"$records" ;;
    *) run_limited "$limit" "$bin/probe_$part" "${arguments[@]}" ;;
  esac
}

status_of() {  # EXIT_CODE
  case "$1" in
    0) echo measured ;;
    3 | 4) echo "not run" ;;
    124) echo "timed out" ;;
    125) echo "hung" ;;
    126 | 127) echo "failed" ;;
    *) if [ "$1" -gt 128 ]; then echo "crashed (signal $(($1 - 128)))"; else echo failed; fi ;;
  esac
}

# Smallest and largest value of a column of the samples.
range() {  # COLUMN FILE
  local sorted
  sorted=$(cut -d, -f"$1" "$2" | tr -d ' ' | grep -E '^[0-9]+$' | sort -n)
  [ -n "$sorted" ] && printf '%s to %s MHz' "$(head -n 1 <<<"$sorted")" "$(tail -n 1 <<<"$sorted")"
}

run_part() {  # PART: writes parts/PART.*
  local part=$1 limit exit_code status message clocks='' file=$out/parts/$1 begin
  limit=${PROBE_LIMIT:-$(limit_of "$part")}
  rm -f "$file".*
  : >"$file.records"
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv,noheader,nounits -i 0 -l 1 \
      >"$file.clocks" 2>/dev/null &
    sampler=$!
  fi
  begin=$SECONDS
  run_program "$limit" "$part" >"$file.table" 2>"$file.errors"
  exit_code=$?
  if [ -n "$sampler" ]; then
    kill "$sampler" 2>/dev/null
    wait "$sampler" 2>/dev/null
    sampler=
    clocks="multiprocessors $(range 1 "$file.clocks"), memory $(range 2 "$file.clocks")"
  fi
  status=$(status_of $exit_code)
  # The last line; bash writes a line of its own about a process that a signal ended.
  message=$(grep -v '^$' "$file.errors" | grep -v "^$0: line" | tail -n 1)
  {
    printf '{"part": %s, "status": %s, "exit_code": %d, "seconds": %d, "date": %s' "$(json "$part")" "$(json "$status")" \
      $exit_code $((SECONDS - begin)) "$(json "$(date -u +%Y-%m-%dT%H:%M:%SZ)")"
    [ -z "$clocks" ] || printf ', "clocks": %s' "$(json "$clocks")"
    [ -z "$message" ] || printf ', "message": %s' "$(json "$message")"
    # A crash may leave a line that is not complete.
    printf ', "records": [\n%s\n]}\n' "$(grep -E '^\{.*\}$' "$file.records" | sed '$!s/$/,/')"
  } >"$file.json"
  {
    printf '%s: %s (%d s)%s\n' "$part" "$status" $((SECONDS - begin)) "${clocks:+; clocks: $clocks}"
    if [ "$status" != measured ] && [ -n "$message" ]; then printf '  %s\n' "$message"; fi
    cat "$file.table"
  } >"$file.txt"
  printf '%s: %s\n' "$part" "$status${message:+: $message}" >&2
  return $exit_code
}

# results.json and summary.txt from all parts that have run.
write_results() {
  local part files=() driver=''
  for part in "${all_parts[@]}"; do [ -f "$out/parts/$part.json" ] && files+=("$out/parts/$part"); done
  driver=$(smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem -i 0 || true)
  {
    printf '{"commit": %s, "date": %s, "machine": %s, "gpu": %s, "parts": [\n' "$(json "$(commit)")" \
      "$(json "$(date -u +%Y-%m-%dT%H:%M:%SZ)")" "$(json "$(uname -srm)")" "$(json "${driver:-no nvidia-smi}")"
    for part in "${files[@]}"; do
      cat "$part.json"
      [ "$part" = "${files[-1]}" ] || echo ,
    done
    echo ']}'
  } >"$out/results.json.new" && mv "$out/results.json.new" "$out/results.json"
  {
    printf 'commit   %s\ndate     %s\nmachine  %s\nGPU      %s\n' "$(commit)" "$(date -u '+%Y-%m-%d %H:%M UTC')" "$(uname -srm)" \
      "${driver:+$driver (name, driver, highest clocks in MHz)}"
    for part in "${files[@]}"; do
      echo
      cat "$part.txt"
    done
  } >"$out/summary.txt.new" && mv "$out/summary.txt.new" "$out/summary.txt"
}

main() {
  parse "$@"
  mkdir -p "$out/parts" || exit 2
  local part code failed=0
  # Without a GPU every part would report the same.
  local reason
  reason=$(run_limited "${PROBE_LIMIT:-60}" "$bin/probe_start" 2>&1 >/dev/null)
  code=$?
  if [ $code = 3 ]; then
    echo "run.sh: nothing is measured: $reason" >&2
    exit 3
  fi
  [ -n "$cublaslt" ] || cublaslt=$(find_cublaslt)
  for part in "${parts[@]}"; do
    run_part "$part"
    code=$?
    case $code in 0 | 3 | 4) ;; *) failed=1 ;; esac
    write_results
  done
  cat "$out/summary.txt"
  exit $failed
}

main "$@"
