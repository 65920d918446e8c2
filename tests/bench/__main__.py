"""make bench: what the verbs cost, each beside its floor, in turn, in one directory.

    python tests/bench [--dir DIRECTORY] [--rounds N] [--json FILE] [ROW…]

Prints a row each: median and minimum of the product and of its floor, and the ratio of the medians.  Only the ratios
mean something on another day or machine.  Measures the package that this interpreter has installed.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(rows.ROWS))
    parser.add_argument("--dir", default=None, help="where the spools are made (default: TMPDIR)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", default=None, help="write all figures there")
    asked = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="bench-", dir=asked.dir))
    figures = {}
    try:
        floor = rows.Floor(place)
        print(
            f"{'row':<28} {'median':>10} {'minimum':>10}   {'floor':<34} {'median':>10} {'minimum':>10}   ratio  target"
        )
        for name in asked.rows or rows.ROWS:
            row = rows.ROWS[name]
            ours, theirs = row.measure(floor, place, asked.rounds)
            if not theirs:
                print(f"{name:<28} skipped: needs {row.needs}")
                continue
            figures[name] = figure = {
                "unit": row.unit,
                "floor": row.floor,
                "target": row.target,
                "ours": summary(ours),
                "theirs": summary(theirs),
                "ratio": round(statistics.median(ours) / statistics.median(theirs), 2),
            }
            print(
                f"{name:<28} {figure['ours']['median']:>10.1f} {figure['ours']['minimum']:>10.1f}   {row.floor:<34} "
                f"{figure['theirs']['median']:>10.1f} {figure['theirs']['minimum']:>10.1f}   {figure['ratio']:>5.2f}  "
                f"{row.target}"
            )
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if asked.json:
        Path(asked.json).write_text(json.dumps(figures, indent=2) + "\n")
    print("microseconds (send-cli, send-tool…, hook-silent: milliseconds); ratio of the medians")
    return 0


def summary(values: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 1), "minimum": round(min(values), 1), "n": len(values)}


if __name__ == "__main__":
    sys.exit(main())
