#!/bin/sh
# Runs after the files are gone: as "remove" or "purge" from dpkg, as "0" from rpm, which does not purge.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
[ "$1" != remove ] || [ ! -d /var/lib/jobd ] || : >/var/lib/jobd/removed # postinst asks for it
[ "$1" = purge ] || exit 0
# Nothing is mounted there any more, since removing has run "jobd clean". If something is, it stays.
rm -rf --one-file-system /run/jobd /etc/jobd
if mountpoint -q /var/lib/jobd; then # a disk of its own
  find /var/lib/jobd -xdev -mindepth 1 ! -name lost+found -delete
else
  rm -rf --one-file-system /var/lib/jobd
fi
! getent group jobd >/dev/null || groupdel jobd || true
[ ! -e /usr/share/debconf/confmodule ] || { . /usr/share/debconf/confmodule && db_purge; }
