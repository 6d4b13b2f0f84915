#!/usr/bin/env bash
# The one entry: makes the core environment on first use, then runs the harness in it.
set -euo pipefail
unset PYTHONDONTWRITEBYTECODE  # without bytecode each start would compile all our sources again, for two seconds
root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd -P)
export PYTHONPATH=$root
case $0 in */*) export HARNESS_RUN_SH=$0 ;; esac  # how the reader calls it, for the commands that are proposed

made() { cat "$root"/environments/{core,loadgen-v6.1}.txt | cmp -s - "$1/lock.txt"; }

core=$root/.cache/environments/core
if ! made "$core"; then
    if ! { mkdir -p "$core" && [ -w "$core" ]; } 2>/dev/null; then  # a checkout that cannot be written: what --cache names
        previous=
        for word in "$@"; do
            case $previous$word in
                --cache=*) core=${word#--cache=}/environments/core ;;
                --cache\ *) core=$word/environments/core ;;
            esac
            previous=
            if [ "$word" = --cache ]; then previous='--cache '; fi
        done
    fi
    bundled=  # the Python that the wheels of a bundle are for
    if [ -e "$root/bundle.json" ]; then bundled=$(sed -n 's/^ "python": "\(.*\)",$/\1/p' "$root/bundle.json"); fi
    for python in python3 python3.13 python3.12 python3.11; do
        if "$python" -c "import sys; own = sys.version_info[:2]; wanted = '$bundled' or '%d.%d' % own
sys.exit(not (3, 11) <= own <= (3, 13) or '%d.%d' % own != wanted)" 2>/dev/null; then found=1; break; fi
    done
    if [ -z "${found:-}" ] && [ -n "$bundled" ]; then
        echo "run.sh: the wheels of this bundle are for Python $bundled and none was found: put python$bundled on PATH, or make the bundle with --python" >&2
        exit 3
    elif [ -z "${found:-}" ]; then
        echo "run.sh: Python 3.11, 3.12 or 3.13 is needed (LoadGen has wheels for these) and none was found: install one, or put it on PATH" >&2
        exit 3
    fi
    if ! made "$core"; then "$python" -P -m harness.execution.environments "$core"; fi
fi
exec "$core/bin/python" -P -m harness "$@"
