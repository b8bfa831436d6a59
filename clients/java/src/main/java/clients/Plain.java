package clients;

import java.time.Duration;

/** The operations of a program that locks by hand, with a client that is no lock library. */
interface Plain extends AutoCloseable {
    String RELEASE =
            "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

    void set(String key, String value);

    String get(String key);

    boolean setIfAbsent(String key, String value, Duration lease);

    /** Runs {@link #RELEASE}. */
    long release(String key, String value);

    /** Three INCR in one write; returns the last answer. */
    long pipeline(String key) throws Exception;

    /** MULTI, INCR, EXEC; returns INCR's answer. */
    long transaction(String key) throws Exception;

    /** Returns the error text of HGET on a string. */
    String error(String key);

    /** Subscribes, publishes, and returns the message that comes. */
    String echo(String channel, String message) throws Exception;

    @Override
    void close();

    /** Makes a client with a bound of its wait for an answer. */
    interface Open {
        Plain open(Duration timeout);
    }
}
