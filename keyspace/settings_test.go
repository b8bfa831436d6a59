package keyspace

import (
	"reflect"
	"testing"

	"lockd/keyspace/settings"
	"lockd/keyspace/value"
	"lockd/resp"
)

// CONFIG SET takes all of its parameters or none, and tells every node of those
// that have changed.
func TestConfigSetIsAtomic(t *testing.T) {
	m := New(nil)
	r, msgs := apply(m, at(1), "CONFIG SET timeout 5 maxmemory 1gb slowlog-max-len 128")
	want := []resp.Message{
		{Kind: resp.MessageConfig, Channel: "maxmemory", Payload: "1073741824"},
		{Kind: resp.MessageConfig, Channel: "timeout", Payload: "5"},
	}
	if plain(r) != "OK" || !reflect.DeepEqual(msgs, want) {
		t.Errorf("%s %v", plain(r), msgs)
	}
	r, msgs = apply(m, at(1), "CONFIG SET timeout 6 maxmemory lots")
	if !r.IsErr() || len(msgs) != 0 || do(m, 1, "CONFIG GET timeout") != "timeout 5" {
		t.Errorf("%s %v", plain(r), msgs)
	}
}

// Settings reports every parameter, with its value of now.
func TestSettingsReportsAll(t *testing.T) {
	m := New(nil)
	do(m, 1, "CONFIG SET maxclients 7 notify-keyspace-events AKE")
	all := map[string]string{}
	list := m.Settings()
	if users := list[len(list)-1]; users.Kind != resp.MessageUsers || users.Payload != m.state.Users.Text() {
		t.Errorf("%+v", users)
	}
	for _, msg := range list[:len(list)-1] {
		if msg.Kind != resp.MessageConfig {
			t.Fatalf("%+v", msg)
		}
		all[msg.Channel] = msg.Payload
	}
	if all["maxclients"] != "7" || all["notify-keyspace-events"] != "AKE" || len(all) != len(settings.Parameters) {
		t.Errorf("%v", all)
	}
}

// The machine's own parameters take effect at once.
func TestSettingsTakeEffect(t *testing.T) {
	m := New(nil)
	play(t, m, []turn{
		{1, "HSET h a 1 b 2", "2"},
		{1, "OBJECT ENCODING h", "listpack"},
		{1, "CONFIG SET hash-max-ziplist-entries 2", "OK"},
		{1, "OBJECT ENCODING h", "listpack"},
		{1, "HSET h c 3", "1"},
		{1, "OBJECT ENCODING h", "hashtable"},
		{1, "HDEL h c b", "2"},
		{1, "OBJECT ENCODING h", "hashtable"},
		{1, "CONFIG SET hash-max-listpack-value 3", "OK"},
		{1, "HSET g f long", "1"},
		{1, "OBJECT ENCODING g", "hashtable"},
		{1, "CONFIG SET lockd-script-steps 5000 lockd-script-memory 2mb", "OK"},
	})
	if want := (resp.ScriptLimits{Steps: 5000, MemBytes: 2 << 20}); m.state.Settings.Script != want {
		t.Errorf("%+v", m.state.Settings.Script)
	}
}

// A setting cannot make a hash be searched field by field without end.
func TestSmallHashIsBounded(t *testing.T) {
	m := New(nil)
	do(m, 1, "CONFIG SET hash-max-listpack-entries 9000000000")
	for i := range value.SmallMax + 1 {
		do(m, 1, "HSET h f"+decimal(int64(i))+" v")
	}
	if got := do(m, 1, "OBJECT ENCODING h"); got != "hashtable" {
		t.Error(got)
	}
}
