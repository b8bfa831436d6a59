package main

import (
	"context"
	"errors"
	"net"
	"strings"

	"lockd/cluster"
	"lockd/cluster/founding"
)

// dnsScheme marks an address of --discover that stands for all addresses of its name.
const dnsScheme = "dns:"

// checkDiscover checks --expect and --discover.
func (c *serveCmd) checkDiscover() error {
	c.Discover = given(c.Discover)
	switch {
	case len(c.Discover) == 0 && c.Expect == 0:
		return nil
	case len(c.Discover) == 0 || c.Expect == 0:
		return usagef("--expect and --discover need each other")
	case len(c.Cluster) > 0 || c.Join != "":
		return usagef("--discover excludes --cluster and --join: it finds out who founds a cluster, or which one to join")
	case c.Expect < founding.Min || c.Expect > founding.Max:
		return usagef("--expect %d is not between %d and %d", c.Expect, founding.Min, founding.Max)
	}
	for _, at := range c.Discover {
		host, port, err := splitAddr("--discover", strings.TrimPrefix(at, dnsScheme))
		if err != nil || host == "" || port == 0 {
			return usagef("--discover %q is neither dns:NAME:PORT nor host:port", at)
		}
	}
	return nil
}

// checkFound refuses a node that others find and do not reach afterwards.
func (c *serveCmd) checkFound() error {
	if len(c.Discover) == 0 {
		return nil
	}
	host, port, err := splitAddr("--peer-advertise", c.PeerAdvertise)
	if ip := ipOf(host); err == nil && (port == 0 || ip != nil && ip.IsUnspecified()) {
		err = usagef("--peer-advertise is needed with --discover: others are told to reach this node at %s", c.PeerAdvertise)
	}
	return err
}

// discovery returns the configuration of discovery; nil: discovery is off.
func (c *serveCmd) discovery() *cluster.Discovery {
	if len(c.Discover) == 0 {
		return nil
	}
	return &cluster.Discovery{Expect: c.Expect, Addrs: func(ctx context.Context) ([]string, error) {
		return addrsAt(ctx, c.Discover, net.DefaultResolver.LookupHost)
	}}
}

// addrsAt are the addresses that --discover stands for, by what the names are at this moment.
func addrsAt(ctx context.Context, list []string, lookup func(context.Context, string) ([]string, error)) ([]string, error) {
	var addrs []string
	var problems []error
	for _, at := range list {
		name, all := strings.CutPrefix(at, dnsScheme)
		if !all {
			addrs = append(addrs, at)
			continue
		}
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			return nil, err // checkDiscover has checked it
		}
		found, err := lookup(ctx, host)
		problems = append(problems, err)
		for _, ip := range found {
			addrs = append(addrs, net.JoinHostPort(ip, port))
		}
	}
	return addrs, errors.Join(problems...)
}
