package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"lockd/bench/etcd"
	"lockd/bench/load"
	"lockd/internal/process"
)

// lockd starts n nodes with the default flags, and more; prefix distinguishes clusters.
func (f *farm) lockd(ctx context.Context, prefix string, n int, more ...string) ([]*proc, error) {
	laid, err := process.Cluster(f.dir, prefix+"-n", n)
	if err != nil {
		return nil, err
	}
	var nodes []*proc
	for _, node := range laid {
		p, err := f.add(node.ID, node.Addr, f.binary, func(string) []string {
			return slices.Concat(node.Args, []string{"--log-level", "warn"}, more)
		})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, p)
	}
	for _, p := range nodes {
		if err := p.await(ctx, p.serves); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// serves sends a read, a linearizable one if the server supports that.
func (p *proc) serves(ctx context.Context) error {
	_, err := load.Ask(ctx, p.addr, "GET", "no such key")
	return err
}

// redis starts a redis-server that syncs before every answer.
func (f *farm) redis(ctx context.Context, name string, more ...string) (*proc, error) {
	addrs, err := addrs(1)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		return nil, err
	}
	p, err := f.add(name, addrs[0], "redis-server", func(dir string) []string {
		return append(
			[]string{
				"--bind", host, "--port", port, "--dir", dir, "--appendonly", "yes", "--appendfsync", "always",
				"--save", "",
			},
			more...)
	})
	if err != nil {
		return nil, err
	}
	return p, p.await(ctx, p.serves)
}

func (f *farm) oneRedis(ctx context.Context) ([]*proc, error) {
	p, err := f.redis(ctx, "redis")
	return []*proc{p}, err
}

// replicatedRedis is a primary with two replicas, all of which sync.
func (f *farm) replicatedRedis(ctx context.Context) ([]*proc, error) {
	const replicas = 2
	primary, err := f.redis(ctx, "redis-primary", "--repl-diskless-sync-delay", "0")
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(primary.addr)
	if err != nil {
		return nil, err
	}
	all := []*proc{primary}
	for i := range replicas {
		p, err := f.redis(ctx, fmt.Sprintf("redis-replica%d", i+1), "--replicaof", host+" "+port)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, primary.await(ctx, func(ctx context.Context) error {
		if _, err := load.Ask(ctx, primary.addr, "SET", "bench:replicated", "1"); err != nil {
			return err
		}
		_, err := load.Ask(ctx, primary.addr, "DEL", "bench:replicated")
		if err != nil {
			return err
		}
		info, err := load.Ask(ctx, primary.addr, "INFO", "replication")
		if err == nil && strings.Count(strings.Join(info, ""), "state=online") != replicas {
			err = fmt.Errorf("its replicas are not online: %s", info)
		}
		return err
	})
}

// etcd starts three nodes with the default settings, except for a quota that a long run does not reach: they keep all
// revisions.
func (f *farm) etcd(ctx context.Context) ([]*proc, error) {
	const n = 3
	addrs, err := addrs(2 * n)
	if err != nil {
		return nil, err
	}
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf("n%d=http://%s", i+1, addrs[n+i]))
	}
	var nodes []*proc
	for i := range n {
		p, err := f.add(fmt.Sprintf("etcd-n%d", i+1), addrs[i], "etcd", func(dir string) []string {
			client, peer := "http://"+addrs[i], "http://"+addrs[n+i]
			return []string{"--name", fmt.Sprintf("n%d", i+1), "--data-dir", dir,
				"--listen-client-urls", client, "--advertise-client-urls", client,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
				"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new",
				"--quota-backend-bytes", "8000000000", "--logger", "zap", "--log-level", "warn"}
		})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, p)
	}
	for _, p := range nodes {
		if err := p.await(ctx, func(ctx context.Context) error { return etcd.Serves(ctx, p.addr) }); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// target returns the servers as package load reads a target; options is the part after the question mark.
func target(name, scheme, options string, procs []*proc) string {
	var addrs []string
	for _, p := range procs {
		addrs = append(addrs, p.addr)
	}
	return name + "=" + scheme + "://" + strings.Join(addrs, ",") + options
}
