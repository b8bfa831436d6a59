package clients;

import java.time.Duration;

/** A program of a user: one client of a library, shared by the program's threads. */
interface Program extends AutoCloseable {
    /** A lock as one thread holds it. */
    Locker lock(String name);

    /** Ends as a crash would: nothing is released. */
    @Override
    void close();

    /** Makes programs: the client of each finds the servers by node number i, where it knows one address only. */
    interface Start {
        Program at(int i, Duration lease) throws Exception;
    }

    /** Both calls of a thread come from that thread. */
    interface Locker {
        /** Waits until the lock is held. */
        void lock() throws Exception;

        void unlock() throws Exception;
    }
}
