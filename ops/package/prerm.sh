#!/bin/sh
# A removal ("remove" for dpkg, 0 for rpm) stops the node first; an upgrade does not stop it.
set -e

case "$1" in
remove | 0)
  if [ -d /run/systemd/system ]; then
    systemctl disable --now lockd.service || true # it may never have been enabled
  fi
  ;;
esac
