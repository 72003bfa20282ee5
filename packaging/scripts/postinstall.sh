#!/bin/sh
# Runs after the files are there: as "configure [OLD VERSION]" from dpkg, as "1" or "2" (an upgrade) from rpm.
set -e
getent group jobd >/dev/null || groupadd --system jobd
# What members of that group may do is decided by the first installation. It is no file of the package, since that of a later version
# would take away what an earlier one gave.
users=/etc/jobd/jobd.yaml.d/users.yaml
if [ "$1" = configure ] && [ -z "$2" ] || [ "$1" = 1 ]; then
  [ -e $users ] || install -D -m 0644 /usr/share/jobd/users.yaml $users
elif [ ! -e $users ]; then
  echo "jobd: members of the group jobd are as good as root, as before. To let them run pods only as themselves:"
  echo "jobd: install -D -m 0644 /usr/share/jobd/users.yaml $users && systemctl restart jobd"
fi
[ -d /run/systemd/system ] || {
  echo "jobd: there is no systemd here; start it with: jobd serve --config /etc/jobd/jobd.yaml"
  exit 0
}
systemctl daemon-reload
if [ -e /var/lib/jobd/removed ]; then
  # After a removal that kept the settings dpkg names an old version too, but this is no upgrade.
  rm /var/lib/jobd/removed
elif [ "$1" = configure ] && [ -n "$2" ] || [ "$1" = 2 ]; then
  # An upgrade. Containers keep running, and the new jobd picks them up.
  ! systemctl is-active --quiet jobd || systemctl restart jobd
  exit 0
fi
systemctl enable --quiet jobd
systemctl start jobd || {
  echo "jobd: it did not start; \"systemctl status jobd\" says why"
  exit 0
}
echo "jobd: it is running. Try: jobctl get jobs. Members of the group jobd may use it too, as themselves: docs/team.md."
