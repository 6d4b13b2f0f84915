"""`python -m tests.golden COMMAND`, in the environment `dev`:

    make FOLDER             measure run directories and write submissions, by this checkout
    derive FOLDER OUT       write what this checkout derives of FOLDER: results, audits, reports,
                            and the plans of many flags
    compare A B [FIELD …]   name each field by which two such OUT differ; these may differ

Before a commit that should change no output: `make` and `derive` in a checkout of the commit before
(`git worktree add ../before HEAD`). After it: `derive` the same FOLDER in this one, and `compare`.
Measurements differ each time, so FOLDER is made once, and only derived outputs are compared. The
two checkouts need one machine and the same environment variables.
"""

import sys
from pathlib import Path

from tests.golden import comparing, deriving, making

_COMMANDS = {"make": making.main, "derive": deriving.main, "compare": comparing.main}


def main(arguments):
    """Run the command. → the exit code: `compare` has 1 if a field differs."""
    command = _COMMANDS.get(arguments[0]) if arguments else None
    if command is None:
        print(__doc__)
        return 0 if arguments == ["--help"] else 2
    return command(*map(Path, arguments[1:3]), *arguments[3:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
