#!/usr/bin/env bash
# Installs the missing Debian packages that the tests need. Tests that still miss one are skipped and say which.
set -euo pipefail

packages=(
  crun=crun
  runc=runc
  /bin/busybox=busybox-static
  docker-registry=docker-registry
  redis-server=redis-server
  mkfs.ext4=e2fsprogs
  mkfs.xfs=xfsprogs
  mkfs.btrfs=btrfs-progs
  /usr/sbin/sshd=openssh-server
  ssh=openssh-client
  /usr/share/perl5/Math/BigInt.pm=libmath-bigint-perl
  nft=nftables
  rsyslogd=rsyslog
  tmux=tmux
  /usr/share/zoneinfo/tzdata.zi=tzdata
  chromium=chromium
  /usr/lib/python3/dist-packages/kubernetes=python3-kubernetes
)
# Debian's containerd contains ctr, which one test uses; but it would replace Docker's packages, so only a CI machine gets
# it.
if [ -n "${CI:-}" ]; then packages+=(ctr=containerd); fi
if [ "$(cat /sys/module/apparmor/parameters/enabled 2>/dev/null)" = Y ]; then packages+=(apparmor_parser=apparmor); fi
"$(dirname "$0")/apt-install.sh" "${packages[@]}" || {
  if [ -n "${CI:-}" ]; then exit 1; fi # or CI would be green without having tested anything
  echo "tests that need these packages are skipped" >&2
}

# The JavaScript of docs/api.md and a program with cdk8s are run where npm is, and left out by name where the packages cannot be
# had.
if command -v npm >/dev/null && { [ ! -d .node/node_modules/@kubernetes/client-node ] || [ ! -d .node/node_modules/cdk8s ]; }; then
  mkdir -p .node
  timeout 120 npm install --prefix .node --silent --no-fund --no-audit @kubernetes/client-node@1 cdk8s@2 constructs@10 ||
    echo "docs/api.md's JavaScript and cdk8s are not tested, for want of their npm packages" >&2
fi
