#!/usr/bin/env bash
# image.sh DIR BIN makes in DIR what an emulated machine boots from:
#   vmlinuz, initrd  Debian's cloud kernel, unpacked and not installed, and what finds the disks
#   base.ext4        programs of this machine: the packages below with all that they depend on, AppArmor's parser, which
#                    this machine need not have, and the kernel's modules
#   jobd.ext4        the programs of BIN, the end-to-end tests and what they read
# The first three are made once for each kernel and set of packages.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && cd "$1"
bin=$2

programs="dash bash coreutils diffutils dpkg util-linux bsdutils mount kmod grep sed findutils procps iproute2 socat crun runc
  perl libmath-bigint-perl python3-minimal redis-server redis-tools docker-registry containerd busybox-static
  e2fsprogs xfsprogs btrfs-progs"

unpacked() { # downloads a package, unpacks it without installing it, and prints the directory
  local dir
  dir=$1/$(apt-cache show --no-all-versions "$1" | sed -n 's/^Version: //p')
  if [ ! -d "$dir" ]; then
    rm -rf "$1" && mkdir -p "$1/download"
    (cd "$1/download" && apt-get download -q "$1" >/dev/null 2>&1)
    dpkg -x "$1"/download/*.deb "$dir~"
    mv "$dir~" "$dir" && rm -rf "$1/download"
  fi
  echo "$dir"
}

installed() { # the packages and what they depend on, as far as this machine has them
  apt-cache depends --recurse --installed --no-{recommends,suggests,conflicts,breaks,replaces,enhances} $programs |
    sed -n '/^[a-z]/p' | sort -u | { xargs dpkg-query -W -f '${db:Status-Abbrev}${Package} ${Version}\n' 2>/dev/null || true; } | sed -n 's/^ii //p'
}

initrd() {
  rm -rf initrd.d && mkdir -p initrd.d/{bin,dev,proc,root}
  cp /bin/busybox initrd.d/bin/
  ln -s busybox initrd.d/bin/sh
  cp "$here/guest/initrd" initrd.d/init
  # In the order in which they need one another.
  local module
  for module in virtio_blk virtio_pci virtio_net; do
    modprobe -d "$PWD/$kernel" -S "$version" --show-depends "$module" | sed -n 's/^insmod //p'
  done | awk '!seen[$1]++ { print $1 }' | while read -r file; do
    cp "$file" initrd.d/
    echo "${file##*/}" >>initrd.d/modules
  done
  (cd initrd.d && find . | cpio -o -H newc 2>/dev/null) >initrd~ && mv initrd~ initrd
  rm -rf initrd.d
}

disk() { # $1: directory, $2: image
  rm -f "$2~"
  local size=$(($(du -sm "$1" | cut -f1) * 12 / 10 + 32))
  >"$2~" && mke2fs -q -F -t ext4 -O ^has_journal -m 0 -d "$1" "$2~" "${size}M"
  mv "$2~" "$2"
}

base() { # the packages are in the file packages~
  rm -rf base.d && mkdir -p base.d/{dev,proc,sys,run,tmp,data,opt,mnt,root,home,srv,etc,var/{lib,log,tmp,cache},usr/{bin,sbin,lib,lib64,share}}
  for dir in bin sbin lib lib64; do ln -s "usr/$dir" "base.d/$dir"; done
  cut -d' ' -f1 packages~ | xargs dpkg -L | sort -u | grep -Ev '^/usr/share/(doc|man|locale|info|lintian)/|^/(boot|etc/(init|cron|rc))' |
    while read -r file; do if [ -L "$file" ] || [ -f "$file" ]; then echo "$file"; fi; done |
    tar -C / -c --no-recursion --ignore-failed-read -f - -T - 2>/dev/null | tar -C base.d -x --keep-directory-symlink -f -
  tar -C "$apparmor" -c ./sbin ./etc ./usr | tar -C base.d -x --keep-directory-symlink -f -
  cp -r "$kernel/lib/modules" base.d/usr/lib/
  ldconfig -r base.d
  mkdir -p base.d/usr/lib/packages/info # the stand-in for Ubuntu is made of what coreutils consists of
  cp /var/lib/dpkg/status base.d/usr/lib/packages/
  cp /var/lib/dpkg/info/coreutils.list base.d/usr/lib/packages/info/
  for file in passwd group nsswitch.conf services protocols; do cp "/etc/$file" base.d/etc/; done
  echo vm >base.d/etc/hostname
  echo '127.0.0.1 localhost vm' >base.d/etc/hosts
  echo 'nameserver 10.0.2.3' >base.d/etc/resolv.conf
  echo 5d1c2b6a0f3e4d7c8b9a0f1e2d3c4b5a >base.d/etc/machine-id
  disk base.d base.ext4
  rm -rf base.d
}

jobd() {
  rm -rf jobd.d && mkdir -p jobd.d/{bin,src/daemon/e2e,src/api/core,src/testdata/demo}
  cp "$bin"/{jobd,jobd-shim,jobctl,kubectl,attacker,e2e.test,persistent.test,busybox.tar} jobd.d/bin/
  cp -r "$here/guest" jobd.d/
  cp -r "$here/../"{examples,oracle,upgrade} jobd.d/src/testdata/
  cp "$here/../demo/pi.txt" jobd.d/src/testdata/demo/
  cp "$here/../../api/core/PODFIELDS.md" jobd.d/src/api/core/
  disk jobd.d jobd.ext4
  rm -rf jobd.d
}

apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1 || apt-get update >/dev/null
version=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/ *Depends: linux-image-//p' | head -1)
kernel=$(unpacked "linux-image-$version")
apparmor=$(unpacked apparmor)
depmod -b "$kernel" "$version" 2>/dev/null
cp -u "$kernel/boot/vmlinuz-$version" vmlinuz
installed >packages~
{ echo "$kernel $apparmor"; cat packages~ "$here/image.sh" "$here/guest/initrd"; } | sha256sum >sum~
if ! cmp -s sum~ sum || [ ! -e base.ext4 ]; then
  echo "vm: kernel $version with $(wc -l <packages~) packages of this machine"
  initrd
  base
  mv sum~ sum
fi
rm -f packages~ sum~
jobd
