#!/bin/sh
# Runs before the files go: as "remove" or "upgrade" from dpkg, as "0" (removal) or "1" (upgrade) from rpm. Containers outlive
# an upgrade. A removal ends them, because nothing would be left that counts their results.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
running=$(jobctl get pods -A --field-selector status.phase=Running -o name --request-timeout 10s 2>/dev/null | wc -l) || running=0
if [ "$running" -gt 0 ]; then
  if [ -e /usr/share/debconf/confmodule ] && [ "$1" = remove ]; then
    . /usr/share/debconf/confmodule
    db_fset jobd/end-pods seen false
    db_input critical jobd/end-pods || true
    db_go || true
    db_get jobd/end-pods
    [ "$RET" = true ] || {
      echo "jobd: not removed, because pods are running" >&2
      exit 1
    }
  fi
  echo "jobd: ending $running running pods; their Jobs and logs are kept in /var/lib/jobd" >&2
fi
[ ! -d /run/systemd/system ] || systemctl disable --quiet --now jobd
# rpm keeps what was changed, and nothing else.
[ "$1" != 0 ] || ! cmp -s /usr/share/jobd/users.yaml /etc/jobd/jobd.yaml.d/users.yaml || {
  rm /etc/jobd/jobd.yaml.d/users.yaml
  rmdir /etc/jobd/jobd.yaml.d || true
}
config=
[ ! -e /etc/jobd/jobd.yaml ] || config=--config=/etc/jobd/jobd.yaml
jobd clean $config >&2
