#!/usr/bin/env bash
# run.sh BIN OUT makes the pictures of the documentation with the programs in BIN: a Job of 600 pods, three of which fail, in the
# browser (OUT/dashboard.png), in the terminal (OUT/watch.png) and as a report (OUT/report.png). With VIEWS=PREFIX it makes one of
# each view instead, PREFIX-NAME.png, so that two versions can be compared.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd) out=$(mkdir -p "$2" && cd "$2" && pwd)
"$here/../apt-install.sh" chromium=chromium npm=npm tmux=tmux pngquant=pngquant
node=$here/../../.node
[ -d "$node/node_modules/playwright-core" ] || npm install --silent --no-save --prefix "$node" playwright-core

dir=$(mktemp -d /var/tmp/jobd-screenshots.XXXXXX)
export PATH=$bin:$PATH JOBD_SOCKET=$dir/s
jobd serve --root "$dir/root" --state "$dir/state" --socket "$dir/s" --max-pods 24 >"$dir/log" 2>&1 &
daemon=$!
tmux() { command tmux -u -S "$dir/tmux" "$@"; }
finish() {
  tmux kill-server 2>/dev/null || true
  kill "$daemon" ${dashboard:-} 2>/dev/null || true
  wait "$daemon" 2>/dev/null || true
  jobd clean --purge --root "$dir/root" --state "$dir/state" >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap finish EXIT
until jobctl get --raw /readyz >/dev/null 2>&1; do kill -0 "$daemon"; sleep 0.2; done
(cd "$here/../.." && go build -o "$dir/moving" ./testdata/screenshots/moving)

# still NAME COLUMNS ROWS COMMAND WORDS KEY... draws a terminal in which a command shows some words, and then has got some keys.
still() {
  tmux -f /dev/null new-session -d -s "$1" -x "$2" -y "$3" "env -u CI TERM=screen-256color LC_ALL=C.UTF-8 sh -c '$4; sleep 1000'"
  tmux set -g status off
  until tmux capture-pane -t "$1" -p | grep -q "$5"; do sleep 0.2; done
  for key in "${@:6}"; do tmux send-keys -t "$1" "$key"; sleep 0.3; done
  sleep 2 # a few times as long as it takes to draw
  tmux capture-pane -t "$1" -e -p | "$dir/moving" -still "$2x$3" >"$dir/$1.svg"
}

go run "$here/../images/cmd/mkimage" busybox docker.io/library/busybox:1.36 | jobctl image import - >/dev/null
pods=${VIEWS:+150} pods=${pods:-600}
sed "s/completions: 600/completions: $pods/" "$here/jobs.yaml" | jobctl apply -f - >/dev/null
for run in last-week yesterday; do jobctl create job "$run" --from cronjob/nightly >/dev/null; done
until [ "$(jobctl get jobs/sweep -o jsonpath='{.status.succeeded}')" -ge $((pods * 3 / 4)) ] 2>/dev/null; do sleep 0.5; done
jobctl dashboard --open=false >"$dir/link" &
dashboard=$!
until grep -qs http "$dir/link"; do sleep 0.1; done
jobctl report jobs/sweep >"$dir/report.html"

if [ -n "${VIEWS:-}" ]; then
  still watch-list 110 24 "jobctl watch" evaluate
  still watch-job 110 30 "jobctl watch jobs/sweep" failed
  still submit 110 24 "jobctl submit --name tuning -f $here/moving/sweep.yaml" "job tuning: failed"
else
  still watch 100 26 "jobctl watch jobs/sweep" failed
fi
pod=$(jobctl get pods -l job-name=report -o jsonpath='{.items[0].metadata.name}')
NODE_PATH=$node/node_modules node "$here/shoot.cjs" "$(grep -o 'http[^ ]*' "$dir/link")" "$dir" "$out" "$pod" "${VIEWS:-}"
pngquant --force --ext .png --skip-if-larger --quality 60-95 "$out/${VIEWS:-}"*.png || true # of some that is larger
ls -l "$out"
