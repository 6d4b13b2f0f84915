"""What ends a command early: one clear sentence and an exit code (2 usage, 3 environment)."""


class HarnessError(Exception):
    """What the user must mend before anything can be measured; its text is the one sentence shown."""

    exit_code = 4


class UsageError(HarnessError):
    """The command line asks for what cannot be (exit code 2)."""

    exit_code = 2


class EnvironmentFailure(HarnessError):
    """The machine or an environment is not what is needed (exit code 3)."""

    exit_code = 3
