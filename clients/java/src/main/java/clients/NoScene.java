package clients;

/** Thrown by a scene that does not apply to the library. */
final class NoScene extends Exception {
    private static final long serialVersionUID = 1;

    NoScene(String reason) {
        super(reason);
    }
}
