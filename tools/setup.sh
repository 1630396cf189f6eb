#!/usr/bin/env bash
# Installs the packages that building and testing need, if they are missing.
#   tools/setup.sh build     the packages for ./run
#   tools/setup.sh test      the packages for ./run and ./test
#   tools/setup.sh repeat    the packages for tools/repeat.sh
#   tools/setup.sh --list [build|test|repeat]   prints the packages and installs nothing
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
       "libcli11-dev libyaml-cpp-dev rapidjson-dev libxxhash-dev libedit-dev libssl-dev"
  # The web page is tested in a browser. Ubuntu's package only installs a snap; its tests use Google Chrome if there is one.
  case "$(distribution)" in debian-*) [ "$1" != build ] && echo "chromium" ;; esac
  [ "$1" = repeat ] && echo "stress-ng"
  [ "$1" != build ] && echo "libgtest-dev libgmock-dev python3 python3-venv curl openssl clang clang-format clang-tidy $rt" \
       "procps zsh fish groff-base rpm"
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
    fail "packages are installed on Debian and Ubuntu only; install the equivalents of these Debian packages:" \
         "  $(packages "$what" | tr '\n' ' ')"
  fi
  local list
  list=$(missing "$what" | tr '\n' ' ')
  [ -z "$list" ] && return 0
  local sudo=
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo=sudo
    elif command -v sudo >/dev/null && [ -t 0 ]; then sudo=sudo; say "installing packages needs root"
    else fail "these packages are missing, and installing them needs root:" "  $list" "run as root: apt-get install $list"
    fi
  fi
  say "installing $list"
  export DEBIAN_FRONTEND=noninteractive
  if ! $sudo apt-get install -y -qq --no-install-recommends $list >/tmp/quire-setup.$$ 2>&1; then
    # The package lists may be missing or out of date.
    if ! { $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends $list; } >>/tmp/quire-setup.$$ 2>&1; then
      tail -n 5 /tmp/quire-setup.$$ >&2
      rm -f /tmp/quire-setup.$$
      fail "cannot install: $list" "check the network connection, or run: apt-get update && apt-get install $list"
    fi
  fi
  rm -f /tmp/quire-setup.$$
}

main "$@"
