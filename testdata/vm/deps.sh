#!/usr/bin/env bash
# Installs the Debian packages that the emulated machine needs: the emulator, what makes its disks, and the programs that
# the guest gets copies of beside those of test-deps.sh. The kernel is only downloaded (image.sh).
set -euo pipefail
exec "$(dirname "$0")/../apt-install.sh" qemu-system-x86_64=qemu-system-x86 mke2fs=e2fsprogs cpio=cpio modprobe=kmod socat=socat
