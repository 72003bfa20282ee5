#!/usr/bin/env bash
# Installs the Debian packages that the emulated machine needs: the emulator, what makes its disks, and the programs that
# the guest gets copies of beside those of test-deps.sh. The kernel is only downloaded (image.sh).
set -euo pipefail

declare -A packages=(
  [qemu-system-x86_64]=qemu-system-x86
  [mke2fs]=e2fsprogs
  [cpio]=cpio
  [modprobe]=kmod
  [socat]=socat
)
missing=()
for what in "${!packages[@]}"; do
  command -v "$what" >/dev/null || missing+=("${packages[$what]}")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
  echo "vm: install these first: ${missing[*]}" >&2
  exit 1
fi
echo "vm: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
  { apt-get update >/dev/null && apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null; }
