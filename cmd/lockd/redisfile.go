package main

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"lockd/cmd/lockd/redisconf"
)

// redisFile is the part of reading redis.conf in which lines belong together.
type redisFile struct {
	*configFile
	flags  map[string]*kong.Flag
	lines  map[string]redisconf.Line // port, tls-port and bind, the last of each
	warned map[string]bool           // of this name
}

// readRedis converts lines of redis.conf: settings that lockd has become values of its flags, settings that only
// Redis has become warnings. Flags of lockd may stand among them, as in "cluster n1=10.0.0.1:16379
// n2=10.0.0.2:16379". As in Redis, the last line of a name counts.
func (f *configFile) readRedis(path, text string, flags map[string]*kong.Flag) {
	r := &redisFile{f, flags, map[string]redisconf.Line{}, map[string]bool{}}
	lines, problems := redisconf.Read(path, text)
	for _, line := range lines {
		if err := r.take(line); err != nil {
			problems = append(problems, err)
		}
	}
	if err := r.listen(); err != nil {
		problems = append(problems, err)
	}
	for _, problem := range problems {
		f.fail("%w", problem)
	}
}

// renamed are the settings of Redis that lockd has by another name, with what their values are called there.
var renamed = map[string]struct {
	flag   string
	values map[string]string
}{
	"loglevel": {"log-level", map[string]string{
		"debug": "debug", "verbose": "info", "notice": "info", "warning": "warn", "nothing": "error",
	}},
	"cluster-enabled": {"cluster-protocol", map[string]string{"yes": "true", "no": "false"}},
}

// take takes one line. No error has a value in it, which may be a password.
func (r *redisFile) take(line redisconf.Line) error {
	switch line.Name {
	case "port", "tls-port", "bind":
		r.lines[line.Name] = line
		return nil
	}
	if meaning, ok := redisconf.MeaningOf(line.Name); ok {
		return r.leave(line, meaning)
	}
	name, values := line.Name, map[string]string(nil)
	if other, ok := renamed[name]; ok {
		name, values = other.flag, other.values
	}
	flag := r.flags[name]
	switch {
	case flag == nil:
		known := slices.Concat(names(r.flags), redisconf.Names(), names(renamed), []string{"port", "bind", "tls-port",
			"include"})
		return line.Errorf("unknown setting %q, did you mean %q?", line.Name, nearest(line.Name, known))
	case len(line.Args) > 0 && line.Args[0] == "=":
		return line.Errorf("the file has the syntax of redis.conf, without equals signs: %s VALUE", line.Name)
	case len(line.Args) != 1 && !flag.IsSlice():
		return line.Errorf("%s: wrong number of arguments", line.Name)
	case flag.IsBool():
		values = map[string]string{"yes": "true", "no": "false"}
	}
	text := strings.Join(line.Args, ",")
	if values != nil {
		value, ok := values[strings.ToLower(text)]
		if !ok {
			return line.Errorf("%s: argument must be one of %s", line.Name, strings.Join(names(values), ", "))
		}
		text = value
	}
	r.values[name] = setting{text, line.At}
	return nil
}

// leave is for a line that is Redis's alone: an error where a node may not go without it, a warning otherwise.
func (r *redisFile) leave(line redisconf.Line, meaning redisconf.Meaning) error {
	switch {
	case meaning.AsksNothing(line.Args):
	case meaning.Refused:
		return line.Errorf("%s cannot be had from a file: %s", line.Name, meaning.Instead)
	case !r.warned[line.Name]:
		r.warned[line.Name] = true
		r.warnings = append(r.warnings, line.At+": "+line.Name+" has no effect: "+meaning.Instead)
	}
	return nil
}

// listen derives addresses from port, tls-port and bind. The defaults are those of lockd: loopback and port 6379.
func (r *redisFile) listen() error {
	bind, bound := r.lines["bind"]
	hosts := []string{"127.0.0.1"}
	if bound {
		if hosts = hostsOf(bind.Args); len(hosts) == 0 {
			return bind.Errorf("bind names no address that this machine has")
		}
	}
	if _, there := r.lines["port"]; !there && bound {
		r.lines["port"] = redisconf.Line{Name: "port", Args: []string{"6379"}, At: bind.At}
	}
	for _, name := range []string{"port", "tls-port"} {
		flag := map[string]string{"port": "listen", "tls-port": "tls-listen"}[name]
		line, there := r.lines[name]
		if !there {
			continue
		}
		if other, twice := r.values[flag]; twice {
			return line.Errorf("%s and bind say the same as %s, which is there too (%s)", name, flag, other.at)
		}
		if len(line.Args) != 1 {
			return line.Errorf("%s: wrong number of arguments", name)
		}
		port, err := strconv.Atoi(line.Args[0])
		if err != nil || port < 0 || port > 65535 {
			return line.Errorf("%s: argument must be between 0 and 65535 inclusive", name)
		}
		var addrs []string
		for _, host := range hosts {
			if port > 0 {
				addrs = append(addrs, net.JoinHostPort(host, line.Args[0]))
			}
		}
		r.values[flag] = setting{strings.Join(addrs, ","), line.At}
		if !bound && port > 0 && !r.warned["bind"] {
			r.warned["bind"] = true
			r.warnings = append(r.warnings, line.At+": without a line bind lockd listens on 127.0.0.1 only, not on all "+
				"addresses as Redis: write bind")
		}
	}
	return nil
}

// hostsOf returns the addresses of bind: * and ::* stand for every address of their family, and an address behind a
// minus is left out if this machine does not have it.
func hostsOf(args []string) (hosts []string) {
	for _, host := range args {
		host, optional := strings.CutPrefix(host, "-")
		switch host {
		case "":
			continue
		case "*":
			host = "0.0.0.0"
		case "::*":
			host = "::"
		}
		if !optional || isOurs(host) {
			hosts = append(hosts, host)
		}
	}
	if slices.Contains(hosts, "0.0.0.0") && slices.Contains(hosts, "::") {
		return []string{""} // one socket for both
	}
	return hosts
}

// isOurs reports whether this machine can listen at an address.
func isOurs(host string) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return false
	}
	l.Close()
	return true
}
