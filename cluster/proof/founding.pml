/*
 * Founding without a list, and with one (../DESIGN.md, "Founding").
 *
 * EXPECT data folders found a cluster. What a node hears of another one may be as old as can be: for each other folder
 * it sees nothing, or what that folder has said at some moment. A folder that is stopped, or lost, says nothing new.
 * With LIST the founders are named: a folder that is emptied comes back under its name as another one.
 *
 * Checked: no two clusters are founded; with LIST, none beside a folder that has data of another one. Once all nodes
 * run, and hear all news, all of them come into one cluster.
 */
#ifndef FOLDERS
#define FOLDERS 3
#endif
#ifndef EXPECT
#define EXPECT 2
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif
#ifndef DARK
#define DARK ROUNDS	/* the last round that is promised by nodes that do not hear all news */
#endif
#define NOTHING 255

/* What a folder has said: its list in each round, as a set; the round of its promise; the cluster of its data. */
byte lists[FOLDERS * (ROUNDS + 1)];
byte round[FOLDERS];
byte cluster[FOLDERS];		/* 0: none */
bool deleted[FOLDERS];
bool well;			/* all nodes run, and hear all news */
byte first;			/* the first cluster that was founded */
#define list(f, r) lists[(f) * (ROUNDS + 1) + (r)]
#define has(set, f) (((set) >> (f)) & 1)
#define idOf(r, set) (((r) << FOLDERS) + (set))

#ifdef LIST
#define name(f) ((f) % EXPECT)
#define exists(f) ((f) < EXPECT || deleted[(f) - EXPECT])
#else
#define name(f) (f)
#define exists(f) true
#endif

/* founds is called with the id of a cluster. */
inline founds(id) {
#ifdef LIST
	for (g : 0 .. FOLDERS - 1) {
		assert(cluster[g] == 0 || deleted[g] || cluster[g] == id)
	}
#else
	assert(first == 0 || first == id);
	first = id;
#endif
	cluster[me] = id
}

/* look fills in what this node hears: seen is a round, NOTHING for folders that it does not hear of. */
inline look() {
	for (g : 0 .. FOLDERS - 1) {
		if
		:: g == me || well && !deleted[g] && exists(g) -> seen[g] = round[g]; in[g] = cluster[g]
		:: else ->
			seen[g] = NOTHING;
			if
			:: !well
			:: !well && exists(g) -> seen[g] = round[g]; in[g] = cluster[g]	/* what it says now */
			:: !well && exists(g) ->	/* what it has said in some round */
				seen[g] = ROUNDS;
				do
				:: seen[g] > 0 -> seen[g]--
				:: seen[g] == 0 || list(g, seen[g]) != 0 -> break
				od
			:: well
			fi
		fi
	}
}

/* judge sets state to that of this node's promise (stateOf). */
#define VOID 0
#define OPEN 1
#define KEPT 2
inline judge() {
	state = VOID;
	if
	:: round[me] != 0 ->
		r = round[me]; set = list(me, r);
		state = KEPT; count = 0;
		for (g : 0 .. FOLDERS - 1) {
			if
			:: !has(set, g)
			:: has(set, g) && seen[g] != NOTHING && seen[g] >= r && list(g, r) == set && seen[g] == r -> count++
			:: else ->
				if
				:: seen[g] != NOTHING && (in[g] != 0 || seen[g] >= r) -> state = VOID
				:: else -> state = (state == VOID -> VOID : OPEN)
				fi
			fi
		}
#ifdef MAJORITY_FOUNDS
		if
		:: 2 * count > EXPECT -> state = KEPT
		:: else
		fi;
#endif
#ifdef LEAVES_OPEN
		state = (state == OPEN -> VOID : state);
#endif
#ifdef ONE_PROMISE
		state = (state == VOID -> OPEN : state);
#endif
		for (g : 0 .. FOLDERS - 1) {
			state = (seen[g] != NOTHING && in[g] == idOf(r, set) -> KEPT : state)
		}
	:: else
	fi
}

/* promise makes the next promise of a node that is bound by none (nextPromise). */
inline promise() {
	r = 0; set = 0; count = 0; names = 0; state = 0;
	for (g : 0 .. FOLDERS - 1) {
		if
		:: seen[g] != NOTHING ->
			state = (has(names, name(g)) -> 1 : state);	/* two nodes of one name: it waits */
			names = names | (1 << name(g));
			r = (seen[g] > r -> seen[g] : r);
			if
			:: count < EXPECT -> count++; set = set | (1 << g)
			:: else
			fi
		:: else
		fi
	}
	names = 0;
	for (g : 0 .. FOLDERS - 1) {
		names = (seen[g] != NOTHING && r > 0 && seen[g] == r && list(g, r) == set -> 1 : names)
	}
	if
	:: count == EXPECT && state == 0 ->
		r = (names == 1 && r > round[me] -> r : r + 1);
		if
		:: r <= ROUNDS && (well || r <= DARK) -> round[me] = r; list(me, r) = set
		:: else
		fi
	:: else
	fi
}

proctype node(byte me)
{
	byte seen[FOLDERS], in[FOLDERS];
	byte g, r, set, count, state, names, joins;
end:	do
	:: atomic { cluster[me] == 0 && exists(me) && !deleted[me] ->
		look();
		d_step {
			judge();
			joins = 0;
			for (g : 0 .. FOLDERS - 1) {
				joins = (seen[g] != NOTHING && in[g] != 0 -> (joins != 0 && joins != in[g] -> NOTHING : in[g]) : joins)
			}
			if
			:: state == KEPT && has(list(me, round[me]), me) -> founds(idOf(round[me], list(me, round[me])))
			:: state == OPEN
			:: state != OPEN && !(state == KEPT && has(list(me, round[me]), me)) ->
				if
#ifdef LIST
				:: joins != 0	/* it waits: the members tell it what to do */
#else
				:: joins == NOTHING	/* two clusters: it waits */
				:: joins != 0 && joins != NOTHING -> cluster[me] = joins
#endif
				:: joins == 0 && state == KEPT
				:: joins == 0 && state == VOID -> promise()
				fi
			fi;
			for (g : 0 .. FOLDERS - 1) { seen[g] = 0; in[g] = 0 }
			g = 0; r = 0; set = 0; count = 0; state = 0; names = 0; joins = 0
		} }
#ifdef FORGETS
	:: d_step { round[me] != 0 && cluster[me] == 0 && !well -> round[me] = 0 }
#endif
#ifdef LIST
	:: d_step { !deleted[me] && exists(me) && me + EXPECT < FOLDERS && !well -> deleted[me] = true }
#endif
	od
}

proctype recovery()
{
	d_step { !well -> well = true }
}

init {
	byte i;
	atomic {
		for (i : 0 .. FOLDERS - 1) { run node(i) }
		run recovery();
		i = 0
	}
}

#define together(f) (cluster[f] != 0 && cluster[f] == cluster[0])
ltl founded { <> (together(1) && together(FOLDERS - 1)) }
