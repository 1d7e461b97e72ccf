"""How much memory this process has held at most.

Knows the operating system's account of it, nothing else.
"""

from __future__ import annotations

import sys


def peak_rss_mb() -> float:
    """The largest resident size so far, in MB (10^6 bytes); 0 where the system does not say."""
    try:
        # Of this program alone: what getrusage says begins with the peak of the process that started it.
        with open("/proc/self/status", "rb") as status:
            for line in status:
                if line.startswith(b"VmHWM:"):
                    return round(int(line.split()[1]) * 1024 / 1e6, 1)
    except OSError:  # not Linux
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak * (1 if sys.platform == "darwin" else 1024) / 1e6, 1)
