#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks. Says what it does; does nothing where nothing is missing.
#   tools/setup.sh build     what `./run` needs
#   tools/setup.sh test      that and what `./test` needs
#   tools/setup.sh --list [build|test]   prints the packages and does nothing
set -euo pipefail

say() { printf '[setup] %s\n' "$*"; }
fail() { printf '[setup] %s\n' "$@" >&2; exit 1; }

distribution() {
  # shellcheck disable=SC1091
  [ -r /etc/os-release ] && (. /etc/os-release && printf '%s-%s' "${ID:-unknown}" "${VERSION_ID:-}") || printf 'unknown'
}

packages() {
  local boost=libboost1.83-dev rt=libclang-rt-18-dev
  case "$(distribution)" in
    debian-12*) boost=libboost1.81-dev rt=libclang-rt-14-dev ;;
    debian-13*) boost=libboost1.83-dev rt=libclang-rt-19-dev ;;
  esac
  echo "g++ cmake ninja-build ccache mold git binutils $boost nlohmann-json3-dev libpcre2-dev libutf8proc-dev" \
       "libcli11-dev libyaml-cpp-dev rapidjson-dev libxxhash-dev"
  [ "$1" = test ] && echo "libgtest-dev libgmock-dev python3 python3-venv curl clang clang-format clang-tidy $rt"
  return 0
}

missing() {
  local package
  for package in $(packages "$1"); do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || echo "$package"
  done
}

main() {
  if [ "${1:-}" = --list ]; then packages "${2:-test}"; return; fi
  local what=${1:-build}
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    command -v cmake >/dev/null && command -v ninja >/dev/null && command -v g++ >/dev/null && return 0
    fail "this is no Debian or Ubuntu, so nothing is installed here. quire needs, by their Debian names:" \
         "  $(packages "$what" | tr '\n' ' ')"
  fi
  local list
  list=$(missing "$what" | tr '\n' ' ')
  [ -z "$list" ] && return 0
  local sudo=
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo=sudo
    elif command -v sudo >/dev/null && [ -t 0 ]; then sudo=sudo; say "root is needed to install packages"
    else fail "these packages are missing and you are not root:" "  $list" "ask for: apt-get install $list"
    fi
  fi
  say "installing $list"
  export DEBIAN_FRONTEND=noninteractive
  if ! $sudo apt-get install -y -qq --no-install-recommends $list >/tmp/quire-setup.$$ 2>&1; then
    # The package lists may be old or absent.
    if ! { $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends $list; } >>/tmp/quire-setup.$$ 2>&1; then
      tail -n 5 /tmp/quire-setup.$$ >&2
      rm -f /tmp/quire-setup.$$
      fail "could not install: $list" "is the network there? By hand: apt-get update && apt-get install $list"
    fi
  fi
  rm -f /tmp/quire-setup.$$
}

main "$@"
