#!/usr/bin/env bash
# Version: mlcommons-loadgen 6.0.17 (Linux, a C compiler)
# Guess: a benchmark measures with a monotonic clock, so a correction of the calendar during a
#   test changes no figure.
# Seen: if the calendar is set by 1.5 s while a query is answered, that query took 1.5 s, a test
#   of two seconds ends after half a second, and the result is VALID without an error.
# Why: LoadGen takes its times from std::chrono::high_resolution_clock, which is the calendar's
#   clock in libstdc++. This script does not set the clock: a library answers clock_gettime with
#   a calendar that is set forward at one moment, in this process only.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -qq mlcommons-loadgen==6.0.17
cat >"$folder/calendar.c" <<'EOF'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int step_ms = 0;
int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*original)(clockid_t, struct timespec *);
  if (!original) original = dlsym(RTLD_NEXT, "clock_gettime");
  int code = original(clock, now);
  if (clock == CLOCK_REALTIME) {
    long ns = now->tv_nsec + (step_ms % 1000) * 1000000L;
    now->tv_sec += step_ms / 1000 + ns / 1000000000L;
    now->tv_nsec = ns % 1000000000L;
  }
  return code;
}
EOF
cc -shared -fPIC -o "$folder/calendar.so" "$folder/calendar.c" -ldl
cat >"$folder/show.py" <<'EOF'
import ctypes
import sys
import time
from pathlib import Path

import mlperf_loadgen as lg

folder = Path(sys.argv[1])
step_ms = ctypes.c_int.in_dll(ctypes.CDLL(str(folder / "calendar.so")), "step_ms")
times = []


def issue(samples):
    begin = time.monotonic()
    time.sleep(0.002)
    if len(times) == 50:
        step_ms.value = 1500
    lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0) for sample in samples])
    times.append(time.monotonic() - begin)


settings = lg.TestSettings()
settings.scenario, settings.mode = lg.TestScenario.SingleStream, lg.TestMode.PerformanceOnly
settings.min_duration_ms, settings.single_stream_expected_latency_ns = 2000, 2_000_000
log = lg.LogSettings()
log.log_output.outdir = str(folder)
sut = lg.ConstructSUT(issue, lambda: None)
library = lg.ConstructQSL(64, 64, lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, library, settings, log, "none.config")
print(f"Monotonic clock: {sum(times):.2f} s in all, slowest query {max(times) * 1e3:.1f} ms")
summary = (folder / "mlperf_log_summary.txt").read_text()
parts = ("Result is", "  Min duration", "Max latency", "No errors")
lines = [line for line in summary.splitlines() if line.startswith(parts)]
print("LoadGen:", *lines, sep="\n  ")
slowest_ns = int(next(line.split(":")[1] for line in lines if line.startswith("Max")))
valid = "Result is : VALID" in lines and len(lines) == 4
if not valid or slowest_ns < 1.5e9 or max(times) > 1 or sum(times) > 1.5:
    sys.exit("This has changed.")
EOF
LD_PRELOAD="$folder/calendar.so" "$folder/env/bin/python" "$folder/show.py" "$folder"
