#!/usr/bin/env bash
# Checks the GPU programs and their kernels without a GPU (docs/gpu.md). Writes a line per check to build/gpu/report: "passed",
# "FAILED", or "skipped" and the reason.
#   check.sh compiled    compiles the programs and reads their machine code
#   check.sh emulated    runs the kernels on the emulated device
#   check.sh             both
set -uo pipefail
case "${1:-both}" in
  compiled | emulated | both) part=${1:-both} ;;
  *) echo "check.sh: unknown part '$1'; it is compiled or emulated" >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build/gpu
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
mkdir -p "$build"
: >"$build/report"

# Runs a command as the check NAME.
check() {  # NAME COMMAND...
  local name=$1 status=passed begin=$SECONDS
  shift
  "$@" || status=FAILED
  printf '%s %s\n' $status "$name" >>"$build/report"
  printf '%s: %s (%d s)\n' "$name" $status $((SECONDS - begin))
  [ $status = passed ]
}
skip() {  # NAME REASON
  printf 'skipped %s: %s\n' "$1" "$2" | tee -a "$build/report"
}

configure() { cmake -S "$here" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >"$build/configure.log" || { cat "$build/configure.log"; return 1; }; }
build() { ninja -C "$build" "$@" >"$build/build.log" || { tail -n 40 "$build/build.log"; return 1; }; }
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" | grep -v NOTFOUND; }

# The programs need the C library alone, and end without a driver as they should.
start_without_driver() {
  local program needed status message empty
  empty=$(mktemp -d)
  : >"$empty/libcuda.so.1"
  for program in "$build"/bin/probe_*; do
    needed=$(objdump -p "$program" | sed -n 's/^ *NEEDED *//p' | grep -vE '^(libc|libm|libdl|libpthread|librt|ld-linux-[a-z0-9-]*)\.so' | tr '\n' ' ')
    [ -z "$needed" ] || { echo "$program needs $needed"; return 1; }
    message=$(LD_LIBRARY_PATH=$empty "$program" bits 2>&1)
    status=$?
    [ $status = 3 ] && [[ $message == *"no NVIDIA driver"* ]] || { echo "$program ended with $status: $message"; return 1; }
  done
  rm -r "$empty"
  printf 'the programs need %s or later\n' \
    "$(objdump -T "$build"/bin/probe_* | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1 | tr _ ' ')"
}

# ---- Compiled programs -----------------------------------------------------------------------------------------------
compiled() {
  if [ -n "$(cached NVCC)" ] && [ -n "$(cached CUTLASS_INCLUDE)" ]; then
    check "the programs compile for sm_80 and sm_90a, without spills, local memory and double arithmetic" build gpu_programs &&
      check "the programs report a missing driver" start_without_driver
    check "the compiler and check_kernels.py reject bad kernels" \
      env NVCC="$(cached NVCC)" CUOBJDUMP="$(cached CUOBJDUMP)" python3 "$here/tests/static_checks_test.py"
    if [ -n "$(cached CUOBJDUMP)" ]; then
      check "the machine code has the required instructions" \
        python3 "$here/check_kernels.py" "$(cached CUOBJDUMP)" "$build"/cuda/*.o
    else
      skip "the machine code has the required instructions" "there is no cuobjdump, and it cannot be installed"
    fi
  else
    skip "the programs compile for sm_80 and sm_90a" "there is no nvcc or no CUTLASS, and they cannot be installed"
    skip "the machine code has the required instructions" "the programs are not compiled"
  fi
  check "run.sh survives crashes and writes its results" python3 "$here/tests/run_test.py"
}

# ---- Kernels on the emulated device ----------------------------------------------------------------------------------
emulated() {
  if [ -n "$(cached GTest_DIR)" ]; then
    check "the tests of the kernels compile" build gpu_tests &&
      check "the kernels pass their tests, and each removed barrier is found" python3 "$here/check_barriers.py" "$build"
  else
    skip "the kernels pass their tests" "there is no GoogleTest (libgtest-dev)"
  fi
}

[ $part = emulated ] || "$root/tools/install_cuda.sh" nvcc cutlass disassembler
configure || exit 1
[ $part = emulated ] || compiled
[ $part = compiled ] || emulated
# Emulation cannot show times, nor the arithmetic of a real device.
command -v nvidia-smi >/dev/null || skip "bench/gpu/run.sh on a GPU" "this machine has none"
! grep -q '^FAILED' "$build/report"
