"""Programs that compile beside each other measure one after the other: each while it holds a file's lock."""
import contextlib
import fcntl
import pathlib


def add_turn(parser):
    parser.add_argument("--turn", nargs=2, metavar=("LOCK", "READY"),
                        help="files: makes the second when it is ready, and measures while it holds the first's lock")


@contextlib.contextmanager
def turn(files):
    if files is None:
        yield
        return
    lock, ready = files
    pathlib.Path(ready).touch()
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
