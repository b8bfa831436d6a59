#!/bin/sh
# Creates the user, and restricts the settings to it. It starts nothing: a node without settings of its own would found
# a cluster of one. It restarts nothing: the operator upgrades the nodes of a cluster one at a time.
set -e

getent group lockd >/dev/null || groupadd --system lockd
getent passwd lockd >/dev/null ||
  useradd --system --gid lockd --home-dir /var/lib/lockd --no-create-home --shell /usr/sbin/nologin \
    --comment "lockd, a lock server" lockd

chown root:lockd /etc/lockd /etc/lockd/lockd.env.example
chmod 0750 /etc/lockd

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi

if [ -e /etc/lockd/lockd.env ]; then
  echo "lockd: a node that runs is still the version before. One node at a time: systemctl restart lockd && lockd health"
else
  echo "lockd: it is not started. Copy /etc/lockd/lockd.env.example to /etc/lockd/lockd.env, change it for this node," \
    "then: systemctl enable --now lockd"
fi
