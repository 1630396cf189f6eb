#!/usr/bin/env bash
# Installs parts of the CUDA toolkit, and CUTLASS, from PyPI by version and SHA-256. Needs python3 on x86-64 Linux, and no
# root. A part that is installed already is left alone.
#   tools/install_cuda.sh PART...
#     cutlass       headers of CUTLASS, 6 MB to download: build/cuda/cutlass/cutlass_library/source
#     disassembler  cuobjdump and nvdisasm, 6 MB: build/cuda/disassembler/nvidia/cu13/bin
#     nvcc          the compiler, its headers and the static runtime, 103 MB: build/cuda/nvcc/nvidia/cu13/bin
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
directory=$root/build/cuda

# Requirements in pip's format.
packages() {
  case "$1" in
    cutlass)
      echo "nvidia-cutlass==4.2.0.0 --hash=sha256:f9599ada45c7bcb6bf53f7d3f0a7d154183e53451c01bfa59eecd37dd4a693f6" ;;
    disassembler)
      echo "nvidia-cuda-cuobjdump==13.2.86 --hash=sha256:d332c2ffe78e703ca0a3894be927f83124244e2acf0d792b8c12b4362d44d837"
      echo "nvidia-cuda-nvdisasm==13.2.86 --hash=sha256:53606e719ecae07a2335f95902d5a1393a0cc1c317499ee7ffcf628a44385f2c" ;;
    nvcc)
      echo "nvidia-cuda-nvcc==13.0.88 --hash=sha256:56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03"
      echo "nvidia-cuda-crt==13.0.88 --hash=sha256:2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4"
      echo "nvidia-nvvm==13.0.88 --hash=sha256:c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0"
      echo "nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548"
      echo "nvidia-cuda-cccl==13.0.85 --hash=sha256:e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649" ;;
    *) echo "install_cuda.sh: unknown part '$1'; parts are cutlass, disassembler and nvcc" >&2; return 2 ;;
  esac
}

# Prints a command that runs pip. Debian's python3 may lack it, but can create virtual environments that have it.
find_pip() {
  if python3 -m pip --version >/dev/null 2>&1; then echo "python3 -m pip"; return; fi
  [ -x "$directory/venv/bin/pip" ] || python3 -m venv "$directory/venv" >&2
  echo "$directory/venv/bin/pip"
}

install_part() {
  local part=$1 requirements stamp pip
  requirements=$(packages "$part")
  stamp=$directory/$part/.installed-$(sha256sum <<<"$requirements" | cut -c1-16)
  [ -f "$stamp" ] && return 0
  printf '[cuda] installing %s from PyPI into build/cuda\n' "$part"
  rm -rf "${directory:?}/$part"
  mkdir -p "$directory"
  pip=$(find_pip)
  # The wheels contain files to unpack, and nothing that Python imports.
  if ! $pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --only-binary=:all: \
      --require-hashes --target "$directory/$part" -r <(echo "$requirements"); then
    echo "install_cuda.sh: cannot install $part; is the network available?" >&2
    return 1
  fi
  touch "$stamp"
}

[ $# -gt 0 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
for part in "$@"; do install_part "$part"; done
