package keyspace

import "lockd/resp"

// A new family of commands is joined here. It is done in init, not where table is declared,
// because EVAL's own row leads back to it: a script finds its commands there.
func init() {
	table = resp.NewTable(
		stringRows, compareRows, hashRows, listRows, setRows, zsetRows, zsetRangeRows, zsetOpRows,
		streamRows, streamReadRows, keyRows, blockRows, lockRows, scriptRows, pubsubRows, serverRows, memoryRows, functionRows)
}
