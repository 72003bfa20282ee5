#!/usr/bin/env bash
# Runs Kubernetes' own specs for nodes, Jobs and the API against a jobd of its own: run.sh BIN [--short | FOCUS]
#
# BIN is the directory of jobd's programs, FOCUS an expression on the names of the specs; --short takes those that short.txt lists.
# The specs that left-out.txt lists are left out. Everything is built from Go modules and from programs of this machine: busybox,
# bash, curl, ipcs, kubectl.
set -euo pipefail

here=$(realpath "$(dirname "$0")")
expressions() { grep -v -e '^#' -e '^$' "$here/$1" | paste -sd '|'; }
bin=$(realpath "$1")
case ${2:-} in
--short) focus=$(expressions short.txt) ;;
'') focus=$(expressions chosen.txt) ;;
*) focus=$2 ;;
esac
work=$(mktemp -d /var/tmp/jobd-conformance.XXXXXX)
state=$(mktemp -d /run/jobd-conformance.XXXXXX)
chmod 711 "$work" "$state" # so that the users of user namespaces pass through
port=${JOBD_CONFORMANCE_PORT:-7443}

cleanup() {
  if [ -n "${jobd:-}" ]; then
    kill "$jobd" 2>/dev/null || true
    wait "$jobd" 2>/dev/null || true
    "$bin/jobd" clean --purge --root "$work/root" --state "$state" >/dev/null || true
  fi
  rm -rf "$work" "$state"
}
trap cleanup EXIT

cd "$here"
echo "building the specs and their images"
go build -ldflags '-s -w' -o "$work/" \
  k8s.io/kubernetes/test/images/agnhost k8s.io/kubernetes/test/images/nonewprivs github.com/onsi/ginkgo/v2/ginkgo
go test -c -vet=off -ldflags '-s -w' -o "$work/specs.test" .
kubernetes=$(go list -m -f '{{.Dir}}' k8s.io/kubernetes) # which has been downloaded only now
(cd ../.. && go run ./testdata/images/cmd/specimages "$kubernetes" "$work/agnhost" "$work/nonewprivs" >"$work/images.tar")

"$bin/jobd" serve --root "$work/root" --state "$state" --listen "127.0.0.1:$port" >"$work/jobd.log" 2>&1 &
jobd=$!
export JOBD_SOCKET=$state/jobd.sock
for _ in $(seq 300); do
  [ -S "$JOBD_SOCKET" ] && "$bin/jobctl" get --raw /readyz >/dev/null 2>&1 && break
  kill -0 "$jobd" || { cat "$work/jobd.log"; exit 1; }
  sleep 0.1
done
"$bin/jobctl" image import "$work/images.tar"

skip=$(expressions left-out.txt)
# It mounts below /var/lib/kubelet, on the host and in pods, and looks on the other side.
if ! findmnt -no PROPAGATION -T /var/lib | grep -q shared; then
  echo "left out: Mount propagation, since the mounts of this machine are not shared"
  skip+='|Mount propagation'
fi
# They expect the oom_score_adj of Guaranteed pods, which this machine may not let anybody set.
if ! (echo -997 >"/proc/$BASHPID/oom_score_adj") 2>/dev/null; then
  echo "left out: resizing of Guaranteed pods, since this machine does not let oom_score_adj be lowered"
  skip+='|Resize Container guaranteed qos'
fi
# They mostly wait, so more of them than there are cores run at a time.
"$work/ginkgo" --procs=6 --no-color --silence-skips --timeout=3h --focus="$focus" --skip="$skip" "$work/specs.test" -- \
  --kubeconfig="$work/root/kubeconfig" --provider=skeleton --num-nodes=1 --kubectl-path="$(command -v kubectl)" \
  --kubelet-root-dir="$work/root"
