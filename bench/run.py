#!/usr/bin/env python3
"""Run the peer benchmark with antiphon's adapter, and print its report.

    python bench/run.py [--rounds N] [--workloads W1,W2,...] [--out FILE]

The benchmark itself (workloads, floors, rules) lies beside the repository in `../shared/bench`, or where
`ANTIPHON_BENCH` says. Figures mean something only as multiples of `floor_contract` in the same run, on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORKLOADS = "W1,W2,W3,W3r,W4,W5,W6,W7"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workloads", default=WORKLOADS)
    parser.add_argument("--out", default=str(Path(tempfile.gettempdir()) / "antiphon-bench.json"))
    asked = parser.parse_args()
    folder = Path(os.environ.get("ANTIPHON_BENCH", ROOT.parent / "shared" / "bench"))
    if not (folder / "run.py").is_file():
        print(f"no benchmark in {folder}; set ANTIPHON_BENCH to the folder that holds its run.py", file=sys.stderr)
        return 2
    environ = {**os.environ, "ANTIPHON_SRC": str(ROOT), "ANTIPHON_PYTHON": sys.executable}
    run = [sys.executable, str(folder / "run.py"), "--peers", "floor,floor_contract,antiphon"]
    run += ["--workloads", asked.workloads, "--rounds", str(asked.rounds), "--out", asked.out]
    code = subprocess.call(run, env=environ)
    return code or subprocess.call([sys.executable, str(folder / "report.py"), asked.out], env=environ)


if __name__ == "__main__":
    sys.exit(main())
