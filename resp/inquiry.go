package resp

// Inquiry is a question from a server to the servers of other nodes, about their clients.
type Inquiry struct {
	Args   Args  // the question, as a command of the servers' own
	Client int64 // id of the client that it is about: only that client's node is asked; 0: every other node is
	Brief  bool  // do not wait for a node that did not answer the last time
}
