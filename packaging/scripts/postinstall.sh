#!/bin/sh
# Runs after the files are there: as "configure [OLD VERSION]" from dpkg, as "1" or "2" (an upgrade) from rpm.
set -e
getent group jobd >/dev/null || groupadd --system jobd
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
echo "jobd: it is running. Try: jobctl get jobs. Members of the group jobd may use it, and are as good as root."
