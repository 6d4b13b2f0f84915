"""The sentences on how to fix a finding that several families of checks share."""

VALID = "measure with the settings of the round: --mode valid"
BOTH = (
    "measure both tests again, one after the other, with the official LoadGen and a correct clock"
)
FIGURES = "measure again: the figures are not those of one unchanged run"
LOGS = "measure again: the logs are not those of one unchanged run"
SETTINGS = "measure again: log, user.conf and record are not those of one unchanged run"
OWN = "put the run's own file there, or measure again"
MISSING_FILES = (
    "add the missing files: a run directory has the logs and user.conf in raw/; the others are"
    " written if it is measured again"
)
COMPLY = "run the compliance test again: ./run.sh compliance RUN_DIR --test TEST"
MISSING_TEST = "run the compliance test: ./run.sh compliance RUN_DIR"
FILES_OF_A_TEST = (
    "keep only the files that the layout requires; ./run.sh compliance RUN_DIR --test TEST writes"
    " them"
)
SOURCE = "measure with --mode submission, which copies the source"
RUN = "restore the files that the run wrote, or measure again"

_SCRIPTS = "the scripts in compliance/ of mlcommons/inference"
_FOR_OTHERS = {
    VALID: "measure with the durations and counts of the round",
    COMPLY: f"run the compliance test again, with {_SCRIPTS}",
    MISSING_TEST: f"run the compliance test, with {_SCRIPTS}",
    FILES_OF_A_TEST: f"keep only the files that the layout requires; {_SCRIPTS} write them",
    MISSING_FILES: "add the missing files",
    SOURCE: "submit the source that ran",
}


def for_others(fix: str) -> str:
    """The advice for a directory that another harness wrote, without this one's commands."""
    return _FOR_OTHERS.get(fix, fix)
