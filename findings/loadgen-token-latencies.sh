#!/usr/bin/env bash
# Version: mlcommons-loadgen 6.0.17
# Guess: early_stopping_latency_ss, the figure of a SingleStream result, is an upper estimate of
#   the 90th percentile latency, so it is never below that percentile.
# Seen: with use_token_latencies it is several times below.
# Why: LoadGen then estimates the time per output token and the time to the first token, and writes
#   both into this field. The second one stays. No key has the estimate of the whole latency. Take
#   result_90.00_percentile_latency_ns from such a log.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -qq mlcommons-loadgen==6.0.17
cat >"$folder/show.py" <<'EOF'
import json
import sys
import time
from pathlib import Path

import mlperf_loadgen as lg

folder, tokens = Path(sys.argv[1]), sys.argv[2] == "yes"


def issue(samples):
    time.sleep(0.002)
    if tokens:
        lg.FirstTokenComplete([lg.QuerySampleResponse(sample.id, 0, 0) for sample in samples])
    time.sleep(0.018)
    lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0, 10) for sample in samples])


settings = lg.TestSettings()
settings.scenario, settings.mode = lg.TestScenario.SingleStream, lg.TestMode.PerformanceOnly
settings.min_duration_ms, settings.min_query_count = 100, 200
settings.single_stream_expected_latency_ns = 20_000_000
settings.use_token_latencies = tokens
settings.ttft_latency = settings.tpot_latency = 10**9
log = lg.LogSettings()
log.log_output.outdir = str(folder)
sut = lg.ConstructSUT(issue, lambda: None)
library = lg.ConstructQSL(64, 64, lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, library, settings, log, "none.config")
lines = (folder / "mlperf_log_detail.txt").read_text().splitlines()
entries = [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]
values = {entry["key"]: entry["value"] for entry in entries}
percentile = values["result_90.00_percentile_latency_ns"] / 1e6
estimate = values["early_stopping_latency_ss"] / 1e6
print(f"token latencies {sys.argv[2]}: {values['result_validity']}, 90th percentile", end=" ")
print(f"{percentile:.2f} ms, early_stopping_latency_ss {estimate:.2f} ms")
if values["result_validity"] != "VALID" or tokens != (estimate < percentile / 2):
    sys.exit("This has changed.")
EOF
"$folder/env/bin/python" "$folder/show.py" "$folder" no
"$folder/env/bin/python" "$folder/show.py" "$folder" yes
