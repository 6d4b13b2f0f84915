#!/usr/bin/env bash
# Version: mlcommons-loadgen 6.0.17
# Guess: a number in user.conf is a number, 1e2 is 100 and a limit of 200.5 ms is 200.5 ms.
# Seen: counts, durations and Server's latency limit are cut at the first character that no
#   integer has, without an error: 1e2 becomes 1, 200.5 becomes 200, 0100 becomes 64.
# Why: LoadGen reads these keys as integers (a leading 0 means base 8, 0x means base 16) and
#   target_qps as a floating-point number, so the same text is two different numbers in one file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -qq mlcommons-loadgen==6.0.17
cat >"$folder/show.py" <<'EOF'
import sys
from pathlib import Path

import mlperf_loadgen as lg

KEYS = ("min_query_count", "min_duration", "target_latency", "target_qps")
SEEN = {
    "100": (100, 100, 100, 100.0),
    "1e2": (1, 1, 1, 100.0),
    "200.5": (200, 200, 200, 200.5),
    "0100": (64, 64, 64, 100.0),
    "0x64": (100, 100, 100, 100.0),
}
conf = Path(sys.argv[1]) / "user.conf"
print(("{:>16}" * 5).format("user.conf", *KEYS))
changed = []
for text, expected in SEEN.items():
    conf.write_text("".join(f"model.Server.{key} = {text}\n" for key in KEYS))
    settings = lg.TestSettings()
    code = settings.FromConfig(str(conf), "model", "Server")
    limit_ms = settings.server_target_latency_ns / 1e6
    counts = (settings.min_query_count, settings.min_duration_ms)
    values = (*counts, limit_ms, settings.server_target_qps)
    print(("{:>16}" * 5).format(text, *values))
    if code != 0 or values != expected:
        changed.append(text)
sys.exit(f"This has changed: {', '.join(changed)}" if changed else 0)
EOF
"$folder/env/bin/python" "$folder/show.py" "$folder"
