/*
 * The log clock (../DESIGN.md, "The log clock").
 *
 * Nodes apply the log at any speed, lead, are paused, end and start again, and are brought up to date by snapshots. now
 * is the true time, which all monotonic clocks measure. An entry is stamped at one moment, handed to Raft at a later
 * one, committed at a later one still, or lost.
 *
 * Checked, for any two entries stamped at the true times s and r: the second tick is at most r - s after the first. So
 * no lease ends early. No node takes the clock to be later than it can be. A lease that a client was told to be over is
 * never held again. While there is a leader, a lease that is over ends in the log. Time without a leader does not
 * count.
 */
#define NODES 2
#ifndef TERMS
#define TERMS 3
#endif
#ifndef END
#define END 4		/* the true time at which a run ends */
#endif
#ifndef STARTS
#define STARTS 1	/* how often a process ends and starts again */
#endif
#ifndef ENTRIES
#define ENTRIES 3	/* that not both nodes have applied */
#endif
#define LEASE 1

/* The log of the newest leader. madeAt and led are the truth: when it was stamped, and ledTime then. */
typedef Entry { byte term, stamp, tick; bool asks; byte madeAt, led };
Entry log[ENTRIES];
byte length, committed, term;
byte now, ledTime;		/* ledTime: for how long the newest leader was there */

/* What a machine has that has applied the first i entries. end 0: nobody holds the lock. */
byte ticks[ENTRIES + 1], ends[ENTRIES + 1], madeAts[ENTRIES + 1], leds[ENTRIES + 1];
bool asked, granted, saidOver;	/* the client has asked for the lock; has had it; was told that its lease is over */
byte starts;

typedef Node {
	byte applied;			/* entries */
	byte ran;			/* for how long a leader certainly led since it applied the last one (clock.Led) */
	byte until, heard;		/* the moment up to which ran counts; the term of the leader that was heard last */
	byte known;			/* the newest term that its Raft knows */
	byte raft, from;		/* the term in which its Raft leads, or believes to; entries before those of the term */
	byte lead, base, origin;	/* the clock that it leads with; the term, or 0 */
	bool opened;			/* the first entry of the term was made */
	bool made, asks;		/* an entry that is stamped, and that Raft is yet to be handed */
	byte stamp, tick, madeAt, led
};
Node node[NODES];
#define me node[n]
#define tickOf(n) (node[n].base + now - node[n].origin)

/* What a node goes on from if it leads (State.GoOn). */
#ifdef COUNTS_SILENCE
#define goesOn(n) (ticks[node[n].applied] + node[n].ran + now - node[n].until)
#else
#define goesOn(n) (ticks[node[n].applied] + node[n].ran)
#endif
#define isDue(n) (ends[node[n].applied] != 0 && tickOf(n) > ends[node[n].applied])

#define counts me.ran = me.ran + now - me.until; me.until = now

/*
 * A node answers a message now, and the next one on that connection tells later that the leader led now. The model
 * counts at once. What Raft refuses, as it knows a later term, does not come here.
 */
inline hears(leads) {
	if
#ifdef HEARS_ACROSS_LEADERS
	:: true -> counts
#else
	:: leads == me.heard -> counts
	:: leads != me.heard -> me.until = now
#endif
	fi;
	me.heard = leads; me.known = leads;
	assert(goesOn(n) <= ticks[me.applied] + now - madeAts[me.applied])
}

/* A node applies an entry, or a snapshot takes its place. What all have applied is forgotten here. */
inline apply() {
	me.applied++;
#ifdef SNAPSHOT_KEEPS_TIME
	if
	:: true
	:: me.until = now; me.ran = 0
	fi;
#else
	me.until = now; me.ran = 0;
#endif
	if
	:: node[0].applied > 0 && node[1].applied > 0 ->
		for (i : 0 .. ENTRIES - 1) {
			ticks[i] = ticks[i + 1]; ends[i] = ends[i + 1]; madeAts[i] = madeAts[i + 1]; leds[i] = leds[i + 1]
		}
		ticks[i] = 0; ends[i] = 0; madeAts[i] = 0; leds[i] = 0;
		for (i : 0 .. ENTRIES - 2) {
			log[i].term = log[i + 1].term; log[i].stamp = log[i + 1].stamp; log[i].tick = log[i + 1].tick;
			log[i].asks = log[i + 1].asks; log[i].madeAt = log[i + 1].madeAt; log[i].led = log[i + 1].led
		}
		clear(i);
		for (i : 0 .. 1) {
			node[i].applied--;
			node[i].from = (node[i].from > 0 -> node[i].from - 1 : 0)
		}
		committed--; length--
	:: else
	fi;
	i = 0
}

inline clear(e) {
	log[e].term = 0; log[e].stamp = 0; log[e].tick = 0; log[e].asks = false; log[e].madeAt = 0; log[e].led = 0
}

#define entry log[committed]
inline commit() {
	ticks[committed + 1] = ticks[committed]; ends[committed + 1] = ends[committed];
	madeAts[committed + 1] = madeAts[committed]; leds[committed + 1] = leds[committed];
	if
#ifndef VOID_RUNS
	:: entry.term != entry.stamp
#endif
	:: else ->
		assert(entry.tick <= ticks[committed] + entry.madeAt - madeAts[committed]);
		assert(entry.tick <= ticks[committed] + entry.led - leds[committed]);
		ticks[committed + 1] = (entry.tick > ticks[committed] -> entry.tick : ticks[committed]);
		madeAts[committed + 1] = entry.madeAt; leds[committed + 1] = entry.led;
		if
		:: entry.asks -> granted = true; ends[committed + 1] = ticks[committed + 1] + LEASE
		:: !entry.asks && ticks[committed + 1] > ends[committed] -> ends[committed + 1] = 0
		:: else
		fi
	fi;
	committed++
}

/* A process that starts applies again what is on its disk, and has heard no leader. */
inline restart() {
	starts++;
	me.until = now; me.heard = 0; me.ran = 0;
	stopLeading();
	me.raft = 0; me.made = false; me.asks = false; me.stamp = 0; me.tick = 0; me.madeAt = 0; me.led = 0
}
inline stopLeading() { me.lead = 0; me.base = 0; me.origin = 0; me.opened = false }

inline makes(what) {
	me.made = true; me.asks = what; me.opened = true;
	me.stamp = me.lead; me.tick = tickOf(n); me.madeAt = now; me.led = ledTime
}

inline handToRaft() {
	if
	:: me.raft == term ->
		log[length].term = term; log[length].stamp = me.stamp; log[length].tick = me.tick;
		log[length].asks = me.asks; log[length].madeAt = me.madeAt; log[length].led = me.led;
		length++
	:: else	/* Raft refuses it, or it goes into the log of a node that is deposed, and no further */
	fi;
	asked = asked && !(me.asks && me.raft != term);
	me.made = false; me.asks = false; me.stamp = 0; me.tick = 0; me.madeAt = 0; me.led = 0
}

proctype Server(byte n)
{
	byte i;
end:	do
	/* Raft. */
	:: atomic { term < TERMS ->
		term++;
		stopLeading();
		me.raft = term; me.known = term;
		do
		:: length > committed -> length--; asked = asked && !log[length].asks; clear(length)
		:: break
		od;
		me.from = length }
	:: d_step { me.raft != 0 && me.raft < term ->
#ifdef COUNTS_ITS_PAUSE
		if
		:: me.lead != 0 -> counts
		:: else
		fi;
#endif
		me.raft = 0; stopLeading() }
	:: d_step { me.raft == 0 && node[1 - n].raft != 0 && node[1 - n].raft >= me.known &&
		(me.until < now || me.heard != node[1 - n].raft) -> hears(node[1 - n].raft) }
	/* A majority answers this leader: nobody has been elected since. */
	:: d_step { me.lead != 0 && me.raft == term && me.until < now -> counts }
#ifdef COUNTS_THE_WAY
	/* The last message of a leader arrives when it has ended. */
	:: d_step { me.raft == 0 && me.heard != 0 && me.heard == me.known && node[1 - n].raft != me.heard && me.until < now ->
		counts }
#endif
	:: d_step { me.raft == term && committed < length -> commit() }
	:: d_step { starts < STARTS -> restart() }
	/* The machine. */
	:: atomic { me.applied < committed -> apply() }
	/* The leader: its clock, entries, a read. */
	:: d_step { me.raft != 0 && me.lead == 0 && me.applied >= me.from ->
		me.lead = me.raft; me.base = goesOn(n); me.origin = now; me.heard = me.raft; me.until = now;
		assert(me.base <= ticks[me.applied] + now - madeAts[me.applied]) }
	:: d_step { me.lead != 0 && !me.made && (!me.opened
#ifndef SLEEPING
		|| isDue(n) && length == me.applied
#endif
		) -> makes(false) }
	:: d_step { me.lead != 0 && !me.made && !asked -> asked = true; makes(true) }
	:: d_step { me.made && (me.raft != term || length < ENTRIES) -> handToRaft() }
	:: d_step { me.lead == term && me.raft == term && me.applied == committed && saidOver && ends[me.applied] != 0 ->
		assert(false) }	/* never: a confirmed read finds the lock held again */
	:: d_step { me.lead == term && me.raft == term && me.applied == committed && !saidOver &&
#ifdef OWN_CLOCK
		isDue(n) ->
#else
		ends[me.applied] == 0 && granted ->
#endif
		saidOver = true }
	od
}

proctype time_passes()
{
end:	do
	:: d_step { now < END -> now++; ledTime = ledTime + (term > 0 && (node[0].raft == term || node[1].raft == term)) }
	od
}

/* At the end of a run, when nothing more can happen, no leader knows of a lease that is over and has not ended. */
proctype end_of_run()
{
	byte n;
	timeout ->
	for (n : 0 .. NODES - 1) {
		assert(!(me.lead == term && isDue(n)))
	}
}

init {
	atomic { run Server(0); run Server(1); run time_passes(); run end_of_run() }
}
