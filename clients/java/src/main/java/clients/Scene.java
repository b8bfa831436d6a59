package clients;

import java.util.concurrent.Callable;

/**
 * One test of a library.
 *
 * @param kills whether leaders die in it: such a scene plays in a round
 * @param alone whether it kills them itself: such a scene plays alone
 */
record Scene(String name, boolean kills, boolean alone, Show show) {
    /** Runs the scene. An exception is its failure; the result is printed with its success. */
    interface Show {
        String play(Round round) throws Exception;
    }

    /** A scene without a result to print. */
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
