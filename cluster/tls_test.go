package cluster

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/face"
	"lockd/resp"
)

// tlsModes are both modes, where n1 has clients with TLS and without, n2 only with, n3 only without.
func tlsModes(cfg *Config) {
	bothModes(cfg)
	host, _, _ := strings.Cut(cfg.ClientAddrs[0], ":")
	if cfg.ID != "n3" {
		cfg.TLSAddr = host + ":7001"
	}
	if cfg.ID == "n2" {
		cfg.ClientAddrs = []string{cfg.TLSAddr}
	}
	cfg.Sentinel.TLS = cfg.ID == "n1"
}

// Clients are told the addresses at which they can speak as they do.
func TestAddressesOverTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, tlsModes)
		defer c.close()
		c.settle()
		c.moveTo("n1")
		time.Sleep(2 * face.SurveyEvery)
		n1, plain := c.nodes["n1"], t.Context()
		over := resp.WithTLS(plain)
		for _, tt := range []struct {
			tls     bool
			command string
			want    []string
		}{
			{false, "CLUSTER SLOTS", []string{"10.0.0.1 7000", "10.0.0.2 7001", "host3 7000"}},
			{true, "CLUSTER SLOTS", []string{"10.0.0.1 7001", "10.0.0.2 7001", "host3 7000"}},
			{false, "CLUSTER NODES", []string{"10.0.0.1:7000@", "10.0.0.2:7001@", "host3:7000@"}},
			{true, "CLUSTER NODES", []string{"10.0.0.1:7001@", "10.0.0.2:7001@", "host3:7000@"}},
			{true, "CLUSTER SHARDS", []string{"port 7000 tls-port 7001 ip 10.0.0.1", "tls-port 7001 ip 10.0.0.2", "port 7000 ip host3"}},
		} {
			ctx := plain
			if tt.tls {
				ctx = over
			}
			r := n1.Do(ctx, resp.Request{Cmds: []resp.Cmd{{Args: strings.Fields(tt.command)}}}).Replies[0]
			got := words(r)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s, TLS %v: %s; want %s", tt.command, tt.tls, got, want)
				}
			}
		}
		if got := c.nodes["n3"].Redirect(true) + " " + c.nodes["n3"].Redirect(false); got != "10.0.0.1:7001 10.0.0.1:7000" {
			t.Error("MOVED", got)
		}
		for id, want := range map[string]string{"n1": "10.0.0.1 7001", "n3": "10.0.0.1 7000"} {
			ask := resp.Request{Cmds: []resp.Cmd{{Args: strings.Fields("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster")}}}
			if got := words(c.nodes[id].Sentinel().Do(plain, ask).Replies[0]); !strings.Contains(got, want) {
				t.Errorf("the sentinel of %s says %s, not %s", id, got, want)
			}
		}
		c.events("s1")
		c.moveTo("n2")
		time.Sleep(2 * face.SurveyEvery)
		if got := fmt.Sprint(c.events("s1")); !strings.Contains(got, "mymaster 10.0.0.1 7001 10.0.0.2 7001") {
			t.Error("its events:", got)
		}
	})
}

// words are the texts and numbers of a reply.
func words(r resp.Reply) string {
	switch {
	case r.Elems != nil:
		var all []string
		for _, e := range r.Elems {
			all = append(all, words(e))
		}
		return strings.Join(all, " ")
	case r.Kind == resp.KindInt:
		return fmt.Sprint(r.Int)
	}
	return r.Str
}
