#!/usr/bin/env bash
# demo.sh VERSION LDFLAGS is the demo of the README: 2000 digits of pi, computed by a Kubernetes Job without Kubernetes. It builds
# what `jobd run` needs, unless it is there, and `jobd run` leaves nothing behind, however it ends.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$1 ldflags=$2

image=docker.io/library/perl:5.34.0
cache=.demo/perl-5.34.0.tar
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
die() { printf 'demo: %s\n' "$*" >&2; exit 1; }

say "This builds jobd, runs the Job in testdata/examples/pi.yaml in a place of its own, checks the digits, and removes everything again."
[ "$(id -u)" = 0 ] || die "containers need root: sudo make demo"
install=(testdata/apt-install.sh --ask)
command -v runc >/dev/null || "${install[@]}" crun=crun || die "not without crun or runc"

work=$(mktemp -d /var/tmp/jobd-demo.XXXXXX)
trap 'rm -rf "$work"' EXIT

# count N copies what `go build -v` prints, but for the names of packages, of which it counts up to N.
count() {
  awk -v all="$1" -v terminal="$([ -t 1 ] && echo yes)" '
    /^go: downloading / { next }
    /^[a-z][^ :]*$/ {
      n++
      if (terminal) printf "\r  compiled %d of %d packages", n, all
      else if (n % 100 == 0) printf "  compiled %d of %d packages\n", n, all
      fflush()
      next
    }
    { print }
    END { if (terminal && n) print "" }'
}

package=dist/jobd-$version-linux-$(go env GOARCH).tar.gz
if [[ $version != *dirty && -f $package ]]; then
  say "Taking jobd from $package"
  tar -C "$work" --strip-components=1 -xf "$package"
  bin=$work/usr/bin
elif [[ $version != *dirty && $(bin/jobd --version 2>/dev/null) = "$version" && -x bin/jobd-shim ]]; then
  say "Taking bin/jobd, which is of this version"
  bin=bin
else
  say "Building bin/jobd and bin/jobd-shim (minutes the first time, seconds later)"
  all=$(go list -deps ./cmd/jobd ./cmd/jobd-shim | wc -l) # which fetches the sources, if they are not there yet
  mkdir -p bin
  go build -v -ldflags "$ldflags" -o bin/ ./cmd/jobd ./cmd/jobd-shim 2>&1 | count "$all"
  bin=bin
fi

pi() { # what else `jobd run` is given; its exit code is in $status
  say "jobd run -f testdata/examples/pi.yaml $*"
  status=0
  timeout --foreground 600 "$bin/jobd" run -f testdata/examples/pi.yaml "$@" | tee "$work/pi.txt" || status=$?
}

if [ ! -f "$cache" ]; then
  pi
  if [ "$status" = 125 ] || [ "$status" = 124 ]; then
    say "The image could not be had: building a stand-in for $image from this machine's perl"
    missing=()
    perl -MMath::BigInt=1.999838 -Mbignum -e1 2>/dev/null || missing+=(perl libmath-bigint-perl)
    [[ $(ldd "$(command -v busybox)" 2>&1) == *"not a dynamic executable"* ]] || missing+=(busybox-static)
    "${install[@]}" "${missing[@]}" || die "not without ${missing[*]}"
    mkdir -p .demo
    go run ./testdata/images/cmd/mkimage perl "$image" >"$cache.part"
    mv "$cache.part" "$cache"
  fi
fi
[ ! -f "$cache" ] || pi --image-archive "$cache"
[ "$status" = 0 ] || die "the Job has not succeeded (exit code $status)"
cmp "$work/pi.txt" testdata/demo/pi.txt || die "these are not the digits of pi"
say "The digits are right, and nothing is left. make build builds jobctl too; docs/getting-started.md goes on from here."
