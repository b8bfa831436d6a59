package history

// Clock is the operation of Nemesis, of type Info, that marks how far the wall clock of Node may be off from now on.
// Its value has three numbers: the least and the most milliseconds by which the clock is ahead of the true time, and by
// how many percent it may drift, either way. A clock is marked as off before it is, and as right, by zeros, after it
// was set right.
const Clock = "clock"
