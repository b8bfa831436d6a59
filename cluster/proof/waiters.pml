/*
 * Waiters, claims and taking back (../DESIGN.md, "Blocking commands": "A client that is gone is not served").
 *
 * Each client waits at a node of its own for one lock. Two other nodes may lead. A node that is alive may be taken for
 * dead; a node may die, a client may hang up. What a leader decides is logged later, or never, as another one leads.
 * Steps of nodes (ask, cancel, resume, return) are repeated until they are logged, so they happen at one moment here.
 *
 * Checked: the client that is told has the lock, and nobody takes it back; nobody overtakes; every run ends with each
 * client told that is there, and with no lock left to one that was never told, but for what an earlier leader gave to a
 * node that died.
 */
#define CLIENTS 2
#ifndef TERMS
#define TERMS 2
#endif
#ifndef DEATHS
#define DEATHS 1	/* of nodes of clients */
#endif
#ifndef HANGUPS
#define HANGUPS 1
#endif
#ifndef SUSPICIONS
#define SUSPICIONS 1	/* of nodes that live */
#endif
#ifndef FAILS
#define FAILS 1		/* suspensions that are decided, and not logged though the leader goes on leading */
#endif
#define ASKS 3		/* names under which a client may ask, one after the other */
#define NOBODY 255
#define bit(i) (1 << (i))
#define ofName(i) ((i) / ASKS)

/* The machine: the state after the last entry that is committed. */
byte holder = CLIENTS, holds = NOBODY;	/* the client that holds the lock, at first another one; the name that gave it */
byte place[CLIENTS], places;		/* in line; 0: none */
byte came[CLIENTS];			/* the truth: the place at which it came */
bool suspended[CLIENTS];
byte gifts, gaveIn[CLIENTS * ASKS];	/* names whose gifts are remembered; the terms in which they were given */
byte served;				/* names whose end a message has told */

/* Nodes of clients. */
mtype = { idle, asking, waiting, claiming, told, released };
mtype state[CLIENTS] = asking;
byte name[CLIENTS];			/* under which it asks */
byte instead[CLIENTS] = NOBODY;		/* the name of a gift that a new one is to replace */
byte returns;				/* names whose gifts go back */
bool dead[CLIENTS], gone[CLIENTS];	/* its node has died; it has hung up, or its node has died */
byte deaths, hangups, suspicions, fails;

/* Leaders. */
byte term = 1;
byte raft[2], lead[2];			/* as in indoubt.pml */
byte claimsOf[2], granted[2], refused[2]; /* Claims: the term, the names */
byte question[2], confirmed[2];		/* a claim's name plus 1; the term that a round has confirmed */
byte suspect[2], takes[2];		/* an entry on its way: the client plus 1, names whose gifts it takes back */
byte verdict[CLIENTS * ASKS];		/* on its way: 1 agreed, 2 refused */

/* serve gives a free lock to the first in line. */
inline serve() {
	if
	:: holder == NOBODY ->
		j = NOBODY;
		for (i : 0 .. CLIENTS - 1) {
			if
			:: place[i] != 0 && !suspended[i] && (j == NOBODY || place[i] < place[j]) -> j = i
			:: else
			fi
		}
		if
		:: j != NOBODY ->
			assert(place[1 - j] == 0 || suspended[1 - j] || came[j] < came[1 - j]);
			holder = j; holds = name[j]; place[j] = 0;
			gifts = gifts | bit(name[j]); gaveIn[name[j]] = term; served = served | bit(name[j])
		:: else
		fi;
		i = 0; j = 0
	:: else
	fi
}

/* giveBack takes back the gift of a name, once, unless the program has touched the lock since. */
inline giveBack(id) {
	if
	:: gifts & bit(id) ->
		gifts = gifts & ~bit(id);
		if
		:: holder == ofName(id) && holds == id ->
			assert(state[holder] != told);
			holder = NOBODY; holds = NOBODY
		:: else
		fi;
		serve()
	:: else
	fi
}

inline tell(who) {
	state[who] = told;
	assert(holder == who)
}

/* begin forgets the claims of an earlier term (Claims.begin). */
inline begin(n, t) {
	if
#ifdef TERM_GOES_BACK
	:: claimsOf[n] != t ->
#else
	:: claimsOf[n] < t ->
#endif
		claimsOf[n] = t; granted[n] = 0; refused[n] = 0
	:: else
	fi
}

/* What leader n may take back of client c: what its own term gave to it after a wait, and nobody agreed to. */
#define namesOf(c) (((1 << ASKS) - 1) << ((c) * ASKS))
#ifdef TAKES_OLDER
#define ofTerm(k, t) true
#else
#define ofTerm(k, t) (gaveIn[k] == (t))
#endif
#define free1(n, k) ((gifts & bit(k)) && ofTerm(k, lead[n]) && !(claimsOf[n] == lead[n] && (granted[n] & bit(k))))
#define unclaimed(n, c) (free1(n, (c) * ASKS) * bit((c) * ASKS) | free1(n, (c) * ASKS + 1) * bit((c) * ASKS + 1) | \
	free1(n, (c) * ASKS + 2) * bit((c) * ASKS + 2))
#define maySuspend(c) (lead[n] != 0 && suspect[n] == 0 && (!suspended[c] || unclaimed(n, c)) && \
	(dead[c] || suspicions < SUSPICIONS) && state[c] != released)

inline suspend(c) {
	suspicions = suspicions + !dead[c];
	begin(n, lead[n]);
	suspect[n] = c + 1;
	takes[n] = unclaimed(n, c);
	refused[n] = refused[n] | takes[n]
}

inline logSuspension(by) {
	suspended[suspect[by] - 1] = true;
	for (k : 0 .. CLIENTS * ASKS - 1) {
		if
		:: takes[by] & bit(k) -> giveBack(k)
		:: else
		fi
	}
	k = 0; suspect[by] = 0; takes[by] = 0
}

/* The log takes the command of c. A token that holds the lock is answered at once. */
inline ask() {
	if
	:: holder == c ->
		if
		:: instead[c] != NOBODY && (gifts & bit(instead[c])) ->
			gifts = gifts & ~bit(instead[c]) | bit(name[c]); gaveIn[name[c]] = 0
		:: else
		fi;
		holds = name[c];
		tell(c)
	:: else -> places++; place[c] = places; came[c] = places; state[c] = waiting; serve()
	fi
}

/* The leader's answer to a claim. */
inline hearVerdict() {
	k = name[c];
	if
	:: verdict[name[c]] == 1 && !gone[c] -> tell(c)
	:: verdict[name[c]] == 1 && gone[c] -> returns = returns | bit(name[c]); state[c] = released
	:: verdict[name[c]] == 2 && gone[c] -> returns = returns | bit(name[c]); state[c] = released
	:: verdict[name[c]] == 2 && !gone[c] ->
#ifdef REFUSED_IS_RETURNED
		gifts = gifts & ~bit(name[c]);	/* it settles what it takes for returned */
#else
		instead[c] = name[c];
#endif
		name[c]++;
		state[c] = asking
	fi;
	verdict[k] = 0; k = 0
}

/* c is not told: what it was given under an earlier name goes back. */
inline giveUp() {
	if
	:: instead[c] != NOBODY -> returns = returns | bit(instead[c])
	:: else
	fi
}

#define unasked (verdict[name[c]] == 0 && question[0] != name[c] + 1 && question[1] != name[c] + 1)
#define mine namesOf(c)

inline giveBackMine() {
	for (k : c * ASKS .. c * ASKS + ASKS - 1) {
		if
		:: returns & bit(k) -> giveBack(k)
		:: else
		fi
	}
	returns = returns & ~mine;
	k = 0
}

proctype leader(byte n)
{
	byte k, i, j;
end:	do
	:: atomic { term < TERMS ->
		if
		:: suspect[n] != 0 && raft[n] == term -> logSuspension(n)	/* it is in the log of the new leader */
		:: suspect[1 - n] != 0 && raft[1 - n] == term -> logSuspension(1 - n)
		:: true
		fi;
		term++;
		raft[n] = term; lead[n] = 0; suspect[n] = 0; takes[n] = 0 }
	:: d_step { raft[n] != 0 && raft[n] < term -> raft[n] = 0; lead[n] = 0; suspect[n] = 0; takes[n] = 0 }
	:: d_step { raft[n] != lead[n] -> lead[n] = raft[n] }
	/* A claim: a round of questions, then the verdict. */
	:: d_step { question[n] != 0 && confirmed[n] == 0 &&
#ifdef UNCONFIRMED
		lead[n] != 0 ->
#else
		lead[n] == term ->
#endif
		confirmed[n] = lead[n] }
	:: d_step { question[n] != 0 && confirmed[n] == 0 && lead[n] != term ->
		question[n] = 0; raft[n] = (raft[n] == term -> term : 0); lead[n] = 0 }
	:: d_step { confirmed[n] != 0 ->
		begin(n, confirmed[n]);
		k = question[n] - 1;
		if
#ifndef TERM_GOES_BACK
		:: claimsOf[n] > confirmed[n]	/* not answered: the node asks again */
#endif
#ifdef FORGETS_REFUSALS
		:: claimsOf[n] == confirmed[n] && !(gifts & bit(k)) -> verdict[k] = 2
		:: claimsOf[n] == confirmed[n] && (gifts & bit(k)) -> verdict[k] = 1; granted[n] = granted[n] | bit(k)
#else
		:: claimsOf[n] == confirmed[n] && ((refused[n] & bit(k)) || !(gifts & bit(k))) -> verdict[k] = 2
		:: claimsOf[n] == confirmed[n] && !(refused[n] & bit(k)) && (gifts & bit(k)) ->
			verdict[k] = 1; granted[n] = granted[n] | bit(k)
#endif
		fi;
		question[n] = 0; confirmed[n] = 0; k = 0 }
	/* The suspender: it decides, then has it logged. */
	:: d_step { maySuspend(0) -> suspend(0) }
	:: d_step { maySuspend(1) -> suspend(1) }
	:: d_step { suspect[n] != 0 && raft[n] == term -> logSuspension(n) }
	:: d_step { suspect[n] != 0 && fails < FAILS -> fails++; suspect[n] = 0; takes[n] = 0 }	/* it is not logged */
	od
}

/* The node of a client, and the client. */
proctype client(byte c)
{
	byte k, i, j;
end:	do
	/* The log takes its command, under a name. */
	:: d_step { state[c] == asking && !gone[c] -> ask() }
	:: d_step { state[c] == waiting && served & bit(name[c]) && !dead[c] -> state[c] = claiming }
#ifdef NO_CLAIM
	:: d_step { state[c] == claiming && !gone[c] -> tell(c) }
#else
	:: d_step { state[c] == claiming && !dead[c] && unasked && lead[0] != 0 && question[0] == 0 ->
		question[0] = name[c] + 1 }
	:: d_step { state[c] == claiming && !dead[c] && unasked && lead[1] != 0 && question[1] == 0 ->
		question[1] = name[c] + 1 }
	:: d_step { state[c] == claiming && !dead[c] && verdict[name[c]] != 0 -> hearVerdict() }
#endif
	:: d_step { state[c] == told -> state[c] = released; holder = NOBODY; holds = NOBODY; serve() }
	/* It hangs up, or its node dies. */
	:: d_step { hangups < HANGUPS && !gone[c] && state[c] != told && state[c] != released -> hangups++; gone[c] = true;
		if
		:: state[c] == asking -> giveUp(); state[c] = released
		:: else
		fi }
	:: d_step { deaths < DEATHS && !dead[c] && state[c] != told && state[c] != released ->
		deaths++; gone[c] = true; dead[c] = true }
	/* Its node cancels, gives back, resumes. */
	:: d_step { gone[c] && !dead[c] && state[c] == waiting && place[c] != 0 ->
		giveUp(); place[c] = 0; state[c] = released }
	:: d_step { !dead[c] && suspended[c] -> suspended[c] = false;
#ifdef BACK_AT_THE_END
		if
		:: place[c] != 0 -> places++; place[c] = places
		:: else
		fi;
#endif
		serve() }
	:: d_step { !dead[c] && returns & mine -> giveBackMine() }
	od
}

/* The client of a node that died may have been told: an earlier leader gave it the lock, or this one has agreed. */
#define haunted (holder < CLIENTS && dead[holder] && (gaveIn[holds] < term || verdict[holds] == 1))

proctype end_of_run()
{
	timeout ->
	assert(haunted || holder == NOBODY && (gone[0] || state[0] == released) && (gone[1] || state[1] == released))
}

init {
	atomic {
		raft[0] = 1; name[1] = ASKS;
		run leader(0); run leader(1); run client(0); run client(1); run outsider(); run end_of_run()
	}
}

/* The first holder releases the lock. */
proctype outsider()
{
	byte i, j;
	d_step { holder = NOBODY; serve() }
}
