#!/usr/bin/env bash
# Writes the file system of the container image: the executable, the C library and the certificates of authorities.
#   packaging/make_root.sh EXECUTABLE DIRECTORY
set -euo pipefail
executable=$1
directory=$2
mkdir -p "$directory"/{usr/bin,etc/ssl/certs,models,proc,tmp}
install -m 755 "$executable" "$directory/usr/bin/quire"
strip "$directory/usr/bin/quire"
for library in $(ldd "$executable" | grep -o '/[^ ]*'); do
  install -D -m 755 "$library" "$directory$library"
done
if [ -f /etc/ssl/certs/ca-certificates.crt ]; then cp /etc/ssl/certs/ca-certificates.crt "$directory/etc/ssl/certs/"; fi
printf 'root:x:0:0:root:/:/usr/bin/quire\nquire:x:65532:65532:quire:/models:/usr/bin/quire\n' >"$directory/etc/passwd"
printf 'root:x:0:\nquire:x:65532:\n' >"$directory/etc/group"
printf 'hosts: files dns\n' >"$directory/etc/nsswitch.conf"
chmod 1777 "$directory/tmp"
if [ "$(id -u)" = 0 ]; then chown 65532:65532 "$directory/models"; fi
