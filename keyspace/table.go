package keyspace

import "lockd/resp"

// command runs one command. The arguments satisfy the arity of its row; they may
// alias a log entry, so what is kept of them is cloned (ctx's writers do).
type command func(c *ctx, args resp.Args) resp.Reply

// table holds the rows of all families. init makes it, not its declaration,
// because EVAL's own row leads back to it: a script finds its commands there.
var table *resp.Table[command]

func init() {
	table = resp.NewTable(stringRows, compareRows, hashRows, listRows, setRows, zsetRows, zsetRangeRows, zsetOpRows, streamRows, streamReadRows,
		keyRows, blockRows, scriptRows, pubsubRows, serverRows, memoryRows, functionRows)
}
