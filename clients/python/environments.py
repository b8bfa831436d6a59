"""Makes the virtual environments of the suite: one for each file in environments/.

Each holds one version of redis-py, or a library that needs another one. NAME.in lists the
requirements, NAME.txt is its lock file, written by

    pip-compile --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links NAME.in

An environment whose lock file has not changed is left as it is.
"""

import concurrent.futures
import hashlib
import pathlib
import shutil
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).parent
LOCKS = sorted((HERE / "environments").glob("*.txt"))
MADE = HERE / ".environments"

# The least Python that the lock files are for.
PYTHON_MIN = (3, 11)


def python(environment: str) -> str:
    """The interpreter of an environment."""
    return str(MADE / environment / "bin" / "python")


def make(lock: pathlib.Path) -> None:
    """Makes the environment of a lock file, if there is none made from it by this Python."""
    root = MADE / lock.stem
    mark = root / "made-from"
    wanted = sys.version + hashlib.sha256(lock.read_bytes()).hexdigest()
    if mark.exists() and mark.read_text() == wanted:
        return
    shutil.rmtree(root, ignore_errors=True)
    venv.create(root, with_pip=True)
    pip = [python(lock.stem), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "-r", lock], check=True)
    mark.write_text(wanted)  # last: an environment half made is made again


def main() -> None:
    if sys.version_info < PYTHON_MIN:
        sys.exit(f"the suite needs Python {'.'.join(map(str, PYTHON_MIN))}, and this is {sys.version}")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in pool.map(make, LOCKS):
            pass


if __name__ == "__main__":
    main()
