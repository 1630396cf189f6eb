#!/usr/bin/env bash
# Installs the packages of a requirements file into a virtual environment, once for each version of the file.
#   tools/make_venv.sh REQUIREMENTS DIRECTORY
set -euo pipefail
requirements=$1 directory=$2
stamp=$directory/.stamp-$(sha256sum "$requirements" | cut -c1-16)
[ ! -f "$stamp" ] || exit 0
printf '[venv] installing %s into %s\n' "$(tr '\n' ' ' <"$requirements")" "$directory"
if ! python3 -m venv "$directory" || ! "$directory/bin/pip" install -q --disable-pip-version-check -r "$requirements"; then
  echo "cannot install the Python packages; check the network connection" >&2
  exit 1
fi
touch "$stamp"
