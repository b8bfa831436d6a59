package clients;

import java.util.concurrent.Callable;

/**
 * One thing that a library shows.
 *
 * @param kills whether leaders must die in it: such a scene plays in a round
 * @param alone whether it kills them itself: such a scene plays when no other does
 */
record Scene(String name, boolean kills, boolean alone, Show show) {
    /** Shows it. What it throws is its failure, what it returns is said with its success. */
    interface Show {
        String play(Round round) throws Exception;
    }

    /** A show that has nothing to say. */
    interface Quiet {
        void play() throws Exception;
    }

    static Scene calm(String name, Quiet show) {
        return new Scene(name, false, false, round -> {
            show.play();
            return "";
        });
    }

    static Scene failover(Show show) {
        return new Scene("failover", true, false, show);
    }

    static Scene alone(String name, Callable<String> show) {
        return new Scene(name, false, true, round -> show.call());
    }

    static Scene none(String name, String reason) {
        return calm(name, () -> {
            throw new NoScene(reason);
        });
    }
}
