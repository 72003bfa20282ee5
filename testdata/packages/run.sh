#!/usr/bin/env bash
# run.sh DIR tests the packages in DIR/old and DIR/new (an older version and this one, as packaging/release.sh makes them) in an
# emulated machine: a Debian with systemd for the tests deb, upgrade, rpm and down, and the same disk without systemd for the test tar.
# TESTS has those that run, all unless it is set.
#   DIR/root.ext4        a Debian, made once for each set of packages and kernel
#   DIR/vmlinuz, initrd  Debian's cloud kernel, unpacked and not installed, and what finds the disks
#   DIR/jobd.ext4        the packages, two images and the scripts of guest
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/../vm/deps.sh"
"$here/../apt-install.sh" mmdebstrap=mmdebstrap
cd "$1"

packages=systemd,systemd-sysv,udev,dbus,kmod,iproute2,procps,crun,debconf,passwd,rpm
mirror=http://deb.debian.org/debian
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")

apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1 || apt-get update >/dev/null
version=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/ *Depends: linux-image-//p' | head -1)

kernel() {
  rm -rf download && mkdir -p download
  (cd download && apt-get download -q "linux-image-$version" >/dev/null 2>&1)
  rm -rf kernel && dpkg -x download/*.deb kernel && rm -rf download
  depmod -b kernel "$version" 2>/dev/null
  cp "kernel/boot/vmlinuz-$version" vmlinuz
}

initrd() {
  rm -rf initrd.d && mkdir -p initrd.d/{bin,dev,proc,root}
  cp /bin/busybox initrd.d/bin/
  ln -s busybox initrd.d/bin/sh
  cp "$here/guest/initrd" initrd.d/init
  local module # in the order in which they need one another
  for module in virtio_blk virtio_pci; do
    modprobe -d "$PWD/kernel" -S "$version" --show-depends "$module" | sed -n 's/^insmod //p'
  done | awk '!seen[$1]++ { print $1 }' | while read -r file; do
    cp "$file" initrd.d/
    echo "${file##*/}" >>initrd.d/modules
  done
  (cd initrd.d && find . | cpio -o -H newc 2>/dev/null) >initrd
  rm -rf initrd.d
}

root() {
  rm -rf root.d && mkdir root.d
  mmdebstrap --quiet --variant=minbase --mode=root --include="$packages" "$suite" - "$mirror" | tar -C root.d -x
  cp -r kernel/lib/modules root.d/usr/lib/
  cp "$here/guest/packages.service" root.d/etc/systemd/system/
  ln -s ../packages.service root.d/etc/systemd/system/multi-user.target.wants/
  for unit in getty.target systemd-timesyncd.service apt-daily.timer apt-daily-upgrade.timer; do
    ln -sf /dev/null "root.d/etc/systemd/system/$unit"
  done
  echo packages >root.d/etc/hostname
  : >root.ext4 && mke2fs -q -F -t ext4 -m 0 -d root.d root.ext4 4G
  rm -rf root.d
}

disk() {
  rm -rf jobd.d && mkdir jobd.d
  cp -r old new "$here/guest" jobd.d/
  rm -rf jobd.d/*/stage
  cp perl.tar busybox.tar /bin/busybox "$here/../examples/pi.yaml" jobd.d/
  rm -f jobd.ext4 && : >jobd.ext4 && mke2fs -q -F -t ext4 -O ^has_journal -m 0 -d jobd.d jobd.ext4 "$(($(du -sm jobd.d | cut -f1) * 12 / 10 + 32))M"
  rm -rf jobd.d
}

# machine INIT TEST DRIVE boots the machine with a root, and prints what it says, until it ends or starts anew.
machine() {
  # It lacks the features that cost an emulator most.
  qemu-system-x86_64 -accel tcg,thread=multi,tb-size=512 -cpu max,-la57,-smap,-smep,-pku,-avx,-avx2 -m 3072 -smp 2 \
    -kernel vmlinuz -initrd initrd \
    -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check systemd.show_status=false start=$1 test=$2 pods=${PODS:-100}" \
    -no-reboot -nic none -display none -monitor none -serial stdio </dev/null \
    -drive "file=$3,format=raw,if=virtio" \
    -drive file=jobd.ext4,format=raw,if=virtio,read-only=on | sed -u 's,\r$,,' | tee -a "console.$2"
}

# boot INIT TEST boots the machine, and again as long as its test says so, and fails unless all of its checks have passed.
boot() {
  echo "packages: $2"
  : >"console.$2"
  if [ "$2" = down ]; then
    cp --sparse=always root.ext4 down.ext4
    for stage in 1 2 3 4; do
      machine "$1" "$2" down.ext4
      grep -qx "packages: boot $stage goes down" "console.$2" || break
    done
    rm down.ext4
    # systemd says so when it has waited for some time.
    ! grep "Waiting for process.*jobd" "console.$2" || { echo "packages: jobd holds up the shutdown" >&2; exit 1; }
  else
    machine "$1" "$2" root.ext4,snapshot=on
  fi
  grep -qx "packages: all is well" "console.$2" || { echo "packages: $2 has failed" >&2; exit 1; }
}

sum=$({ echo "$packages $suite $version"; declare -f kernel initrd root; cat "$here"/guest/{initrd,packages.service}; } | sha256sum)
if [ "$sum" != "$(cat sum 2>/dev/null)" ]; then
  echo "packages: making a Debian $suite with kernel $version"
  kernel
  initrd
  root
  echo "$sum" >sum
fi
disk
for test in ${TESTS:-deb upgrade rpm down tar}; do
  case $test in tar) boot /opt/guest/without-systemd tar ;; *) boot /sbin/init "$test" ;; esac
done
