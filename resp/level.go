package resp

// Rule is a version of one of the rules that the replicated state follows from, and the level of the cluster from
// which it applies: see package keyspace.
type Rule struct {
	Level   int
	Name    string
	Version uint64
}

// RulesAt returns the versions in force at a level, by name: the last in the list whose level is not higher.
func RulesAt(rules []Rule, level int) map[string]uint64 {
	at := map[string]uint64{}
	for _, r := range rules {
		if r.Level <= level {
			at[r.Name] = r.Version
		}
	}
	return at
}
