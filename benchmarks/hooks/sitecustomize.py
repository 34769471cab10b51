"""Python imports this at its start, in processes of ``benchmarks --without NAME``."""

import os
import sys

if "BENCHMARK_WITHOUT" in os.environ:
    from benchmarks.fast_paths import FAST_PATHS, SwitchOff

    sys.meta_path.insert(0, SwitchOff(FAST_PATHS[os.environ["BENCHMARK_WITHOUT"]]))
