"""A command of the harness in the process of the tests, which starts no interpreter."""

import os

from harness import cli


def call(words, captured):
    """→ the command's exit code, its standard output and its standard error."""
    arguments = [os.fsdecode(word) if isinstance(word, bytes) else str(word) for word in words]
    try:
        code = cli.main(arguments)
    except SystemExit as ended:  # by argparse, as after --help
        code = int(ended.code or 0)
    return code, *captured.readouterr()
