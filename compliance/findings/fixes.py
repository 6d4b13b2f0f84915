"""The sentences on how to fix a finding that several families of checks share."""

VALID = "measure with the settings of the round: --mode valid"
BOTH = (
    "measure both tests again, one after the other, with the official LoadGen and a correct clock"
)
FIGURES = "measure again: the figures are not those of one unchanged run"
LOGS = "measure again: the logs are not those of one unchanged run"
SETTINGS = "measure again: log, user.conf and record are not those of one unchanged run"
OWN = "put the run's own file there, or measure again"
COMPLY = "run the compliance test again: ./run.sh compliance RUN_DIR --test TEST"
RUN = "restore the files that the run wrote, or measure again"
