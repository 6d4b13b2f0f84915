"""The sentences on how to fix a finding that several families of checks share."""

VALID = "measure at the settings of the round: --mode valid"
BOTH = (
    "measure both tests again, one after the other, with the official LoadGen and a clock that is"
    " right"
)
FIGURES = "measure again: the figures are not of one unchanged run"
LOGS = "measure again: the logs are not of one unchanged run"
SETTINGS = "measure again: log, user.conf and record are not of one unchanged run"
OWN = "put the run's own file there, or measure again"
COMPLY = "run the compliance test anew: ./run.sh compliance RUN_DIR --force"
RUN = "put back what the run wrote, or measure again"
