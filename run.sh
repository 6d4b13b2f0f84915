#!/usr/bin/env bash
# The one entry: makes the core environment on first use, then runs the harness in it.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
core=$root/.cache/environments/core
export PYTHONPATH=$root

if ! cat "$root"/environments/{core,loadgen-v6.1}.txt | cmp -s - "$core/lock.txt"; then
    for python in python3 python3.13 python3.12 python3.11; do
        if "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then found=1; break; fi
    done
    if [ -z "${found:-}" ]; then
        echo "run.sh: Python 3.11, 3.12 or 3.13 is needed (LoadGen has wheels for these) and none was found: install one, or put it on PATH" >&2
        exit 3
    fi
    "$python" -P -m harness.execution.environments "$core"
fi
exec "$core/bin/python" -P -m harness "$@"
