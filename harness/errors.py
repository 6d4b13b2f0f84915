"""What ends a command early: one clear sentence and an exit code (2 usage, 3 environment)."""


class HarnessError(Exception):
    exit_code = 4


class UsageError(HarnessError):
    exit_code = 2


class EnvironmentFailure(HarnessError):
    exit_code = 3
