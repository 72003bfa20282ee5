#!/usr/bin/env bash
# run.sh BIN OUT makes the pictures of the documentation with the programs in BIN: a Job of 600 pods, three of which fail, in the
# browser (OUT/dashboard.png), in the terminal (OUT/watch.png) and as a report (OUT/report.png).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd) out=$(mkdir -p "$2" && cd "$2" && pwd)
"$here/../apt-install.sh" chromium=chromium npm=npm tmux=tmux aha=aha
node=$here/../../.node
[ -d "$node/node_modules/playwright-core" ] || npm install --silent --no-save --prefix "$node" playwright-core

dir=$(mktemp -d /var/tmp/jobd-screenshots.XXXXXX)
export PATH=$bin:$PATH
jobctl() { "$bin/jobctl" --socket "$dir/s" "$@"; }
jobd serve --root "$dir/root" --state "$dir/state" --socket "$dir/s" --max-pods 16 >"$dir/log" 2>&1 &
daemon=$!
finish() {
  tmux -L jobd-screenshots kill-server 2>/dev/null || true
  kill "$daemon" ${dashboard:-} 2>/dev/null || true
  wait "$daemon" 2>/dev/null || true
  jobd clean --purge --root "$dir/root" --state "$dir/state" >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap finish EXIT
until jobctl get --raw /readyz >/dev/null 2>&1; do kill -0 "$daemon"; sleep 0.2; done

go run "$here/../images/cmd/mkimage" busybox docker.io/library/busybox:1.36 | jobctl image import - >/dev/null
jobctl apply -f "$here/jobs.yaml" >/dev/null
until [ "$(jobctl get jobs/sweep -o jsonpath='{.status.succeeded}')" -ge 400 ] 2>/dev/null; do sleep 0.5; done
jobctl dashboard --open=false >"$dir/link" &
dashboard=$!
until grep -q http "$dir/link"; do sleep 0.1; done

tmux -L jobd-screenshots -f /dev/null new-session -d -x 100 -y 16 "TERM=xterm-256color $bin/jobctl --socket $dir/s watch jobs/sweep"
sleep 3 # a few times as long as it takes to draw
tmux -L jobd-screenshots capture-pane -e -p | aha --black --title "jobctl watch" >"$dir/watch.html"
jobctl report jobs/sweep >"$dir/report.html"
NODE_PATH=$node/node_modules node "$here/shoot.cjs" "$(grep -o 'http[^ ]*' "$dir/link")" "$dir" "$out"
ls -l "$out"
