#!/usr/bin/env bash
# Runs Kubernetes' own specs for nodes against a jobd of its own: run.sh BIN [FOCUS]
#
# BIN is the directory of jobd's programs, FOCUS an expression on the names of the specs. The specs that left-out.txt lists
# are left out. Everything is built from Go modules and from programs of this machine: busybox, bash, curl, ipcs, kubectl.
set -euo pipefail

bin=$(realpath "$1") focus=${2:-'\[sig-node\]|\[sig-storage\] (ConfigMap|Secrets|Projected|Downward|EmptyDir|HostPath|Subpath)'}
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d /var/tmp/jobd-conformance.XXXXXX)
state=$(mktemp -d /run/jobd-conformance.XXXXXX)
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

skip=$(grep -v -e '^#' -e '^$' left-out.txt | paste -sd '|')
# It mounts below /var/lib/kubelet, on the host and in pods, and looks on the other side.
if ! findmnt -no PROPAGATION -T /var/lib | grep -q shared; then
  echo "left out: Mount propagation, since the mounts of this machine are not shared"
  skip+='|Mount propagation'
fi
# They mostly wait, so more of them than there are cores run at a time.
"$work/ginkgo" --procs=6 --no-color --silence-skips --timeout=3h --focus="$focus" --skip="$skip" "$work/specs.test" -- \
  --kubeconfig="$work/root/kubeconfig" --provider=skeleton --num-nodes=1 --kubectl-path="$(command -v kubectl)" \
  --kubelet-root-dir="$work/root"
