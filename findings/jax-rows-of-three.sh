#!/usr/bin/env bash
# Version: jax 0.10.2 on a CPU, compared with 0.10.1
# Guess: a jitted float32 sum of squares of M @ x.T, M 3 by 3, differs from float64 by roundings.
# Seen: with 40,000 rows, thousands of the results from row 32,768 on are other numbers. 32,768
#   rows or 50,000 are right, and so is 0.10.1.
# Why: 0.10.2 fuses the small product into the reduction over the leading axis. Without the
#   reductions among the fused operations the answer is right (XLA_FLAGS below, jax issue 39103).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
cat >"$folder/show.py" <<'EOF'
import sys

import jax
import numpy as np

wrong = {}
for rows in (32_768, 40_000, 50_000):
    generator = np.random.default_rng(0)
    matrix, points = generator.random((3, 3), "f"), generator.random((rows, 3), "f")
    found = jax.jit(lambda x: ((matrix @ x.T) ** 2).sum(0))(points)
    right = ((matrix.astype("d") @ points.T.astype("d")) ** 2).sum(0)
    places = np.flatnonzero(~np.isclose(found, right, rtol=1e-4))
    wrong[rows] = len(places)
    first = f", the first in row {places[0]}" if len(places) else ""
    print(f"jax {jax.__version__}, {sys.argv[1]}: {rows} rows, {len(places)} wrong{first}")
expected = sys.argv[2] == "wrong"
if bool(wrong.pop(40_000)) != expected or any(wrong.values()):
    sys.exit("This has changed.")
EOF
export JAX_PLATFORMS=cpu
"$folder/env/bin/pip" install -qq jax==0.10.1 jaxlib==0.10.1
"$folder/env/bin/python" "$folder/show.py" "as installed" right
"$folder/env/bin/pip" install -qq jax==0.10.2 jaxlib==0.10.2
"$folder/env/bin/python" "$folder/show.py" "as installed" wrong
export XLA_FLAGS=--xla_cpu_experimental_ynn_fusion_type=-reduce
"$folder/env/bin/python" "$folder/show.py" "$XLA_FLAGS" right
