package resp

// Rule is a version of something that the replicated state follows from, and the level of the cluster since which it
// counts: see package keyspace.
type Rule struct {
	Level   int
	Name    string
	Version uint64
}

// RulesAt are the versions that count at a level, by name: of each the last one in the list whose level has come.
func RulesAt(rules []Rule, level int) map[string]uint64 {
	at := map[string]uint64{}
	for _, r := range rules {
		if r.Level <= level {
			at[r.Name] = r.Version
		}
	}
	return at
}
