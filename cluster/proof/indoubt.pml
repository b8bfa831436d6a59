/*
 * The request in doubt, and its recall (../DESIGN.md, "The in-doubt request").
 *
 * Node 0 has the clients; it and node 1 may lead. A write of a client is tried by attempts, each with a number of its
 * own and bound to one term. Frames are late, overtake each other, or are lost. Leaders change at any moment, and what
 * they have logged and not committed survives or is lost.
 *
 * Checked: a write is executed at most once; "done" and "not done" are true when they are told and remain true; every
 * run ends with no client in doubt, and without snapshots nobody hears "unknown".
 */
#ifndef TERMS
#define TERMS 3		/* terms, from 1 on */
#endif
#ifndef WRITES
#define WRITES 1	/* clients, each with one write */
#endif
#ifndef NUMBERS
#define NUMBERS 2	/* attempts of all clients */
#endif
#ifndef LOSSES
#define LOSSES 1	/* lost frames with a recall */
#endif
#ifndef FLAPS
#define FLAPS 1		/* how often a node hears twice that it leads in one term */
#endif
#define WINDOW 4	/* entries of the log that node 0 has not applied */

#define TICK 1		/* what an entry holds */
#define WRITE(k) (2 + (k))
#define RECALL(k) (2 + NUMBERS + (k))
#define isWrite(what) ((what) >= 2 && (what) < 2 + NUMBERS)
#define isRecall(what) ((what) >= 2 + NUMBERS)
#define numberOf(what) (((what) + 2 * NUMBERS - 2) % NUMBERS)

/* Raft: one leader a term, and its log has all that is committed. The log begins behind what node 0 has applied. */
typedef Entry { byte what; byte term; byte stamp };
Entry log[WINDOW];
byte length, committed, term = 1;
byte raft[2];		/* the term in which a node's Raft leads, or believes to; 0: none */
#define isVoid(e) (e.term != e.stamp)

/* The proposer of each leader. */
byte lead[2];		/* the term in which it stamps entries; 0: none */
byte opened[2];		/* the last term for which it has made the first entry */
byte made[2], stamp[2];	/* an entry that is stamped, and that Raft is yet to be handed */
byte floors[2], floorsOf[2]; /* numbers below floors are refused in the term floorsOf */
byte flaps, losses;

/* An attempt: where it is, the term and the leader that it is meant for, its client, and the recall of it. */
mtype = { idle, socket, queued, over };
mtype at[NUMBERS] = idle, recall[NUMBERS] = idle;
byte bound[NUMBERS], to[NUMBERS], recallTo[NUMBERS], client[NUMBERS], answer[NUMBERS];
#define DONE 1
#define NOTDONE 2

/* Node 0 (request.Attempts). */
mtype = { open, alone, settled };
mtype state[NUMBERS] = settled;
bool missed[NUMBERS];	/* a snapshot may have taken the place of its entry */
byte last, newest;	/* the last number given; the term of the newest entry applied */
mtype = { begins, asks, done, unknown };
mtype told[WRITES] = begins;
#define waits(k) (state[k] != settled)

/* The truth. */
byte executed[NUMBERS], times[WRITES];
bool deniedOf[NUMBERS];	/* "not done" was told */

inline tell(k, what) {
	state[k] = settled;
	told[client[k]] = (what == NOTDONE -> begins : done);
	deniedOf[k] = (what == NOTDONE);
	assert(executed[k] == (what == DONE -> 1 : 0))
}

/* An attempt is not in the log, and can no longer get in. */
inline absent(k) {
	if
#ifndef SNAPSHOT_IS_ABSENCE
	:: missed[k] -> state[k] = settled; told[client[k]] = unknown
#endif
	:: else -> tell(k, NOTDONE)
	fi
}

inline absentIf(k, condition) {
	if
	:: waits(k) && (condition) -> absent(k)
	:: else
	fi
}

inline commit() {
	i = numberOf(log[committed].what);
	if
	:: !isWrite(log[committed].what)
#ifndef VOID_RUNS
	:: isWrite(log[committed].what) && isVoid(log[committed]) -> answer[i] = NOTDONE
#endif
	:: else ->
		executed[i]++;
		times[client[i]]++;
		assert(executed[i] == 1 && times[client[i]] == 1 && !deniedOf[i]);
		answer[i] = DONE
	fi;
	committed++;
	i = 0
}

/* Node 0 applies the first entry (Attempts.Applied). */
inline apply() {
	i = numberOf(log[0].what);
	if
	:: isWrite(log[0].what) && waits(i) ->
		if
#ifndef VOID_RUNS
		:: isVoid(log[0]) -> tell(i, NOTDONE)
#endif
		:: else -> tell(i, DONE)
		fi
#ifdef VOID_RECALLS
	:: isRecall(log[0].what) ->
#else
	:: isRecall(log[0].what) && !isVoid(log[0]) ->
#endif
		for (j : 0 .. i) {
#ifdef RECALLS_OTHER_TERMS
			absentIf(j, true)
#else
			absentIf(j, bound[j] == log[0].term)
#endif
		}
	:: else
	fi;
	newest = (log[0].term > newest -> log[0].term : newest);
	for (j : 0 .. NUMBERS - 1) {
		absentIf(j, bound[j] < newest)
	}
	shift();
	i = 0; j = 0
}

inline shift() {
	for (j : 0 .. WINDOW - 2) {
		log[j].what = log[j + 1].what; log[j].term = log[j + 1].term; log[j].stamp = log[j + 1].stamp
	}
	log[WINDOW - 1].what = 0; log[WINDOW - 1].term = 0; log[WINDOW - 1].stamp = 0;
	committed--;
	length--
}

proctype node0()
{
	byte i, j;
end:	do
	:: d_step { committed < length -> commit() }
	:: d_step { committed > 0 -> apply() }
#ifdef SNAPSHOTS
	:: d_step { committed > 0 ->	/* an image takes the place of the entries */
		do
		:: committed > 0 -> shift()
		:: else -> break
		od;
		for (j : 0 .. NUMBERS - 1) {
			missed[j] = missed[j] || waits(j);
#ifndef SNAPSHOT_IS_ABSENCE
			absentIf(j, state[j] == alone)
#endif
		}
		j = 0 }
#endif
	od
}

/* A node that may lead. */
proctype leader(byte n)
{
end:	do
	:: atomic { term < TERMS ->	/* it is elected */
		term++;
		raft[n] = term;
		lead[n] = 0;
		do
		:: length > committed ->
			length--; log[length].what = 0; log[length].term = 0; log[length].stamp = 0
		:: break
		od }
	:: d_step { raft[n] != 0 && raft[n] < term -> raft[n] = 0; lead[n] = 0 }
	:: d_step { lead[n] != raft[n] -> lead[n] = raft[n] }
	:: d_step { lead[n] != 0 && flaps < FLAPS -> flaps++; lead[n] = 0;
#ifdef FORGETS_WITHIN_A_TERM
		floorsOf[n] = 0
#endif
		}
	:: d_step { lead[n] != 0 && made[n] == 0 && opened[n] < lead[n] ->
		made[n] = TICK; stamp[n] = lead[n]; opened[n] = lead[n] }
	:: d_step { made[n] != 0 && (raft[n] != term || length < WINDOW) ->
		if
		:: raft[n] == 0 && isWrite(made[n]) -> answer[numberOf(made[n])] = NOTDONE
		:: raft[n] == term ->
			log[length].what = made[n]; log[length].term = term; log[length].stamp = stamp[n];
			length++
		:: else	/* it goes into the log of a node that is deposed, and no further */
		fi;
		made[n] = 0; stamp[n] = 0 }
	od
}

inline takes(n, what) {
	if
	:: floorsOf[n] != lead[n] -> floorsOf[n] = lead[n]; floors[n] = 0
	:: else
	fi;
	made[n] = what; stamp[n] = lead[n]
}
#define idles(n) (lead[n] != 0 && made[n] == 0)

/* The way of an attempt. */
proctype attempt(byte k)
{
end:	do
	:: d_step { at[k] == socket && lead[to[k]] != 0 -> at[k] = queued }
	:: d_step { at[k] == socket -> at[k] = over }	/* lost */
	:: d_step { at[k] == queued && lead[to[k]] == 0 -> at[k] = over; answer[k] = NOTDONE }
	:: d_step { at[k] == queued && idles(to[k]) ->	/* the proposer looks at it */
		at[k] = over;
		if
#ifndef UNBOUND
		:: bound[k] != lead[to[k]] -> answer[k] = NOTDONE
#endif
#ifndef FORGOTTEN_RECALL
		:: k < floors[to[k]] && floorsOf[to[k]] == lead[to[k]] -> answer[k] = NOTDONE
#endif
		:: else -> takes(to[k], WRITE(k))
		fi }
	:: d_step { answer[k] != 0 && waits(k) -> tell(k, answer[k]); answer[k] = 0 }
	:: d_step { answer[k] != 0 -> answer[k] = 0 }	/* lost */
	:: d_step { state[k] == open ->	/* the connection breaks, or nothing is heard for too long */
#ifdef EARLY_NOT_DONE
		tell(k, NOTDONE)
#else
		state[k] = alone;
		absentIf(k, missed[k])
#endif
		}
	:: atomic { state[k] == alone && bound[k] == term && recall[k] == idle ->
		recall[k] = socket;
		if
		:: raft[0] == bound[k] -> recallTo[k] = 0
		:: raft[1] == bound[k] -> recallTo[k] = 1
		fi }
	:: d_step { recall[k] == socket && lead[recallTo[k]] != 0 -> recall[k] = queued;
#ifdef RECALL_NEEDS_NO_LOG
		absentIf(k, lead[recallTo[k]] == bound[k])
#endif
		}
	:: d_step { recall[k] == socket && losses < LOSSES -> losses++; recall[k] = idle }
	:: d_step { recall[k] == queued && (lead[recallTo[k]] == 0 || lead[recallTo[k]] != bound[k]) -> recall[k] = idle }
	:: d_step { recall[k] == queued && idles(recallTo[k]) && lead[recallTo[k]] == bound[k] ->
		recall[k] = over;
		takes(recallTo[k], RECALL(k));
		floors[recallTo[k]] = (floors[recallTo[k]] > k + 1 -> floors[recallTo[k]] : k + 1) }
	:: d_step { recall[k] == over && losses < LOSSES -> losses++; recall[k] = idle }	/* it is asked for again */
	od
}

/* A client of node 0. */
proctype user(byte w)
{
	byte k;
end:	do
	:: atomic { told[w] == begins && last < NUMBERS ->
		k = last;
		last++;
		client[k] = w; told[w] = asks; state[k] = open; at[k] = socket;
		if
		:: to[k] = 0
		:: to[k] = 1
		fi;
		bound[k] = (newest > 0 -> newest : 1);
		do
		:: bound[k] < term -> bound[k]++	/* this node may not know of the newest term */
		:: break
		od;
		k = 0 }
	od
}

/* At the end of a run, when nothing more can happen, no client waits. */
proctype end_of_run()
{
	byte w;
	timeout ->
	for (w : 0 .. WRITES - 1) {
		assert(told[w] != asks);
#ifndef SNAPSHOTS
		assert(told[w] != unknown)
#endif
	}
}

init {
	byte i;
	atomic {
		raft[0] = 1;
		run node0(); run leader(0); run leader(1); run end_of_run();
		for (i : 0 .. NUMBERS - 1) { run attempt(i) }
		for (i : 0 .. WRITES - 1) { run user(i) }
		i = 0
	}
}
