package clients;

/** An event that must never happen, even where errors of a library are allowed. */
final class Violation extends RuntimeException {
    private static final long serialVersionUID = 1;

    Violation(String what) {
        super(what);
    }
}
