#!/bin/sh
# The user, and who may read the settings. Nothing is started: a node without settings of its own would found a cluster
# of one. And nothing is restarted: the nodes of a cluster are upgraded one at a time, when the operator says so.
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
