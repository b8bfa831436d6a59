package resp

// Inquiry is a question of a server to the servers of other nodes, about their clients.
type Inquiry struct {
	Args   Args  // the question, by which the other servers know what to answer
	Client int64 // id of the client that it is about, whose node alone is asked; 0: every other node is
	Brief  bool  // a node that did not answer the last time is not waited for
}
