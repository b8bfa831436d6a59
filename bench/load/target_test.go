package load

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Target
		err  string
	}{
		{text: "redis://a:1", want: Target{Name: "redis://a:1", Scheme: "redis", Addrs: []string{"a:1"}, Wait: 2}},
		{text: "lockd=redis://a:1,b:2?to=master", want: Target{Name: "lockd", Scheme: "redis", Addrs: []string{"a:1", "b:2"}, Wait: 2, Master: true}},
		{text: "redis://[::1]:6379?wait=0", want: Target{Name: "redis://[::1]:6379", Scheme: "redis", Addrs: []string{"[::1]:6379"}}},
		{text: "r=redis://a:1?wait=1&to=master", want: Target{Name: "r", Scheme: "redis", Addrs: []string{"a:1"}, Wait: 1, Master: true}},
		{text: "e=etcd://a:1,b:2,c:3", want: Target{Name: "e", Scheme: "etcd", Addrs: []string{"a:1", "b:2", "c:3"}}},
		{text: "a:1", err: "is not of the form redis://host:port"},
		{text: "http://a:1", err: "no http://"},
		{text: "redis://a", err: `"a" is not of the form host:port`},
		{text: "redis://a:1,", err: `"" is not of the form host:port`},
		{text: "redis://a:1?wait=x", err: "wait=x is not a number"},
		{text: "redis://a:1?wait=-1", err: "wait=-1 is not a number"},
		{text: "redis://a:1?to=replica", err: "only to=master"},
		{text: "redis://a:1?pipeline=2", err: `no option "pipeline"`},
	} {
		got, err := ParseTarget(tt.text, 2)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error %v, want one with %q", tt.text, err, tt.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v; want %+v", tt.text, got, err, tt.want)
		}
	}
	if _, err := parseTargets([]string{"a=redis://h:1", "a=redis://h:2"}, 0); err == nil || !strings.Contains(err.Error(), `two targets are named "a"`) {
		t.Errorf("equal names: %v", err)
	}
}

func TestCheck(t *testing.T) {
	good := Config{Target: []string{"redis://a:1"}, Workload: []string{"set"}, Clients: []int{1}, Pipeline: 1, Time: 1e9, Rounds: 1, Keys: 1, ValueSize: 1}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"--clients 0 is not":            func(c *Config) { c.Clients = []int{5, 0} },
		"--pipeline 0 is not":           func(c *Config) { c.Pipeline = 0 },
		"--rounds 0 is not":             func(c *Config) { c.Rounds = 0 },
		"--keys 0 is not":               func(c *Config) { c.Keys = 0 },
		"--value-size 0 is not":         func(c *Config) { c.ValueSize = 0 },
		"--wait -1 is not":              func(c *Config) { c.Wait = -1 },
		"--time 0s is too short":        func(c *Config) { c.Time = 0 },
		"line is for 2 clients or more": func(c *Config) { c.Workload = []string{"line"} },
		"or more, and no pipeline":      func(c *Config) { c.Workload, c.Clients, c.Pipeline = []string{"line"}, []int{1, 2}, 2 },
		`there is no workload "nope"`:   func(c *Config) { c.Workload = []string{"set", "nope"} },
		"must name something":           func(c *Config) { c.Clients = nil },
		"is not of the form redis://":   func(c *Config) { c.Target = []string{"nowhere"} },
	} {
		c := good
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// The command line's help names every workload.
func TestHelpNamesWorkloads(t *testing.T) {
	field, _ := reflect.TypeFor[Config]().FieldByName("Workload")
	for _, w := range workloads {
		if !strings.Contains(field.Tag.Get("help"), " "+w.name) {
			t.Errorf("the help of --workload does not name %s", w.name)
		}
	}
}
