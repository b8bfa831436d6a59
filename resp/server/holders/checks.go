package holders

// checkQueue is a heap of locks by the time of their checks.
type checkQueue []*held

// Len implements heap.Interface.
func (q checkQueue) Len() int { return len(q) }

// Less implements heap.Interface.
func (q checkQueue) Less(i, j int) bool { return q[i].check.Before(q[j].check) }

// Swap implements heap.Interface.
func (q checkQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *checkQueue) Push(x any) {
	l := x.(*held)
	l.index = len(*q)
	*q = append(*q, l)
}

// Pop implements heap.Interface.
func (q *checkQueue) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	return l
}
