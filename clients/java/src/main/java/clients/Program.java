package clients;

import java.time.Duration;

/** A program of a user: one client of a library, shared by the program's threads. */
interface Program extends AutoCloseable {
    /** A lock as one thread holds it. */
    Locker lock(String name);

    /** Ends as a crash would: nothing is released. */
    @Override
    void close();

    /** Makes programs: the client of each finds the servers by node number i, if it knows a single address. */
    interface Start {
        Program at(int i, Duration lease) throws Exception;
    }

    /** One thread makes both calls. */
    interface Locker {
        /** Waits until the lock is held. */
        void lock() throws Exception;

        void unlock() throws Exception;
    }
}
