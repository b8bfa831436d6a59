#!/bin/sh
# The data and the settings are the operator's, the user keeps them his: nothing of them is removed, by a purge neither.
set -e

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
case "$1" in
purge)
  if [ -d /var/lib/lockd ]; then
    echo "lockd: the data in /var/lib/lockd is left: rm -r /var/lib/lockd /etc/lockd; userdel lockd"
  fi
  ;;
esac
