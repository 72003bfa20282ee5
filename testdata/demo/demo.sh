#!/usr/bin/env bash
# The demo of the README: 2000 digits of pi, computed by a Kubernetes Job without Kubernetes. Everything happens in a
# root, a state directory and a socket of its own, which are gone at the end, however it ends.
set -euo pipefail
cd "$(dirname "$0")/../.."

image=docker.io/library/perl:5.34.0
cache=.demo/perl-5.34.0.tar
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
die() { printf 'demo: %s\n' "$*" >&2; exit 1; }

say "This builds jobd, starts it in a directory of its own, gives it testdata/examples/pi.yaml, follows the pod's log, checks the digits, and removes everything again."
[ "$(id -u)" = 0 ] || die "containers need root: sudo make demo"
install=(testdata/apt-install.sh --ask)
command -v runc >/dev/null || "${install[@]}" crun=crun || die "not without crun or runc"

say "Building bin/jobd, bin/jobd-shim and bin/jobctl (minutes the first time, seconds later)"
make --no-print-directory build

root=$(mktemp -d /var/tmp/jobd-demo.XXXXXX) state=$(mktemp -d /run/jobd-demo.XXXXXX)
daemon=
clean_up() {
  status=$?
  trap - EXIT
  trap '' INT TERM
  if [ -n "$daemon" ]; then
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
  fi
  bin/jobd clean --purge --root "$root" --state "$state" || status=1
  rm -rf "$root" "$state"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "Starting jobd"
export JOBD_SOCKET=$state/jobd.sock
# setsid: a Ctrl-C is for this script, which then ends the daemon in order.
setsid bin/jobd serve --root "$root" --state "$state" --log-level warn &
daemon=$!
for _ in $(seq 100); do
  bin/jobctl version >/dev/null 2>&1 && break
  kill -0 "$daemon" 2>/dev/null || die "jobd did not start"
  sleep 0.1
done

if [ -f "$cache" ]; then
  say "Importing the stand-in for $image that an earlier run has built"
  bin/jobctl image import "$cache"
elif say "Pulling $image"; ! timeout 300 bin/jobctl image pull "$image"; then
  say "No registry to be reached: building a stand-in for $image from this machine's perl"
  missing=()
  perl -MMath::BigInt=1.999838 -Mbignum -e1 2>/dev/null || missing+=(perl libmath-bigint-perl)
  [[ $(ldd "$(command -v busybox)" 2>&1) == *"not a dynamic executable"* ]] || missing+=(busybox-static)
  "${install[@]}" "${missing[@]}" || die "not without ${missing[*]}"
  mkdir -p .demo
  go run ./testdata/images/cmd/mkimage perl "$image" >"$cache.part"
  mv "$cache.part" "$cache"
  bin/jobctl image import "$cache"
fi

say "jobctl apply -f testdata/examples/pi.yaml"
bin/jobctl apply -f testdata/examples/pi.yaml

say "jobctl logs -f jobs/pi"
bin/jobctl wait --for=jsonpath='{.status.ready}'=1 jobs/pi --timeout=300s >/dev/null
bin/jobctl logs -f jobs/pi | tee "$state/pi.txt"
cmp "$state/pi.txt" testdata/demo/pi.txt || die "these are not the digits of pi"

say "The digits are right. jobctl describe jobs/pi"
bin/jobctl wait --for=condition=complete jobs/pi --timeout=300s
bin/jobctl describe jobs/pi

say "Removing everything: jobd clean --purge"
