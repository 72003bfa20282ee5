#!/usr/bin/env bash
# Installs the Debian packages that the tests need and that are not there. Tests that miss one all the same are skipped
# and say which.
set -euo pipefail

declare -A packages=(
  [crun]=crun
  [runc]=runc
  [/bin/busybox]=busybox-static
  [docker-registry]=docker-registry
  [redis-server]=redis-server
  [/usr/share/perl5/Math/BigInt.pm]=libmath-bigint-perl
)
# Debian's containerd brings ctr, which one test looks at jobd with; but it would take the place of Docker's packages, so
# only a CI machine gets it.
if [ -n "${CI:-}" ]; then packages[ctr]=containerd; fi
missing=()
for what in "${!packages[@]}"; do
  if [ "${what#/}" != "$what" ]; then
    [ -e "$what" ] && continue
  else
    command -v "$what" >/dev/null && continue
  fi
  missing+=("${packages[$what]}")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
  echo "test-deps: not installed, tests that need them are skipped: ${missing[*]}" >&2
  exit 0
fi
echo "test-deps: installing ${missing[*]}"
# The packages' own services are not wanted: tests start what they need themselves.
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
  { apt-get update >/dev/null && apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null; }
