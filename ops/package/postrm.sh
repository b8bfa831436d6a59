#!/bin/sh
# Data, settings and the user that owns them stay, also after a purge: they belong to the operator.
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
