package load

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Target is a server, or several that form one cluster.
type Target struct {
	Name   string   `json:"name"` // in the tables
	Scheme string   `json:"scheme"`
	Addrs  []string `json:"addrs"`
	TLS    bool     `json:"tls,omitempty"` // rediss://
	Wait   int      `json:"wait"`          // replicas that each write waits for (WAIT)
	Master bool     `json:"master"`        // all clients connect to the leader
}

// The schemes of targets.
const (
	schemeRedis = "redis"
	schemeTLS   = "rediss" // Redis's protocol over TLS
	schemeEtcd  = "etcd"
)

// ParseTarget parses [NAME=]redis://HOST:PORT[,HOST:PORT...][?wait=N&to=master], or the same with rediss or etcd.
// wait is the default of the target's wait.
func ParseTarget(text string, wait int) (Target, error) {
	head, rest, found := strings.Cut(text, "://")
	if !found {
		return Target{}, fmt.Errorf("target %q is not of the form redis://host:port or etcd://host:port", text)
	}
	t := Target{Scheme: head, Wait: wait}
	if name, scheme, named := strings.Cut(head, "="); named {
		t.Name, t.Scheme = name, scheme
	}
	if t.Scheme != schemeRedis && t.Scheme != schemeTLS && t.Scheme != schemeEtcd {
		return Target{}, fmt.Errorf("target %q: there is %s://, %s:// and %s://, and no %s://",
			text, schemeRedis, schemeTLS, schemeEtcd, t.Scheme)
	}
	list, query, _ := strings.Cut(rest, "?")
	for _, addr := range strings.Split(list, ",") {
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			return Target{}, fmt.Errorf("target %q: %q is not of the form host:port", text, addr)
		}
		t.Addrs = append(t.Addrs, addr)
	}
	if t.Name == "" {
		t.Name = t.Scheme + "://" + list
	}
	if err := t.options(query); err != nil {
		return Target{}, fmt.Errorf("target %q: %w", text, err)
	}
	switch t.Scheme {
	case schemeEtcd:
		t.Wait = 0 // an answer of etcd always means a majority
	case schemeTLS:
		t.Scheme, t.TLS = schemeRedis, true
	}
	return t, nil
}

func (t *Target) options(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return err
	}
	for name := range values {
		value := values.Get(name)
		switch name {
		case "wait":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 {
				return fmt.Errorf("wait=%s is not a number of replicas", value)
			}
			t.Wait = n
		case "to":
			if value != "master" {
				return fmt.Errorf("to=%s: there is only to=master", value)
			}
			t.Master = true
		default:
			return fmt.Errorf("there is no option %q, only wait and to", name)
		}
	}
	return nil
}

// parseTargets parses several targets, whose names must differ because the tables identify targets by name.
func parseTargets(texts []string, wait int) ([]Target, error) {
	seen := map[string]bool{}
	var all []Target
	for _, text := range texts {
		t, err := ParseTarget(text, wait)
		if err != nil {
			return nil, err
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("two targets are named %q: put a name before them, as in a=redis://host:port",
				t.Name)
		}
		seen[t.Name] = true
		all = append(all, t)
	}
	return all, nil
}
