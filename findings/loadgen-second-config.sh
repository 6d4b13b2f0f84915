#!/usr/bin/env bash
# Version: mlcommons-loadgen 6.0.17
# Guess: a program that tests SingleStream and then Offline gives each test the settings that the
#   test would have in a process of its own.
# Seen: the second test lacks the ten minutes and the round's seeds. Its result is VALID.
# Why: FromConfig loads the built-in mlperf.conf only at its first call in a process, whatever
#   TestSettings it fills. It logs an error, and the verdict does not depend on logged errors.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -qq mlcommons-loadgen==6.0.17
cat >"$folder/show.py" <<'EOF'
import json
import sys
from pathlib import Path

import mlperf_loadgen as lg

folder, scenarios = Path(sys.argv[1]), sys.argv[2:]
conf = folder / "user.conf"
conf.write_text("model.Offline.target_qps = 1000\n")
for scenario in scenarios:
    settings = lg.TestSettings()
    assert settings.FromConfig(str(conf), "model", scenario) == 0
least, seed = settings.min_duration_ms, settings.qsl_rng_seed


def issue(samples):
    lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0) for sample in samples])


settings.scenario = lg.TestScenario.Offline
settings.mode = lg.TestMode.PerformanceOnly
settings.min_duration_ms = 0  # only the verdict is of interest here
log = lg.LogSettings()
log.log_output.outdir = str(folder)
sut = lg.ConstructSUT(issue, lambda: None)
library = lg.ConstructQSL(64, 64, lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, library, settings, log, "none.config")
lines = (folder / "mlperf_log_detail.txt").read_text().splitlines()
entries = [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]
verdict = next(e["value"] for e in entries if e["key"] == "result_validity")
errors = [e["value"] for e in entries if e["metadata"]["is_error"]]
print(f"{' then '.join(scenarios)}: at least {least} ms, seed {seed}, {verdict}, errors {errors}")
first = len(scenarios) == 1
expected = (600_000, 2085463073848966840) if first else (10_000, 0)
if (least, seed) != expected or verdict != "VALID" or first == bool(errors):
    sys.exit("This has changed.")
EOF
"$folder/env/bin/python" "$folder/show.py" "$folder" Offline
"$folder/env/bin/python" "$folder/show.py" "$folder" SingleStream Offline
