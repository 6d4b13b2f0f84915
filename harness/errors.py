"""These errors end a command early, with one clear sentence and an exit code (2 usage, 3
environment).
"""

import os


class HarnessError(Exception):
    """A fault that the user must mend before anything can be measured. Its text is the one sentence
    that is shown.
    """

    exit_code = os.EX_SOFTWARE


class UsageError(HarnessError):
    """The command line asks for what cannot be (exit code 2)."""

    exit_code = 2


class EnvironmentFailure(HarnessError):
    """The machine or an environment is not what is needed (exit code 3)."""

    exit_code = 3
