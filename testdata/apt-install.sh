#!/usr/bin/env bash
# apt-install.sh [--ask] [PROGRAM=|FILE=]PACKAGE...: installs Debian packages; one with a program or file only if that is
# missing. Their services are neither started nor enabled. If a package cannot be installed, it says which and fails. With
# --ask it asks first, if there is a terminal.
set -euo pipefail

say() { printf 'apt-install: %s\n' "$*" >&2; }
present() {
  case $1 in
    /*=*) [ -e "${1%%=*}" ] ;;
    *=*) command -v "${1%%=*}" >/dev/null ;;
    *) false ;;
  esac
}
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

ask=
if [ "${1:-}" = --ask ]; then ask=yes; shift; fi
missing=()
for what; do
  # A package that is there is its host's, with its services, also where a program of it is not in the path.
  present "$what" || installed "${what#*=}" || missing+=("${what#*=}")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
  say "not installed, for want of apt-get or root: ${missing[*]}"
  exit 1
fi
if [ -n "$ask" ] && [ -t 0 ] && [ -z "${CI:-}" ]; then
  read -r -p "install ${missing[*]} with apt-get? [Y/n] " answer
  case "$answer" in "" | [Yy]*) ;; *) say "not installed: ${missing[*]}"; exit 1 ;; esac
fi
say "installing ${missing[*]}"

# Packages ask policy-rc.d before they start a service. The host's own is moved aside meanwhile, unless it denies everything
# anyway; if this script is killed, its next run puts it back.
policy=/usr/sbin/policy-rc.d
ours='# of jobd: no services while packages are installed'
exec 9>/run/jobd-apt-install.lock # not in /run/lock, which is everybody's, and not everywhere
flock 9
restore() {
  if grep -qsxF "$ours" "$policy"; then rm "$policy"; fi
  if [ -e "$policy.before-jobd" ]; then mv "$policy.before-jobd" "$policy"; fi
}
trap restore EXIT
restore
denies() { local status=0; "$policy" jobd start >/dev/null 2>&1 || status=$?; [ "$status" = 101 ]; }
if ! denies; then
  if [ -e "$policy" ]; then mv "$policy" "$policy.before-jobd"; fi
  printf '#!/bin/sh\n%s\nexit 101\n' "$ours" >"$policy.jobd"
  chmod 755 "$policy.jobd"
  mv "$policy.jobd" "$policy"
fi

export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
apt() { apt-get -o DPkg::Lock::Timeout=300 "$@" >/dev/null 2>&1 9>&-; }
install() { apt install -y --no-install-recommends "$@"; }
if ! install "${missing[@]}"; then
  apt update || true
  install "${missing[@]}" || for package in "${missing[@]}"; do install "$package" || true; done
fi

without=()
for package in "${missing[@]}"; do
  if ! installed "$package"; then
    without+=("$package")
    continue
  fi
  while read -r file; do
    case $file in
      */systemd/system/*@.*) ;;
      */systemd/system/*.service | */systemd/system/*.socket) systemctl disable "${file##*/}" 9>&- || true ;;
      /etc/init.d/*) update-rc.d "${file##*/}" disable 9>&- || true ;;
    esac
  done < <(dpkg-query -L "$package") >/dev/null 2>&1
done
[ ${#without[@]} -eq 0 ] && exit 0
say "could not be installed: ${without[*]}"
exit 1
