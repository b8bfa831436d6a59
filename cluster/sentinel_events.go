package cluster

import (
	"fmt"
	"net"

	"lockd/resp"
)

// announce publishes what has changed to the sentinel's subscribers, in the words and
// the order of Redis. Only the topology's goroutine calls it.
func (s *Sentinel) announce(was, now *standing) {
	e := &events{name: s.cfg.Master}
	before, after := was.master, now.master
	switch {
	case after == nil:
		return
	case before == nil: // the first leader: nothing has changed for anybody
	case !was.vacant && now.vacant:
		e.lost(before, now.quorum())
	case before.addr() != after.addr():
		e.switched(before, after, now)
	case was.vacant && !now.vacant:
		e.add("-odown", e.master(before))
		e.add("-sdown", e.master(before))
	}
	e.members(was, now)
	if len(e.list) > 0 {
		s.cfg.Publisher.Publish(e.list)
	}
}

// events gathers messages of a sentinel.
type events struct {
	name string // of the master
	list []resp.Message
}

func (e *events) add(channel, payload string) {
	e.list = append(e.list, resp.Message{Kind: resp.MessageChannel, Channel: channel, Payload: payload})
}

// The ways in which a sentinel names nodes in its messages.

func (e *events) master(p *seat) string {
	return fmt.Sprintf("master %s %s %s", e.name, p.host, p.port)
}

func (e *events) slave(p, master *seat) string {
	return fmt.Sprintf("slave %s:%s %s %s @ %s %s %s", p.host, p.port, p.host, p.port, e.name, master.host, master.port)
}

func (e *events) sentinel(p, master *seat) string {
	host, port, _ := net.SplitHostPort(p.sentinel)
	return fmt.Sprintf("sentinel %s %s %s @ %s %s %s", p.sentinelID, host, port, e.name, master.host, master.port)
}

// lost: there is no leader any more.
func (e *events) lost(master *seat, quorum int) {
	e.add("+sdown", e.master(master))
	e.add("+odown", fmt.Sprintf("%s #quorum %d/%d", e.master(master), quorum, quorum))
}

// switched: another node leads, and serves. Clients move on +switch-master, or on
// one of the messages around it.
func (e *events) switched(old, leader *seat, now *standing) {
	e.add("+new-epoch", u64(now.term))
	e.add("+try-failover", e.master(old))
	e.add("+vote-for-leader", fmt.Sprintf("%s %d", leader.sentinelID, now.term))
	e.add("+elected-leader", e.master(old))
	e.add("+selected-slave", e.slave(leader, old))
	e.add("+promoted-slave", e.slave(leader, old))
	for i := range now.seats {
		if p := &now.seats[i]; p.id != leader.id && p.addr() != old.addr() {
			e.add("+slave-reconf-done", e.slave(p, old))
		}
	}
	e.add("+failover-end", e.master(old))
	e.add("+switch-master", fmt.Sprintf("%s %s %s %s %s", e.name, old.host, old.port, leader.host, leader.port))
	for i := range now.seats {
		if p := &now.seats[i]; p.id != leader.id {
			e.add("+slave", e.slave(p, leader))
		}
	}
}

// members: nodes have come, or do not answer any more, or again.
func (e *events) members(was, now *standing) {
	master := now.master
	for i := range now.seats {
		p, old := &now.seats[i], was.seat(now.seats[i].id)
		wasDown := old != nil && old.down
		if p.id != master.id {
			if old == nil || old.addr() != p.addr() {
				e.add("+slave", e.slave(p, master))
			}
			e.down(wasDown && !was.ledBy(p.id), p.down, e.slave(p, master))
		}
		if p.sentinel == "" {
			continue
		}
		if old == nil || old.sentinel != p.sentinel {
			e.add("+sentinel", e.sentinel(p, master))
		}
		e.down(wasDown, p.down, e.sentinel(p, master))
	}
}

func (e *events) down(was, is bool, what string) {
	if !was && is {
		e.add("+sdown", what)
	} else if was && !is {
		e.add("-sdown", what)
	}
}
